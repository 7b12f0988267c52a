//! Which values an instruction reads and writes, and the same instruction on other values.
//!
//! Both follow from what an instruction is, so they are said here, next to the types, and nowhere else:
//! passes order instructions by them, and verifiers hold the order against them. What a move leaves of its
//! target, combines with or passes on, it finds in the target, which therefore counts as written alone.

use super::{Arg, Compute, Move};

impl<V: Copy> Arg<V> {
    /// The value; none if it is a number.
    pub fn value(&self) -> Option<V> {
        match self {
            Arg::Value(value) => Some(*value),
            Arg::Number(_) => None,
        }
    }

    /// The same of another value.
    pub fn renamed<W>(&self, of: impl FnOnce(V) -> W) -> Arg<W> {
        match self {
            Arg::Value(value) => Arg::Value(of(*value)),
            Arg::Number(number) => Arg::Number(*number),
        }
    }
}

impl<V: Copy> Compute<V> {
    /// The values among its operands, in their order.
    pub fn reads(&self) -> impl Iterator<Item = V> {
        self.operands.iter().filter_map(Arg::value)
    }

    /// Its result.
    pub fn writes(&self) -> V {
        self.result
    }

    /// The same on other values.
    pub fn renamed<W>(&self, mut of: impl FnMut(V) -> W) -> Compute<W> {
        Compute {
            op: self.op.clone(),
            operands: self.operands.iter().map(|operand| operand.renamed(&mut of)).collect(),
            result: of(self.result),
            space: self.space.clone(),
            over: self.over.clone(),
        }
    }
}

impl<V: Copy> Move<V> {
    /// Its source.
    pub fn reads(&self) -> V {
        self.source
    }

    /// Its target.
    pub fn writes(&self) -> V {
        self.target
    }

    /// The same between other values.
    pub fn renamed<W>(&self, mut of: impl FnMut(V) -> W) -> Move<W> {
        Move {
            kind: self.kind,
            source: of(self.source),
            target: of(self.target),
            axes: self.axes.clone(),
            group: self.group,
            path: self.path,
            because: self.because.clone(),
        }
    }
}
