//! The engine.

use crate::binding::{Library, Threads, refused};
use crate::blocking::bounded;
use crate::calls::{Call, begin};
use crate::flight::Runs;
use crate::messages::Way;
use crate::options::{MpiOptions, Transport};
use crate::windows::share_alone;
use crate::world::World;
use shardweave_runtime::engine::{Engine, EngineError, Exchange, Form, Late, Place, SharedBytes, Waits};
use std::sync::Arc;
use std::time::Duration;

/// Up to so many members go in messages: a collective of two is one message each way.
const IN_MESSAGES: usize = 2;

/// Joins ranks by MPI. See the [crate](crate).
///
/// ```no_run
/// use shardweave_mpi::Mpi;
/// use shardweave_runtime::engine::Engine;
///
/// let mpi = Mpi::init()?;
/// println!("rank {} of {}", mpi.place().rank, mpi.place().ranks());
/// # Ok::<(), shardweave_runtime::engine::EngineError>(())
/// ```
pub struct Mpi {
    world: Arc<World>,
    place: Place,
    options: MpiOptions,
}

impl MpiOptions {
    /// Begins MPI in this process. All ranks make this call.
    ///
    /// # Errors
    /// If MPI has begun already (then there is [`from_fortran`](Self::from_fortran)), or does not begin.
    pub fn init(self) -> Result<Mpi, EngineError> {
        let (threads, timeout) = (self.threads, self.timeout);
        Mpi::joined(self, || Library::begin(threads, timeout))
    }

    /// Joins the ranks of a communicator that the program has, by its Fortran handle. The communicator is duplicated,
    /// and MPI is left to whoever began it: it must end after this engine and all that it shared were dropped. All
    /// ranks of the communicator make this call.
    ///
    /// # Errors
    /// If MPI has not begun, takes calls from one thread only, or has no such communicator.
    pub fn from_fortran(self, handle: i32) -> Result<Mpi, EngineError> {
        let timeout = self.timeout;
        Mpi::joined(self, || Library::joined(handle, timeout))
    }
}

impl Mpi {
    /// Begins MPI in this process, with the default [options](MpiOptions::init).
    ///
    /// # Errors
    /// As [`MpiOptions::init`].
    pub fn init() -> Result<Mpi, EngineError> {
        MpiOptions::default().init()
    }

    /// Joins the ranks of a communicator that the program has, with the default [options](MpiOptions::from_fortran).
    ///
    /// # Errors
    /// As [`MpiOptions::from_fortran`].
    pub fn from_fortran(handle: i32) -> Result<Mpi, EngineError> {
        MpiOptions::default().from_fortran(handle)
    }

    /// Joins the ranks of a library, which is there once all of them have come.
    pub(crate) fn joined(
        options: MpiOptions,
        library: impl FnOnce() -> Result<Library, EngineError>,
    ) -> Result<Mpi, EngineError> {
        options.check()?;
        let world = bounded(options.timeout, "begin", || World::new(library()?))?;
        let machines = world.hosts.clone();
        let hosts = match options.transport {
            Transport::Shared => world.hosts.clone(),
            Transport::Messages => (0..world.ranks()).map(|rank| rank as u32).collect(),
        };
        let place = Place { rank: world.rank, hosts, machines, cores: world.cores.clone() };
        Ok(Mpi { world: Arc::new(world), place, options })
    }

    /// The Fortran handle of a communicator of these ranks, for other libraries. It lives as long as this engine; its
    /// collectives are this engine's, so duplicate it.
    pub fn to_fortran(&self) -> i32 {
        self.world.library.to_fortran(self.world.setup)
    }

    /// The ranks; where some were late, and messages are under way for ever, all are ended.
    fn whole_world(&self) -> &Arc<World> {
        if let Some(reason) = self.world.library.broken() {
            self.world.library.abort(&format!("{reason}, and another call was made after that"));
        }
        &self.world
    }

    /// Messages of the streams.
    fn way(&self) -> Way<'_> {
        let world = &*self.world;
        let limit = self.options.piece();
        Way { library: &world.library, comm: world.messages, rank: world.rank, limit }
    }

    /// Messages of the calls that all ranks make: they have a communicator of their own.
    fn way_of_all(&self) -> Way<'_> {
        Way { comm: self.world.bulk, ..self.way() }
    }

    /// Begins a call that all ranks make; gives a number of each.
    fn begin(&self, call: Call, number: u64) -> Result<Vec<u64>, EngineError> {
        let world = self.whole_world();
        begin(call, number, &world.all, &world.library)
    }

    /// The same, with how many bytes each rank has.
    fn lengths(&self, call: Call, own: &[u8]) -> Result<Vec<usize>, EngineError> {
        Ok(self.begin(call, own.len() as u64)?.into_iter().map(|length| length as usize).collect())
    }

    /// Whether a collective is to be used; the same on all members.
    fn is_collective(&self, exchange: &Exchange<'_, '_>) -> bool {
        exchange.form != Form::Messages
            && exchange.members.len() > IN_MESSAGES
            && exchange.most <= self.options.limit
            && self.world.library.threads() == Threads::Any
    }
}

impl Engine for Mpi {
    fn place(&self) -> &Place {
        &self.place
    }

    fn timeout(&self) -> Option<Duration> {
        self.options.timeout
    }

    fn share(&self, bytes: usize) -> Result<Vec<Option<SharedBytes>>, EngineError> {
        self.begin(Call::Share, 0)?;
        // That of all hosts is as it is here: with `Transport::Messages` each rank is alone.
        let own = self.place.hosts[self.place.rank];
        let (world, sharers) = (&self.world, self.world.sharers());
        match self.place.hosts.iter().filter(|&&host| host == own).count() {
            1 => share_alone(&sharers, bytes),
            _ => world.windows.share(&sharers, bytes, world.clone()),
        }
    }

    fn give_back(&self) -> Result<(), EngineError> {
        self.begin(Call::GiveBack, 0)?;
        self.world.windows.give_back(&self.world.sharers())
    }

    fn exchange(&self, exchange: Exchange<'_, '_>) -> Result<(), EngineError> {
        if exchange.most == 0 {
            return Ok(());
        }
        let world = self.whole_world();
        // MPI wants tags to be 32-bit numbers.
        let tag = i32::try_from(exchange.stream).ok().filter(|_| exchange.stream <= world.greatest_tag);
        let tag = tag.ok_or_else(|| {
            refused(format!(
                "stream {}: this MPI has tags for {} streams",
                exchange.stream, world.greatest_tag
            ))
        })?;
        if self.is_collective(&exchange) {
            return world.groups.exchange(exchange, tag, &self.way(), world.setup);
        }
        self.way().exchange(tag, exchange.form, exchange.sends, exchange.receives, exchange.most)
    }

    fn tell_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
        let lengths = self.lengths(Call::TellAll, own)?;
        let total = lengths.iter().sum();
        if total > self.options.limit {
            let mut told: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![0; length]).collect();
            let sends: Vec<(usize, &[u8])> = (0..lengths.len()).map(|rank| (rank, own)).collect();
            let mut receives: Vec<(usize, &mut [u8])> =
                told.iter_mut().enumerate().map(|(rank, bytes)| (rank, &mut bytes[..])).collect();
            self.way_of_all().exchange(0, Form::Messages, &sends, &mut receives, total)?;
            return Ok(told);
        }
        let (all, mut runs, mut told, mut end) = (&self.world.all, Runs::new(), vec![0; total], 0);
        for &length in &lengths {
            runs.push(end, length);
            end += length;
        }
        all.run(&self.world.library, total, |flight| flight.all_gather(all.comm(), own, (&mut told, &runs)))?;
        let mut rest = &told[..];
        let part = |&length: &usize| rest.split_off(..length).expect("as many bytes as all have").to_vec();
        Ok(lengths.iter().map(part).collect())
    }

    fn least(&self, own: u64) -> Result<u64, EngineError> {
        Ok(self.begin(Call::Least, own)?.into_iter().fold(own, u64::min))
    }

    fn gather(&self, own: &[u8]) -> Result<Option<Vec<Vec<u8>>>, EngineError> {
        let lengths = self.lengths(Call::Gather, own)?;
        let is_first = self.place.rank == 0;
        let mut all: Vec<Vec<u8>> = Vec::new();
        let mut there = true;
        for &length in lengths.iter().filter(|_| is_first) {
            let mut bytes = Vec::new();
            there &= bytes.try_reserve_exact(length).is_ok();
            bytes.resize(if there { length } else { 0 }, 0);
            all.push(bytes);
        }
        // Nothing is sent that could not be taken.
        if self.world.all.tell(&self.world.library, u64::from(there))?.contains(&0) {
            let total: u128 = lengths.iter().map(|&length| length as u128).sum();
            return Err(refused(format!("rank 0 has no memory for the {total} bytes of all ranks")));
        }
        let total = lengths.iter().fold(0_usize, |sum, &length| sum.saturating_add(length));
        let mut receives: Vec<(usize, &mut [u8])> =
            all.iter_mut().enumerate().map(|(rank, bytes)| (rank, &mut bytes[..])).collect();
        self.way_of_all().exchange(0, Form::Messages, &[(0, own)], &mut receives, total)?;
        Ok(is_first.then_some(all))
    }

    fn answer(&self, waits: &dyn Fn() -> Waits) -> Result<(), EngineError> {
        self.world.library.answer(waits)
    }

    fn late(&self, waits: &dyn Fn() -> Waits) -> Result<Option<Late>, EngineError> {
        self.world.library.late(waits)
    }

    fn abort(&self, reason: &str) -> ! {
        self.world.library.abort(reason)
    }
}
