//! Some ranks with a communicator of their own, for collectives.

use crate::binding::{Comm, Library};
use crate::flight::{Flight, Runs};
use shardweave_runtime::engine::EngineError;

pub(crate) struct Group {
    comm: Comm,
    members: Box<[usize]>,
    /// The place of this rank among the members.
    own: usize,
}

impl Group {
    /// Members in ascending order, as the communicator numbers them.
    pub(crate) fn new(comm: Comm, members: impl Into<Box<[usize]>>, rank: usize) -> Group {
        let members = members.into();
        let own = members.binary_search(&rank).expect("this rank is a member");
        Group { comm, members, own }
    }

    pub(crate) fn comm(&self) -> Comm {
        self.comm
    }

    pub(crate) fn members(&self) -> &[usize] {
        &self.members
    }

    /// The place of this rank among the members.
    pub(crate) fn own(&self) -> usize {
        self.own
    }

    /// Starts one collective of so many bytes and waits for it.
    pub(crate) fn run<'a>(
        &'a self,
        library: &'a Library,
        bytes: usize,
        start: impl FnOnce(&mut Flight<'a>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut flight = Flight::of_members(library, &self.members);
        start(&mut flight)?;
        flight.wait(bytes)
    }

    /// Puts the least of all members in the place of each number.
    pub(crate) fn least(&self, library: &Library, numbers: &mut [u64]) -> Result<(), EngineError> {
        // MPICH compares numbers of 64 bits as if they had a sign, whatever their type says. With the highest bit the
        // other way, that is the same order.
        let flip = |numbers: &mut [u64]| numbers.iter_mut().for_each(|number| *number ^= 1 << 63);
        flip(numbers);
        let comm = self.comm;
        self.run(library, 0, |flight| flight.least(comm, numbers))?;
        flip(numbers);
        Ok(())
    }

    /// A number of each member.
    pub(crate) fn tell(&self, library: &Library, own: u64) -> Result<Vec<u64>, EngineError> {
        Ok(self.tell_some(library, [own])?.into_iter().map(|[number]| number).collect())
    }

    /// Some numbers of each member.
    pub(crate) fn tell_some<const N: usize>(
        &self,
        library: &Library,
        own: [u64; N],
    ) -> Result<Vec<[u64; N]>, EngineError> {
        let mut runs = Runs::new();
        (0..self.members.len()).for_each(|member| runs.push(8 * N * member, 8 * N));
        let own: Vec<u8> = own.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut all = vec![0; 8 * N * self.members.len()];
        let comm = self.comm;
        self.run(library, 0, |flight| flight.all_gather(comm, &own, (&mut all, &runs)))?;
        let numbers: Vec<u64> = all.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect();
        Ok(numbers.as_chunks().0.to_vec())
    }
}
