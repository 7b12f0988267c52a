//! Sets that grow together: which things are joined, directly or through others.

/// Things that are joined one pair at a time; each set is known by its smallest thing.
pub(super) struct Joined {
    parent: Vec<usize>,
}

impl Joined {
    /// So many things, each alone.
    pub fn new(things: usize) -> Joined {
        Joined { parent: (0..things).collect() }
    }

    /// The smallest thing of the set that a thing is in.
    pub fn root(&self, mut thing: usize) -> usize {
        while self.parent[thing] != thing {
            thing = self.parent[thing];
        }
        thing
    }

    /// Makes one set of the sets of two things.
    pub fn join(&mut self, a: usize, b: usize) {
        let (a_root, b_root) = (self.root(a), self.root(b));
        let (low, high) = (a_root.min(b_root), a_root.max(b_root));
        self.parent[high] = low;
        // What was asked for is found at once the next time.
        self.parent[a] = low;
        self.parent[b] = low;
    }

    /// How many sets there are, and for each thing the number of its set.
    pub fn numbered(&self) -> (u64, Vec<u64>) {
        let mut count = 0;
        let mut numbers = Vec::with_capacity(self.parent.len());
        for thing in 0..self.parent.len() {
            let root = self.root(thing);
            // The smallest thing of a set comes before the others.
            numbers.push(if root == thing { count } else { numbers[root] });
            count += u64::from(root == thing);
        }
        (count, numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_joined_through_others() {
        let mut joined = Joined::new(6);
        for (a, b) in [(4, 1), (2, 5), (5, 4)] {
            joined.join(a, b);
        }
        assert_eq!(joined.numbered(), (3, vec![0, 1, 1, 2, 1, 1]));
        assert_eq!(joined.root(5), 1);
    }
}
