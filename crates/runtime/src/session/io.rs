//! What goes into a run and what comes out of it, by name.

use crate::tensor::{ArraySource, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The arrays of a program's inputs, by name.
#[derive(Clone, Default)]
pub struct Inputs {
    arrays: BTreeMap<String, Arc<dyn ArraySource>>,
}

impl Inputs {
    /// None yet.
    pub fn new() -> Inputs {
        Inputs::default()
    }

    /// Gives an input its array. An array that stood there is replaced.
    pub fn insert(&mut self, name: impl Into<String>, array: Arc<dyn ArraySource>) {
        self.arrays.insert(name.into(), array);
    }

    /// The same with one more array: a [`Tensor`], a file's, a placed [`Array`](crate::array::Array), or any
    /// other source. Dims go by their order, whatever the array calls them.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, array: impl ArraySource + 'static) -> Inputs {
        self.insert(name, Arc::new(array));
        self
    }

    /// The array of an input.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn ArraySource>> {
        self.arrays.get(name)
    }

    /// How many arrays there are.
    pub fn len(&self) -> usize {
        self.arrays.len()
    }

    /// Whether there is no array.
    pub fn is_empty(&self) -> bool {
        self.arrays.is_empty()
    }

    /// All arrays, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<dyn ArraySource>)> {
        self.arrays.iter().map(|(name, array)| (name.as_str(), array))
    }
}

/// The outputs of a run, in the order of the program: whole ([`Tensor`]) or as they are placed
/// ([`Array`](crate::array::Array)).
#[derive(Clone, Debug)]
pub struct Outputs<A = Tensor> {
    arrays: Vec<(String, A)>,
}

impl<A> Outputs<A> {
    pub(super) fn new(arrays: Vec<(String, A)>) -> Outputs<A> {
        Outputs { arrays }
    }

    /// The output of that name.
    pub fn get(&self, name: &str) -> Option<&A> {
        self.arrays.iter().find(|(output, _)| output == name).map(|(_, array)| array)
    }

    /// All outputs.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &A)> {
        self.arrays.iter().map(|(name, array)| (name.as_str(), array))
    }

    /// All outputs, to keep.
    pub fn into_vec(self) -> Vec<(String, A)> {
        self.arrays
    }
}
