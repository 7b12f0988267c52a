//! Typed ids: a number that knows what it counts and prints as the text forms spell it.
//!
//! [`Table`] owns things, an id names one of them. Ids are dense: the `n`th thing pushed has id `n`.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// What every typed id can do.
pub trait Id: Copy + Eq + Ord + fmt::Debug {
    /// The id of the `index`th thing of its table.
    fn new(index: usize) -> Self;
    /// The place in its table.
    fn index(self) -> usize;
}

/// Defines ids: `id! { /// doc  DimId "d" }` prints as `d0`, `d1`, ...
#[macro_export]
macro_rules! id {
    ($($(#[$doc:meta])* $name:ident $prefix:literal)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $crate::id::Id for $name {
            fn new(index: usize) -> Self {
                $name(u32::try_from(index).expect("a table holds fewer than 2^32 things"))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self}")
            }
        }
    )*};
}
pub use id;

/// A vector that is indexed by one kind of id only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Table<K, V> {
    rows: Vec<V>,
    key: PhantomData<K>,
}

impl<K: Id, V> Table<K, V> {
    /// An empty table.
    pub fn new() -> Self {
        Table { rows: Vec::new(), key: PhantomData }
    }

    /// Adds a thing and names it.
    pub fn push(&mut self, value: V) -> K {
        self.rows.push(value);
        K::new(self.rows.len() - 1)
    }

    /// Forgets all but the first so many things.
    pub fn truncate(&mut self, len: usize) {
        self.rows.truncate(len);
    }

    /// How many things there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The thing named `key`, if there is one.
    pub fn get(&self, key: K) -> Option<&V> {
        self.rows.get(key.index())
    }

    /// All things with their names, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> + ExactSizeIterator {
        self.rows.iter().enumerate().map(|(i, v)| (K::new(i), v))
    }

    /// All names, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator + use<K, V> {
        (0..self.rows.len()).map(K::new)
    }

    /// All things, in order.
    pub fn values(&self) -> std::slice::Iter<'_, V> {
        self.rows.iter()
    }

    /// All things, in order, to be changed.
    pub fn values_mut(&mut self) -> std::slice::IterMut<'_, V> {
        self.rows.iter_mut()
    }
}

impl<K: Id, V> Default for Table<K, V> {
    fn default() -> Self {
        Table::new()
    }
}

impl<K: Id, V> FromIterator<V> for Table<K, V> {
    fn from_iter<I: IntoIterator<Item = V>>(items: I) -> Self {
        Table { rows: items.into_iter().collect(), key: PhantomData }
    }
}

impl<K: Id, V> Index<K> for Table<K, V> {
    type Output = V;
    fn index(&self, key: K) -> &V {
        &self.rows[key.index()]
    }
}

impl<K: Id, V> IndexMut<K> for Table<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        &mut self.rows[key.index()]
    }
}

impl<K, V: fmt::Debug> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.rows).finish()
    }
}
