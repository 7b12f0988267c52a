//! The operations: what there is, what each means over dim names, and what it costs.
//!
//! * [`Op`] is one operation with its attributes, as a program holds it.
//! * [`table`] has one row per operation name: signature, operands, element types, documentation.
//! * [`Summary`] and [`Finish`]: what of an operation runs on each side of a cut along its dim.
//! * [`Later`]: what of an operation is left until its parts are combined.
//! * [`parse_call`] and [`print_call`] are the only reader and printer of calls.
//! * [`Space`] is the iteration space of one application: all its dims, and which of them each
//!   operand and the result have. Lowering and kernels read the space, not the operation's name.

mod arguments;
mod atoms;
mod form_table;
mod held;
mod later;
mod partial;
mod pattern;
mod projection;
mod row;
mod space;
mod summary;
pub mod table;
mod text;
mod window;
mod work;

pub(crate) use arguments::no_infix;
pub use arguments::unknown_dtype;
pub use atoms::{AtomSizes, atom_sizes};
pub use held::cutting_axes;
pub use later::{Later, completed_after_parts, completed_later};
pub use partial::{Passes, number_passes, passes};
pub(crate) use pattern::spaced;
pub use pattern::{Group, Pattern};
pub use row::{Scope, row, row_of};
pub use space::{DimUse, Space, SpaceDim, SpaceId, space};
pub use summary::{Finish, Summary, is_any_part_dim, is_number_dim, is_part_dim, number_dim, part_dim};
pub use table::OpRow;
pub use text::{Call, DEFAULT_EPS, OperandText, parse_call, print_call, usage};
pub use window::Window;
pub use work::{product_flops, work};

use crate::dtype::{Combine, DType, Number};

/// An operation with its attributes. Dims are named: a name means the same dim wherever it stands.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// `linear(x, w)`, `linear(x, w, b)`.
    Linear,
    /// `matmul(a, b)`.
    Matmul,
    /// `einsum("b n s h, b n t h -> b n s t", q, k)`.
    Einsum(Pattern),
    /// One operand, element by element: `neg`, `gelu`, `not`, ...
    Map(Map),
    /// `cast(x, bf16)`.
    Cast(DType),
    /// Two operands, element by element: `add`, `less`, `and`, ...
    Zip(Zip),
    /// `where(c, a, b)`.
    Where,
    /// `sum(x, d, ...)`, `mean`, `max`, `min`.
    Reduce(Reduce, Vec<String>),
    /// `argmax(x, d)`.
    ArgMax(String),
    /// `softmax(x, d)`.
    Softmax(String),
    /// `log_softmax(x, d)`.
    LogSoftmax(String),
    /// `layer_norm(x, d)`, `layer_norm(x, g, d)`, `layer_norm(x, g, b, d, eps=1e-5)`.
    LayerNorm {
        /// The normalised dim.
        dim: String,
        /// Added to the variance.
        eps: f64,
    },
    /// `rms_norm(x, d)`, `rms_norm(x, g, d, eps=1e-5)`.
    RmsNorm {
        /// The normalised dim.
        dim: String,
        /// Added to the mean square.
        eps: f64,
    },
    /// `rearrange(x, "b s (n h) -> b n s h", n=12)`.
    Rearrange {
        /// How dims split, merge and move.
        pattern: Pattern,
        /// Sizes given by name.
        sizes: Vec<(String, u64)>,
    },
    /// `rename(x, s -> t)`.
    Rename(Vec<(String, String)>),
    /// `slice(x, d -> t, start, end)`.
    Slice {
        /// The dim that is sliced.
        dim: String,
        /// The result's name for it.
        to: String,
        /// The first index taken.
        start: u64,
        /// One past the last index taken.
        end: u64,
    },
    /// `pad(x, d -> t, before, after)`: fills 0.
    Pad {
        /// The dim that is padded.
        dim: String,
        /// The result's name for it.
        to: String,
        /// Zeros before.
        before: u64,
        /// Zeros after.
        after: u64,
    },
    /// `concat(t, a, b, ...)`.
    Concat {
        /// The result's name for the dim along which the operands follow each other.
        to: String,
    },
    /// `broadcast(x, d=4)`: adds `d` in front.
    Broadcast {
        /// The new dim.
        dim: String,
        /// Its size, if written.
        size: Option<u64>,
    },
    /// `iota(d)`: the index along `d`, as `i64`.
    Iota(String),
    /// `full(1.5, f32)`: a scalar.
    Full(Number, DType),
    /// `embedding(ids, table)`: `table[v, e]` by integer ids.
    Embedding,
    /// `reshard(x)`: the same values; a placement can name it.
    Reshard,
    /// `moments_of_part(x, d)`: what a device says of its part of a dim. In forms only.
    Summary(Summary, String),
    /// `softmax_from_parts(x, p, d)`: an operation along a dim that is cut, from what is said of all its
    /// parts. In forms only.
    Finish(Finish, String),
}

/// Element by element on one operand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)] // each is documented by its row in the table
pub enum Map {
    Neg,
    Abs,
    Exp,
    Log,
    Sqrt,
    Rsqrt,
    Square,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
    Relu,
    Silu,
    Gelu,
    GeluTanh,
    Not,
}

/// Element by element on two operands, one of which may be a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)] // each is documented by its row in the table
pub enum Zip {
    Add,
    Sub,
    Mul,
    Div,
    Maximum,
    Minimum,
    Pow,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Or,
}

impl Zip {
    /// Whether the result is `bool` whatever the operands are.
    pub const fn is_comparison(self) -> bool {
        use Zip::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(self, Less | LessEqual | Greater | GreaterEqual | Equal | NotEqual)
    }
}

/// Reductions over named dims.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)] // each is documented by its row in the table
pub enum Reduce {
    Sum,
    Mean,
    Max,
    Min,
}

impl Reduce {
    /// How parts of the reduction are put together (`mean` adds, and divides at the end).
    pub fn combine(self) -> Combine {
        match self {
            Reduce::Sum | Reduce::Mean => Combine::Sum,
            Reduce::Max => Combine::Max,
            Reduce::Min => Combine::Min,
        }
    }
}

impl Op {
    /// The operation's name in a program.
    pub fn name(&self) -> &'static str {
        row_of(self).name
    }
}
