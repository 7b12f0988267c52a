//! Exchanges that have the form of one of MPI's collectives are carried out by it.
//!
//! Members that meet for the first time on a stream make a communicator, alone, and keep it. They tell each other
//! first that they are there, so who does not come is known by name. And each rank makes one communicator at a time:
//! Open MPI 4.1 may give two that are made at once the same number, and then mixes up their messages.
//!
//! ```text
//!  rank 1 takes its turn ──▶ rank 3 takes its turn ──▶ rank 4 takes its turn ── go ──▶ all make it
//! ```
//!
//! Turns are taken in the order of the ranks, so of those that wait for each other's there is always one that needs no
//! more than it can get.

use crate::binding::{Comm, Library, refused};
use crate::flight::{Flight, Runs, joined, joined_mut};
use crate::group::Group;
use crate::messages::Way;
use shardweave_runtime::engine::{EngineError, Exchange, Form};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The groups that have met on each stream.
pub(crate) struct Groups {
    of_streams: Mutex<BTreeMap<usize, Vec<Arc<Group>>>>,
    /// Whoever makes a communicator has this.
    turn: Mutex<()>,
}

impl Groups {
    pub(crate) fn new() -> Groups {
        Groups { of_streams: Mutex::default(), turn: Mutex::default() }
    }

    /// The group of these members on a stream. All of them make this call.
    fn of(
        &self,
        exchange: &Exchange<'_, '_>,
        tag: i32,
        way: &Way<'_>,
        setup: Comm,
    ) -> Result<Arc<Group>, EngineError> {
        let streams = || self.of_streams.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |group: &&Arc<Group>| group.members() == exchange.members;
        if let Some(group) = streams().get(&exchange.stream).and_then(|groups| groups.iter().find(is_it)) {
            return Ok(group.clone());
        }
        // One thread a stream comes here, so nobody makes the same one.
        way.meet(tag, exchange.members)?;
        let turn = self.turn_of_all(exchange.members, tag, way)?;
        let comm = way.library.group(setup, exchange.members, tag)?;
        drop(turn);
        let group = Arc::new(Group::new(comm, exchange.members, way.rank));
        streams().entry(exchange.stream).or_default().push(group.clone());
        Ok(group)
    }

    /// Returns when all members have their turn.
    fn turn_of_all(
        &self,
        members: &[usize],
        tag: i32,
        way: &Way<'_>,
    ) -> Result<MutexGuard<'_, ()>, EngineError> {
        let own = members.partition_point(|&member| member < way.rank);
        let last = members.len() - 1;
        if own > 0 {
            way.hear(tag, members[own - 1])?;
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if own < last {
            way.say(tag, &members[own + 1..=own + 1])?;
            way.hear(tag, members[last])?;
        } else {
            way.say(tag, &members[..last])?;
        }
        Ok(turn)
    }

    /// All groups, of which none is left.
    pub(crate) fn take(&self) -> Vec<Arc<Group>> {
        let streams = std::mem::take(&mut *self.of_streams.lock().unwrap_or_else(PoisonError::into_inner));
        streams.into_values().flatten().collect()
    }

    /// Carries out an exchange by the collective of its form. New groups are made out of `setup`.
    pub(crate) fn exchange(
        &self,
        exchange: Exchange<'_, '_>,
        tag: i32,
        way: &Way<'_>,
        setup: Comm,
    ) -> Result<(), EngineError> {
        let group = self.of(&exchange, tag, way, setup)?;
        match exchange.form {
            Form::Messages => {
                way.exchange(tag, exchange.form, exchange.sends, exchange.receives, exchange.most)
            }
            Form::Broadcast { root } => broadcast(&group, way.library, root, exchange),
            Form::AllGather => gather(&group, way.library, None, exchange),
            Form::Gather { root } => gather(&group, way.library, Some(root), exchange),
            Form::Scatter { root } => scatter(&group, way.library, root, exchange),
            Form::AllToAll => all_to_all(&group, way.library, exchange),
        }
    }
}

fn broadcast(
    group: &Group,
    library: &Library,
    root: usize,
    exchange: Exchange<'_, '_>,
) -> Result<(), EngineError> {
    let at = place(group, root)?;
    if at == group.own() {
        let bytes = exchange.sends.first().map_or(&[][..], |(_, bytes)| bytes);
        return group.run(library, exchange.most, |flight| flight.broadcast(group.comm(), at, bytes));
    }
    let bytes = exchange.receives.first_mut().map_or(&mut [][..], |(_, bytes)| bytes);
    group.run(library, exchange.most, |flight| flight.be_told(group.comm(), at, bytes))
}

/// To the root, or to all if there is none.
fn gather(
    group: &Group,
    library: &Library,
    root: Option<usize>,
    exchange: Exchange<'_, '_>,
) -> Result<(), EngineError> {
    let root = root.map(|root| place(group, root)).transpose()?;
    let own = exchange.sends.first().map_or(&[][..], |(_, bytes)| bytes);
    let runs = runs(group, exchange.receives.iter().map(|(rank, bytes)| (*rank, bytes.len())))?;
    let all = joined_mut(exchange.receives).ok_or_else(apart)?;
    group.run(library, exchange.most, |flight| {
        let Some(root) = root else { return flight.all_gather(group.comm(), own, (all, &runs)) };
        with_root(group, root, flight).gather(group.comm(), root, own, (all, &runs))
    })
}

fn scatter(
    group: &Group,
    library: &Library,
    root: usize,
    exchange: Exchange<'_, '_>,
) -> Result<(), EngineError> {
    let root = place(group, root)?;
    let runs = runs(group, exchange.sends.iter().map(|(rank, bytes)| (*rank, bytes.len())))?;
    let all = joined(exchange.sends).ok_or_else(apart)?;
    let own = exchange.receives.first_mut().map_or(&mut [][..], |(_, bytes)| bytes);
    group.run(library, exchange.most, |flight| {
        with_root(group, root, flight).scatter(group.comm(), root, (all, &runs), own)
    })
}

fn all_to_all(group: &Group, library: &Library, exchange: Exchange<'_, '_>) -> Result<(), EngineError> {
    let sent_runs = runs(group, exchange.sends.iter().map(|(rank, bytes)| (*rank, bytes.len())))?;
    let got_runs = runs(group, exchange.receives.iter().map(|(rank, bytes)| (*rank, bytes.len())))?;
    let sent = joined(exchange.sends).ok_or_else(apart)?;
    let got = joined_mut(exchange.receives).ok_or_else(apart)?;
    group.run(library, exchange.most, |flight| {
        flight.all_to_all(group.comm(), (sent, &sent_runs), (got, &got_runs))
    })
}

/// Only the root knows how many bytes each member has, so nobody else passes any on.
fn with_root<'f, 'a>(group: &Group, root: usize, flight: &'f mut Flight<'a>) -> &'f mut Flight<'a> {
    if group.own() != root {
        flight.waits_only_for(root);
    }
    flight
}

/// The place of the root among the members.
fn place(group: &Group, root: usize) -> Result<usize, EngineError> {
    group.members().binary_search(&root).map_err(|_| refused(format!("the root, rank {root}, is no member")))
}

/// The bytes of each member, one run behind the other, from those that have some.
fn runs(group: &Group, parts: impl Iterator<Item = (usize, usize)>) -> Result<Runs, EngineError> {
    let (mut parts, mut runs, mut start) = (parts.peekable(), Runs::new(), 0);
    for &member in group.members() {
        let bytes = parts.next_if(|&(rank, _)| rank == member).map_or(0, |(_, bytes)| bytes);
        runs.push(start, bytes);
        start += bytes;
    }
    match parts.next() {
        None => Ok(runs),
        Some((rank, _)) => Err(refused(format!("rank {rank} is no member, or comes out of order"))),
    }
}

fn apart() -> EngineError {
    refused("what an exchange of this form moves has to lie one behind the other")
}
