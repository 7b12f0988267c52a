//! Random programs of one operation: every operation, dims in any order, sizes from 0 on.

use shardweave_compiler::dtype::DType;

/// A small generator; what it gives depends on its seed alone.
pub struct Draw(pub u64);

impl Draw {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }

    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = self.below(all.len());
        &all[index]
    }

    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    fn shuffled<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        let mut all = all.to_vec();
        for i in (1..all.len()).rev() {
            all.swap(i, self.below(i + 1));
        }
        all
    }

    /// Some of them, in any order.
    fn some<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        let kept = self.below(all.len() + 1);
        self.shuffled(all)[..kept].to_vec()
    }
}

/// Dims by name with sizes.
type Dims<'a> = Vec<(&'a str, usize)>;

fn dims_text(dims: &[(&str, usize)]) -> String {
    dims.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(", ")
}

fn names(dims: &[(&str, usize)], between: &str) -> String {
    dims.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(between)
}

/// Inputs and a call.
#[derive(Default)]
struct Text {
    inputs: String,
    call: String,
    /// The result's dims in any order, where they are asked for.
    asked: Option<Vec<String>>,
}

impl Text {
    fn input(&mut self, name: &str, dtype: impl std::fmt::Display, dims: &[(&str, usize)]) {
        self.inputs += &format!("  input {name}: {dtype}[{}]\n", dims_text(dims));
    }

    fn asked(&mut self, draw: &mut Draw, dims: &[(&str, usize)]) {
        if draw.coin() {
            self.asked = Some(draw.shuffled(dims).iter().map(|(name, _)| name.to_string()).collect());
        }
    }
}

const SIZES: [usize; 12] = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 17, 40];
const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::Bf16, DType::F16];
const NUMBERS: [DType; 6] = [DType::F64, DType::F32, DType::Bf16, DType::F16, DType::I64, DType::I32];

/// The program number `seed`, of one operation that gives `out`.
pub fn program(seed: u64) -> String {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let draw = &mut draw;
    draw.below(2);
    let all: Dims<'_> = ["a", "b", "c", "d"].iter().map(|&name| (name, *draw.of(&SIZES))).collect();
    let text = match draw.below(14) {
        0 => map(draw, &all),
        1 => zip(draw, &all),
        2 => choose(draw, &all),
        3 | 4 => reduce(draw, &all),
        5 => lanes(draw, &all),
        6 | 7 => linear(draw, &all),
        8 | 9 => einsum(draw, &all),
        10 => rearrange(draw, &all),
        11 => cut_or_join(draw, &all),
        12 => repeat(draw, &all),
        _ => embedding(draw, &all),
    };
    let asked = text.asked.map_or(String::new(), |dims| format!(" -> [{}]", dims.join(", ")));
    format!("program p {{\n{}  out = {}{asked}\n  output out\n}}\n", text.inputs, text.call)
}

fn map(draw: &mut Draw, all: &[(&str, usize)]) -> Text {
    let mut text = Text::default();
    let dims = draw.some(all);
    let of_numbers = ["neg", "abs", "square", "relu"];
    let of_floats =
        ["exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh"];
    let (dtype, call) = match draw.below(4) {
        0 => (*draw.of(&NUMBERS), format!("{}(x)", draw.of(&of_numbers))),
        1 => (*draw.of(&DType::ALL), format!("cast(x, {})", draw.of(&DType::ALL))),
        2 => (DType::Bool, "not(x)".to_string()),
        _ => (*draw.of(&FLOATS), format!("{}(x)", draw.of(&of_floats))),
    };
    text.input("x", dtype, &dims);
    text.call = call;
    text.asked(draw, &dims);
    text
}

fn zip(draw: &mut Draw, all: &[(&str, usize)]) -> Text {
    let mut text = Text::default();
    let (x, y) = (draw.some(all), draw.some(all));
    let of_numbers = ["add", "sub", "mul", "maximum", "minimum"];
    let compare = ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"];
    let (dtype, name) = match draw.below(4) {
        0 => (*draw.of(&FLOATS), *draw.of(&["div", "pow"])),
        1 => (*draw.of(&DType::ALL), *draw.of(&compare)),
        2 => (DType::Bool, *draw.of(&["and", "or"])),
        _ => (*draw.of(&NUMBERS), *draw.of(&of_numbers)),
    };
    text.input("x", dtype, &x);
    let number = if dtype.is_float() { "1.25" } else { "1" };
    let operands = match draw.below(4) {
        0 => format!("x, {number}"),
        1 => format!("{number}, x"),
        _ => {
            text.input("y", dtype, &y);
            text.call = format!("{name}(x, y)");
            text.asked(draw, &union(&[&x, &y]));
            return text;
        }
    };
    text.call = format!("{name}({operands})");
    text.asked(draw, &x);
    text
}

fn union<'a>(operands: &[&Dims<'a>]) -> Dims<'a> {
    let mut union = Vec::new();
    for dim in operands.iter().flat_map(|dims| dims.iter()) {
        if !union.contains(dim) {
            union.push(*dim);
        }
    }
    union
}

fn choose(draw: &mut Draw, all: &[(&str, usize)]) -> Text {
    let mut text = Text::default();
    let [c, x, y] = [draw.some(all), draw.some(all), draw.some(all)];
    let dtype = *draw.of(&DType::ALL);
    text.input("c", DType::Bool, &c);
    text.input("x", dtype, &x);
    text.input("y", dtype, &y);
    text.call = "where(c, x, y)".into();
    text.asked(draw, &union(&[&c, &x, &y]));
    text
}

fn reduce(draw: &mut Draw, all: &[(&str, usize)]) -> Text {
    let mut text = Text::default();
    let dims = draw.shuffled(all);
    let gone = 1 + draw.below(dims.len());
    let (name, dtype) = match draw.below(4) {
        0 => ("mean", *draw.of(&FLOATS)),
        1 => ("max", *draw.of(&NUMBERS)),
        2 => ("min", *draw.of(&NUMBERS)),
        _ => ("sum", *draw.of(&NUMBERS)),
    };
    text.call = format!("{name}(x, {})", names(&dims[..gone], ", "));
    text.asked(draw, &dims[gone..]);
    text.input("x", dtype, &draw.shuffled(&dims));
    text
}

fn lanes(draw: &mut Draw, all: &[(&str, usize)]) -> Text {
    let mut text = Text::default();
    let dims = draw.shuffled(all);
    let lane = dims[0];
    let dtype = *draw.of(&FLOATS);
    text.input("x", dtype, &draw.shuffled(&dims));
    text.input("g", dtype, &[lane]);
    text.input("h", dtype, &[lane]);
    let calls = ["softmax(x, D)", "log_softmax(x, D)", "layer_norm(x, D)", "layer_norm(x, g, D)"];
    let more = ["layer_norm(x, g, h, D, eps=0.5)", "rms_norm(x, D)", "rms_norm(x, g, D)", "argmax(x, D)"];
    let call = *draw.of(&[calls, more].concat());
    text.call = call.replace('D', lane.0);
    text.asked(draw, if call.starts_with("argmax") { &dims[1..] } else { &dims });
    text
}

fn linear(draw: &mut Draw, all: &[(&str, usize)]) -> Text {
    let mut text = Text::default();
    let dtype = *draw.of(&FLOATS);
    // x has the last of `all` last; w has it, others of x (batch or contracted) and its own.
    let (k, others) = all.split_last().expect("there are dims");
    let mut x = draw.some(others);
    let mut w = draw.some(&x);
    x.push(*k);
    w.push(*k);
    let own = [("m", *draw.of(&SIZES)), ("n", *draw.of(&SIZES))];
    w.extend(draw.some(&own));
    let w = draw.shuffled(&w);
    text.input("x", dtype, &x);
    text.input("w", dtype, &w);
    // Shared dims that are asked for are batch dims, others are contracted.
    let mut result: Dims<'_> = Vec::new();
    for dim in union(&[&x, &w]) {
        let shared = x.contains(&dim) && w.contains(&dim);
        if dim != *k && (!shared || draw.coin()) {
            result.push(dim);
        }
    }
    text.asked = Some(draw.shuffled(&result).iter().map(|(name, _)| name.to_string()).collect());
    text.call = match draw.below(3) {
        0 => "matmul(x, w)".into(),
        1 => "linear(x, w)".into(),
        _ => {
            text.input("bias", dtype, &draw.some(&result));
            "linear(x, w, bias)".into()
        }
    };
    text
}

fn einsum(draw: &mut Draw, all: &[(&str, usize)]) -> Text {
    let mut text = Text::default();
    let dtype = *draw.of(&FLOATS);
    let count = 1 + draw.below(3);
    let operands: Vec<Dims<'_>> = (0..count).map(|_| draw.some(all)).collect();
    let union = union(&operands.iter().collect::<Vec<_>>());
    let result = draw.some(&union);
    for (index, dims) in operands.iter().enumerate() {
        text.input(&format!("x{index}"), dtype, dims);
    }
    let sides: Vec<String> = operands.iter().map(|dims| names(dims, " ")).collect();
    let inputs: Vec<String> = (0..count).map(|index| format!("x{index}")).collect();
    text.call = format!("einsum(\"{} -> {}\", {})", sides.join(", "), names(&result, " "), inputs.join(", "));
    text.asked(draw, &result);
    text
}

fn rearrange(draw: &mut Draw, all: &[(&str, usize)]) -> Text {
    let mut text = Text::default();
    let dtype = *draw.of(&DType::ALL);
    let atoms = draw.shuffled(all);
    let names_of = |group: &[(&str, usize)]| names(group, " ");
    // Neighbours are merged on either side.
    let (at, to) = (draw.below(3), draw.below(3));
    let merged = ("m", atoms[at].1 * atoms[at + 1].1);
    let x = [&atoms[..at], &[merged], &atoms[at + 2..]].concat();
    let right = draw.shuffled(&atoms);
    text.input("x", dtype, &x);
    let [left_text, right_text] = [(&atoms, at, ""), (&right, to, "e=")].map(|(atoms, at, name)| {
        format!(
            "{} {name}({}) {}",
            names_of(&atoms[..at]),
            names_of(&atoms[at..at + 2]),
            names_of(&atoms[at + 2..])
        )
    });
    let sizes = dims_text(&atoms);
    text.call = format!("rearrange(x, \"{left_text} -> {right_text} one=1\", {sizes})");
    text.asked(draw, &[&right[..to], &[("e", 0), ("one", 1)], &right[to + 2..]].concat());
    text
}

fn cut_or_join(draw: &mut Draw, all: &[(&str, usize)]) -> Text {
    let mut text = Text::default();
    let dtype = *draw.of(&DType::ALL);
    let dims = draw.shuffled(all);
    let (dim, size) = dims[0];
    let rest = &dims[1..1 + draw.below(dims.len())];
    let x = draw.shuffled(&[&[(dim, size)], rest].concat());
    text.input("x", dtype, &x);
    text.call = match draw.below(3) {
        0 => {
            let start = draw.below(size + 1);
            let end = start + draw.below(size - start + 1);
            format!("slice(x, {dim} -> t, {start}, {end})")
        }
        1 => format!("pad(x, {dim} -> t, {}, {})", draw.below(4), draw.below(4)),
        _ => {
            let mut y = x.clone();
            let joined = y.iter_mut().find(|d| d.0 == dim).expect("x has the dim");
            *joined = ("z", *draw.of(&SIZES));
            text.input("y", dtype, &y);
            "concat(t, x, y)".into()
        }
    };
    text.asked(draw, &[&[("t", 0)], rest].concat());
    text
}

fn repeat(draw: &mut Draw, all: &[(&str, usize)]) -> Text {
    let mut text = Text::default();
    let dtype = *draw.of(&DType::ALL);
    let dims = draw.some(all);
    text.input("x", dtype, &dims);
    match draw.below(4) {
        0 => {
            text.call = format!("iota({})", all[0].0);
            text.input("size", dtype, &all[..1]);
        }
        1 => {
            text.call = "reshard(x)".into();
            text.asked(draw, &dims);
        }
        _ => {
            let new = ("r", *draw.of(&SIZES));
            text.call = format!("broadcast(x, {})", dims_text(&[new]));
            text.asked(draw, &[&dims[..], &[new]].concat());
        }
    }
    text
}

fn embedding(draw: &mut Draw, all: &[(&str, usize)]) -> Text {
    let mut text = Text::default();
    let ids = draw.some(&all[..3]);
    let table = [("v", 1 + *draw.of(&SIZES)), all[3]];
    text.input("ids", draw.of(&["i64", "i32"]), &ids);
    text.input("table", *draw.of(&DType::ALL), &table);
    text.call = "embedding(ids, table)".into();
    text.asked(draw, &[&ids[..], &[all[3]]].concat());
    text
}
