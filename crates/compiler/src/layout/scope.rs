//! What a layout is read against.

use crate::mesh::Mesh;
use std::sync::Arc;

/// Who writes a layout decides which factors it may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// A user, in a placement.
    User,
    /// The compiler, in a form that it prints: `step(4, i0)` may stand there.
    Compiler,
}

/// What a name of a file stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lookup<T> {
    /// The thing of that name.
    Found(T),
    /// There is one, but it has a mistake that was told.
    Broken,
    /// There is none.
    Unknown,
}

impl<T> Lookup<T> {
    /// What is made of the thing, if it is found.
    pub(crate) fn map<U>(self, of: impl FnOnce(T) -> U) -> Lookup<U> {
        match self {
            Lookup::Found(thing) => Lookup::Found(of(thing)),
            Lookup::Broken => Lookup::Broken,
            Lookup::Unknown => Lookup::Unknown,
        }
    }
}

/// What a layout is read against.
#[derive(Clone, Copy)]
pub struct LayoutScope<'a> {
    /// The value's name, for messages.
    pub value: &'a str,
    /// The names of the value's dims; `None` if they are not known because of a mistake.
    pub dims: Option<&'a [&'a str]>,
    /// The mesh of a layout that names none; `None` if it is not known because of a mistake.
    pub home: Option<&'a Arc<Mesh>>,
    /// The meshes that may follow `on`.
    pub meshes: &'a dyn Fn(&str) -> Lookup<Arc<Mesh>>,
    /// Who writes.
    pub writer: Writer,
}
