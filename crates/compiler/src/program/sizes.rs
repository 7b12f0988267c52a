//! The sizes of a program's dims: where they come from, and that the sources agree.
//!
//! ```text
//!  f32[b=2, ..]   --size s=128   x.npy [2, 128, 384]   "a.weight" [1536, 384]
//!        └────────────┴─────── SizeBinder ─────┴──────────────┘
//!                                  │  carry on through the operations, check the rules
//!                                  ▼
//!                                Sizes        sizes[dim], for every dim that an output needs
//! ```

use super::{Def, DimId, Program, ValueId};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, quote, quote_all};
use crate::id::Table;
use std::ops::Index;
use std::sync::Arc;

/// The size of every dim that some output needs. Immutable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sizes {
    sizes: Table<DimId, Option<u64>>,
}

impl Sizes {
    /// The size of a dim; `None` if no output needs it and nothing says it.
    pub fn get(&self, dim: DimId) -> Option<u64> {
        self.sizes.get(dim).copied().flatten()
    }

    /// Binds sizes by name, and what follows from them.
    pub fn bind<'a>(
        program: &Program,
        sizes: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<Sizes, Diagnostics> {
        let mut binder = SizeBinder::new(program);
        for (name, size) in sizes {
            binder.bind_named(name, size);
        }
        binder.finish()
    }

    pub(super) fn new(sizes: Table<DimId, Option<u64>>) -> Sizes {
        Sizes { sizes }
    }
}

impl Index<DimId> for Sizes {
    type Output = u64;

    /// # Panics
    /// If no output needs the dim and nothing says its size.
    fn index(&self, dim: DimId) -> &u64 {
        self.sizes[dim].as_ref().expect("every dim of a value that an output needs has a size")
    }
}

/// Where a size comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SizeSource {
    /// The program fixes it.
    Program,
    /// `--size`, or the caller.
    Named,
    /// An array or a weight for an input.
    Array {
        /// The input.
        input: ValueId,
        /// The file or array, as messages name it.
        from: Arc<str>,
        /// Its sizes.
        shape: Arc<[u64]>,
    },
    /// It follows from the operation that gives a value.
    Follows(ValueId),
}

/// Collects sizes from their sources.
pub struct SizeBinder<'p> {
    pub(super) program: &'p Program,
    pub(super) known: Table<DimId, Option<(u64, SizeSource)>>,
    pub(super) needed: Table<ValueId, bool>,
    pub(super) found: Diagnostics,
    /// Inputs whose array does not have their dims: that is what is wrong with their sizes.
    misshapen: Vec<ValueId>,
    /// Sizes that disagree with the first, and have been told.
    refused: Vec<(DimId, u64)>,
}

impl<'p> SizeBinder<'p> {
    /// Starts with the sizes that the program fixes.
    pub fn new(program: &'p Program) -> SizeBinder<'p> {
        let fixed = program.dims.values().map(|dim| dim.fixed.map(|size| (size, SizeSource::Program)));
        SizeBinder {
            program,
            known: fixed.collect(),
            needed: program.needed(),
            found: Diagnostics::new(),
            misshapen: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Gives a dim a size; the first source wins, a second that disagrees is a mistake.
    pub fn bind(&mut self, dim: DimId, size: u64, source: SizeSource) {
        match &self.known[dim] {
            None => self.known[dim] = Some((size, source)),
            Some((known, _)) if *known == size => {}
            // Sources that say the same wrong size are one mistake.
            Some(_) if self.refused.contains(&(dim, size)) => {}
            Some((known, first)) => {
                let name = quote(&self.program.dims[dim].name);
                let message = format!(
                    "the dim {name} has size {size} {}, but size {known} {}",
                    self.describe(&source),
                    self.describe(first)
                );
                let mistake = Diagnostic::at(Code::SizeConflict, self.place(dim, &source), message);
                self.found.push(
                    mistake
                        .help("a name has one size in a program; where two sizes are meant, use two names"),
                );
                self.refused.push((dim, size));
            }
        }
    }

    /// Gives the dim of that name a size, as `--size` does.
    pub fn bind_named(&mut self, name: &str, size: u64) {
        match self.program.dim(name) {
            Some(dim) => self.bind(dim, size, SizeSource::Named),
            None => {
                let message = format!("program {} has no dim {}", quote(&self.program.name), quote(name));
                let dims = quote_all(self.program.dims.values().map(|dim| dim.name.as_str()));
                self.found.push(
                    Diagnostic::general(Code::UnknownDim, message).help(format!("its dims are {dims}")),
                );
            }
        }
    }

    /// Takes the sizes of an input's dims from an array or weight; `from` names it in messages.
    pub fn bind_array(&mut self, input: ValueId, from: &str, shape: &[u64]) {
        let program = self.program;
        let value = &program.values[input];
        if value.dims.len() != shape.len() {
            let message = format!(
                "input {} has {} dims, [{}], but {from} has {}: {shape:?}",
                quote(&value.name),
                value.dims.len(),
                quote_all(program.dim_names(input)),
                shape.len(),
            );
            let mistake = Diagnostic::at(Code::InputShape, value.span, message);
            self.found.push(mistake.help("give an array with one size for each dim of the input"));
            self.misshapen.push(input);
            return;
        }
        let (from, shape): (Arc<str>, Arc<[u64]>) = (from.into(), shape.into());
        for (&dim, &size) in value.dims.iter().zip(shape.iter()) {
            self.bind(dim, size, SizeSource::Array { input, from: from.clone(), shape: shape.clone() });
        }
    }

    /// The dims that an output needs and that have no size, as far as known now.
    pub fn missing(&self) -> Vec<DimId> {
        let mut wanted: Table<DimId, bool> = self.program.dims.keys().map(|_| false).collect();
        for (id, value) in self.program.values.iter() {
            for &dim in value.dims.iter().filter(|_| self.needed[id]) {
                wanted[dim] = true;
            }
        }
        wanted
            .iter()
            .filter(|(dim, wanted)| **wanted && self.known[*dim].is_none())
            .map(|(dim, _)| dim)
            .collect()
    }

    /// Carries the sizes on through the operations, checks all rules that depend on sizes, and gives
    /// the table.
    pub fn finish(mut self) -> Result<Sizes, Diagnostics> {
        // What does not follow because of a mistake is not missing as well.
        let followed = self.derive();
        let mut missing = self.missing();
        missing.retain(|dim| self.is_asked_for(*dim));
        if !missing.is_empty() && followed {
            self.found.push(self.missing_sizes(&missing));
        }
        self.check();
        let sizes = self.known.values().map(|known| known.as_ref().map(|(size, _)| *size)).collect();
        self.found.in_text_order().finish(Sizes::new(sizes))
    }

    /// Whether a size that lacks is to be given, and is not the consequence of an array that does not fit:
    /// what is a dim of other inputs only.
    fn is_asked_for(&self, dim: DimId) -> bool {
        let has = |input: ValueId| self.program.values[input].dims.contains(&dim);
        let mut inputs = self.program.values.keys().filter(|&value| self.program.is_input(value));
        self.misshapen.is_empty() || (inputs.any(has) && !self.misshapen.iter().any(|&input| has(input)))
    }

    fn missing_sizes(&self, missing: &[DimId]) -> Diagnostic {
        let names = || missing.iter().map(|&dim| self.program.dims[dim].name.as_str());
        let (noun, verb) = if missing.len() == 1 { ("dim", "has") } else { ("dims", "have") };
        let message = format!("the {noun} {} {verb} no size", quote_all(names()));
        let options: Vec<String> =
            names().take(10).map(|name| format!("{}=N", quote(name).trim_matches('`'))).collect();
        Diagnostic::at(Code::SizeMissing, self.program.dims[missing[0]].span, message).help(format!(
            "give `--size {}`, arrays or weights for the inputs, or fix it where the dim is named",
            options.join(" ")
        ))
    }

    /// Where a source stands in the text.
    fn place(&self, dim: DimId, source: &SizeSource) -> Span {
        match source {
            SizeSource::Array { input, .. } => self.program.values[*input].span,
            SizeSource::Follows(value) => self.program.values[*value].span,
            SizeSource::Program | SizeSource::Named => self.program.dims[dim].span,
        }
    }

    /// A source in words that go after a size.
    pub(super) fn describe(&self, source: &SizeSource) -> String {
        match source {
            SizeSource::Program => "fixed in the program".into(),
            SizeSource::Named => "given with `--size`".into(),
            SizeSource::Array { input, from, shape } => {
                format!(
                    "from {from} with sizes {shape:?} for input {}",
                    quote(&self.program.values[*input].name)
                )
            }
            SizeSource::Follows(value) => {
                let value = &self.program.values[*value];
                let op = match &value.def {
                    Def::Result(apply) => apply.op.name(),
                    Def::Input { .. } => "input",
                };
                format!("by the `{op}` that gives {}", quote(&value.name))
            }
        }
    }
}
