//! Bytes in messages from rank to rank: every form can be carried out so.
//!
//! The messages of a stream have its number as their tag. Two ranks make the exchanges of a stream in the same order,
//! and MPI keeps the order of messages with one tag, so each comes where it belongs, whoever else takes part. What is
//! longer than the limit goes in pieces of the limit; both ends know the length, so both cut alike. Nothing goes for
//! no bytes.

use crate::binding::{Comm, Library, refused};
use crate::flight::Flight;
use shardweave_runtime::engine::{EngineError, Form};

/// By what messages go.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    pub library: &'a Library,
    pub comm: Comm,
    pub rank: usize,
    /// The most bytes of one message.
    pub limit: usize,
}

impl Way<'_> {
    /// Sends and receives, of which the most are so many bytes, and waits for all of it. What this rank has for itself
    /// is copied.
    pub(crate) fn exchange(
        &self,
        tag: i32,
        form: Form,
        sends: &[(usize, &[u8])],
        receives: &mut [(usize, &mut [u8])],
        bytes: usize,
    ) -> Result<(), EngineError> {
        // Who sends the same to all need not name itself.
        let kept = sends.iter().find(|(to, _)| *to == self.rank || form == Form::AllGather);
        let kept = kept.map_or(&[][..], |(_, bytes)| bytes);
        let own = receives.iter().find(|(from, _)| *from == self.rank).map_or(0, |(_, bytes)| bytes.len());
        if own != kept.len() {
            return Err(refused(format!("a rank sends itself {} bytes and receives {own}", kept.len())));
        }
        let mut flight = Flight::new(self.library);
        let mut own = None;
        for (from, bytes) in receives.iter_mut() {
            if *from == self.rank {
                own = Some(&mut **bytes);
                continue;
            }
            for piece in bytes.chunks_mut(self.limit) {
                flight.receive(self.comm, *from, tag, piece)?;
            }
        }
        for &(to, bytes) in sends.iter().filter(|(to, _)| *to != self.rank) {
            for piece in bytes.chunks(self.limit) {
                flight.send(self.comm, to, tag, piece)?;
            }
        }
        // While the others' bytes are under way.
        if let Some(own) = own {
            own.copy_from_slice(kept);
        }
        flight.wait(bytes)
    }

    /// Each of some ranks tells each other that it is there.
    pub(crate) fn meet(&self, tag: i32, members: &[usize]) -> Result<(), EngineError> {
        let others = || members.iter().copied().filter(|&member| member != self.rank);
        let mut told = vec![[0]; members.len()];
        let sends: Vec<(usize, &[u8])> = others().map(|member| (member, &[0][..])).collect();
        let mut receives: Vec<(usize, &mut [u8])> =
            others().zip(told.iter_mut().map(|t| &mut t[..])).collect();
        self.exchange(tag, Form::Messages, &sends, &mut receives, 0)
    }

    /// Tells some ranks to go on.
    pub(crate) fn say(&self, tag: i32, to: &[usize]) -> Result<(), EngineError> {
        let sends: Vec<(usize, &[u8])> = to.iter().map(|&to| (to, &[0][..])).collect();
        self.exchange(tag, Form::Messages, &sends, &mut [], 0)
    }

    /// Waits till a rank tells this one to go on.
    pub(crate) fn hear(&self, tag: i32, from: usize) -> Result<(), EngineError> {
        self.exchange(tag, Form::Messages, &[], &mut [(from, &mut [0])], 0)
    }
}
