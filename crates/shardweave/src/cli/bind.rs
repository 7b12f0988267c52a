//! Binding: which array each input gets, and the sizes that follow.
//!
//! ```text
//!  --input x=x.npy ─────┐ by input's name
//!  --inputs in.st ──────┤                  one array an input ──▶ sources
//!  --weights m.st ──────┘ by `from`                  │
//!  --size s=128 ─────────────────────────────────────┴──────────▶ sizes
//! ```
//!
//! Every mistake is collected: a name that is no input, an array given twice, a tensor that the weights
//! lack, types and sizes that do not fit, an input that gets nothing.

use crate::args::ArrayArgs;
use crate::values::NamedSize;
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::id::Table;
use shardweave_compiler::program::{Def, Program, SizeBinder, Sizes, Value, ValueId};
use shardweave_compiler::text::closest;
use shardweave_runtime::files::{FileArray, TensorFile, Weights, open_npy};
use shardweave_runtime::tensor::ArraySource;

/// What becomes of the inputs that get no array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Nothing is run, so they need none.
    Unneeded,
    /// They are filled with random numbers.
    Random,
    /// That is a mistake.
    Mistake,
}

/// Sizes for all dims, and the arrays there are.
#[derive(Debug)]
pub struct Bound {
    pub sizes: Sizes,
    /// For each value the array that was given for it.
    pub arrays: Table<ValueId, Option<FileArray>>,
}

/// Opens the files and binds sizes and inputs to them.
pub fn bind(
    program: &Program,
    sizes: &[NamedSize],
    args: &ArrayArgs,
    missing: Missing,
) -> Result<Bound, Diagnostics> {
    let mut found = Diagnostics::new();
    let offers = Offers::gather(program, args, &mut found);
    if missing == Missing::Mistake {
        offers.missing(program, &mut found);
    }
    let arrays = offers.one_each(program, &mut found);
    for (input, array) in arrays.iter() {
        if let Some(Err(mistake)) = array.as_ref().map(|array| check_dtype(program, input, array)) {
            found.push(mistake);
        }
    }
    let sizes = bind_sizes(program, sizes, &arrays, &mut found);
    match sizes {
        Some(sizes) => found.finish(Bound { sizes, arrays }),
        None => Err(found),
    }
}

/// Sizes from `--size` and from the arrays. None if there was a mistake.
fn bind_sizes(
    program: &Program,
    sizes: &[NamedSize],
    arrays: &Table<ValueId, Option<FileArray>>,
    found: &mut Diagnostics,
) -> Option<Sizes> {
    let mut binder = SizeBinder::new(program);
    for named in sizes {
        binder.bind_named(&named.name, named.size);
    }
    for (input, array) in arrays.iter() {
        if let Some(array) = array {
            binder.bind_array(input, &array.describe(), array.shape());
        }
    }
    match binder.finish() {
        Ok(sizes) => Some(sizes),
        Err(told) => {
            // Sizes that only lack because an array could not be had are told by what is wrong with it.
            let because = !found.is_empty();
            for mistake in told.errors() {
                if !(because && mistake.code == Code::SizeMissing) {
                    found.push(mistake.clone());
                }
            }
            None
        }
    }
}

/// Every array that is given for an input.
struct Offers {
    arrays: Table<ValueId, Vec<FileArray>>,
    /// Inputs for which something is wrong that has been told: they are not missing.
    told: Table<ValueId, bool>,
}

impl Offers {
    fn gather(program: &Program, args: &ArrayArgs, found: &mut Diagnostics) -> Offers {
        let values = || program.values().keys();
        let mut offers = Offers {
            arrays: values().map(|_| Vec::new()).collect(),
            told: values().map(|_| false).collect(),
        };
        offers.by_name(program, args, found);
        offers.by_tensor_name(program, args, found);
        offers.weights(program, args, found);
        offers
    }

    /// `--input x=x.npy`.
    fn by_name(&mut self, program: &Program, args: &ArrayArgs, found: &mut Diagnostics) {
        for named in &args.input {
            let Some(input) = program.value(&named.name).filter(|&value| program.is_input(value)) else {
                found.push(no_input(program, &named.name));
                continue;
            };
            let value = &program.values()[input];
            if value.dtype == DType::Bf16 {
                let message = format!(
                    "input `{}` is bf16, which `.npy` does not have, but `{}` is given for it",
                    value.name,
                    named.file.display()
                );
                let help = "give it with `--inputs FILE.safetensors`, or declare the input f32 and `cast` it";
                found.push(Diagnostic::at(Code::FormatDType, value.span, message).help(help));
                self.told[input] = true;
                continue;
            }
            self.take(input, open_npy(&named.file).map(Some), found);
        }
    }

    /// `--inputs in.safetensors`: tensors that are named as inputs; others are ignored.
    fn by_tensor_name(&mut self, program: &Program, args: &ArrayArgs, found: &mut Diagnostics) {
        let Some(path) = &args.inputs else { return };
        let inputs = || program.values().iter().filter(|&(id, _)| program.is_input(id));
        match TensorFile::open(path) {
            Ok(file) => inputs().for_each(|(input, value)| self.take(input, file.tensor(&value.name), found)),
            Err(mistake) => {
                found.push(mistake);
                inputs().for_each(|(input, _)| self.told[input] = true);
            }
        }
    }

    fn take(
        &mut self,
        input: ValueId,
        array: Result<Option<FileArray>, Diagnostic>,
        found: &mut Diagnostics,
    ) {
        match array {
            Ok(array) => self.arrays[input].extend(array),
            Err(mistake) => {
                found.push(mistake);
                self.told[input] = true;
            }
        }
    }

    /// `--weights m.safetensors`: tensors that a `from` of a needed input names.
    fn weights(&mut self, program: &Program, args: &ArrayArgs, found: &mut Diagnostics) {
        let opened = match Weights::open(&args.weights) {
            Ok(weights) if weights.is_empty() => return,
            Ok(weights) => Some(weights),
            Err(told) => {
                found.extend(told);
                None
            }
        };
        let needed = program.needed();
        for (input, value) in program.values().iter().filter(|&(id, _)| needed[id]) {
            let Def::Input { from: Some(from) } = &value.def else { continue };
            let Some(weights) = &opened else {
                self.told[input] = true;
                continue;
            };
            let given = !self.arrays[input].is_empty() || self.told[input];
            let array = match weights.find(from) {
                Ok(None) if !given => Err(no_tensor(value, from, weights)),
                other => other,
            };
            self.take(input, array, found);
        }
    }

    /// Inputs that an output needs and that get nothing.
    fn missing(&self, program: &Program, found: &mut Diagnostics) {
        let needed = program.needed();
        for (input, value) in program.values().iter() {
            let Def::Input { from } = &value.def else { continue };
            if !needed[input] || self.told[input] || !self.arrays[input].is_empty() {
                continue;
            }
            let message = format!("input `{}` has no array", value.name);
            let help = match from {
                Some(from) => format!("give the file that has `{from}` with `--weights`, or `--random SEED`"),
                None => format!(
                    "give one with `--input {}=FILE.npy` or `--inputs`, or `--random SEED`",
                    value.name
                ),
            };
            found.push(Diagnostic::at(Code::InputMissing, value.span, message).help(help));
        }
    }

    /// The one array of each input; two are a mistake.
    fn one_each(self, program: &Program, found: &mut Diagnostics) -> Table<ValueId, Option<FileArray>> {
        let one = |(input, arrays): (ValueId, &Vec<FileArray>)| {
            if let [first, second, ..] = arrays.as_slice() {
                let value = &program.values()[input];
                let message = format!(
                    "input `{}` is given twice: by {} and by {}",
                    value.name,
                    first.describe(),
                    second.describe()
                );
                let mistake = Diagnostic::at(Code::InputTwice, value.span, message);
                found.push(mistake.help("give only one of them"));
            }
            arrays.first().cloned()
        };
        self.arrays.iter().map(one).collect()
    }
}

/// A name given with `--input` that is no input.
fn no_input(program: &Program, name: &str) -> Diagnostic {
    let inputs =
        || program.values().iter().filter(|&(id, _)| program.is_input(id)).map(|(_, v)| v.name.as_str());
    if let Some(value) = program.value(name) {
        let message =
            format!("`{name}` is computed by program `{}`, so no array can be given for it", program.name());
        let help = format!("its inputs are {}", listed(inputs()));
        return Diagnostic::at(Code::InputUnknown, program.values()[value].span, message).help(help);
    }
    let mistake = Diagnostic::general(
        Code::InputUnknown,
        format!("program `{}` has no input `{name}`", program.name()),
    );
    match closest(name, inputs()) {
        Some(similar) => mistake.help(format!("there is an input `{similar}`")),
        None => mistake.help(format!("its inputs are {}", listed(inputs()))),
    }
}

/// An array's elements must be of the input's type.
fn check_dtype(program: &Program, input: ValueId, array: &FileArray) -> Result<(), Diagnostic> {
    let value = &program.values()[input];
    if value.dtype == array.dtype() {
        return Ok(());
    }
    let message = format!(
        "input `{}` is {}, but {} holds {}",
        value.name,
        value.dtype,
        array.describe(),
        array.dtype()
    );
    let help =
        format!("declare the input {} and go on with `cast({}, {})`", array.dtype(), value.name, value.dtype);
    Err(Diagnostic::at(Code::InputDType, value.span, message).help(help))
}

/// The weights lack a tensor.
fn no_tensor(value: &Value, from: &str, weights: &Weights) -> Diagnostic {
    let message = format!("input `{}`: there is no tensor `{from}` in {}", value.name, weights.describe());
    let mistake = Diagnostic::at(Code::WeightMissing, value.span, message);
    match weights.similar(from) {
        Some(similar) => mistake.help(format!("there is a tensor `{similar}`")),
        None => mistake.help("give the file that has it with `--weights`"),
    }
}

/// `` `a`, `b` ``.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() { "none".into() } else { quoted.join(", ") }
}
