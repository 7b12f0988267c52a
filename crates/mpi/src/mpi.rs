//! The engine.

use crate::binding::{Library, Threads, refused};
use crate::flight::Runs;
use crate::messages::Way;
use crate::pause::Pause;
use crate::windows::share_alone;
use crate::world::World;
use shardweave_runtime::engine::{Engine, EngineError, Exchange, Form, Place, SharedBytes};
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of one message, unless it is said otherwise.
const LIMIT: usize = 1 << 30;

/// The most bytes of one message where it is said how many a message may have: what is longer goes in several, of which
/// each that comes shows that the others are at it.
const PIECE: usize = 16 << 20;

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
    timeout: Option<Duration>,
    limit: usize,
}

/// How bytes go from rank to rank of one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Each reads what it needs where it lies.
    Shared,
    /// In messages, as between hosts.
    Messages,
}

impl Mpi {
    /// Begins MPI in this process. All ranks make this call.
    ///
    /// # Errors
    /// If MPI has begun already (then there is [`from_fortran`](Self::from_fortran)), or does not begin.
    pub fn init() -> Result<Mpi, EngineError> {
        Mpi::of(Library::begin(Threads::Any)?)
    }

    /// Begins MPI for calls of one thread at a time: they take turns. All exchanges go in messages then.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub fn init_serialized() -> Result<Mpi, EngineError> {
        Mpi::of(Library::begin(Threads::OneAtATime)?)
    }

    /// Joins the ranks of a communicator that the program has, by its Fortran handle. The communicator is duplicated,
    /// and MPI is left to whoever began it: it must end after this engine and all that it shared were dropped. All
    /// ranks of the communicator make this call.
    ///
    /// # Errors
    /// If MPI has not begun, takes calls from one thread only, or has no such communicator.
    pub fn from_fortran(handle: i32) -> Result<Mpi, EngineError> {
        Mpi::of(Library::joined(handle)?)
    }

    fn of(library: Library) -> Result<Mpi, EngineError> {
        let world = World::new(library)?;
        let (hosts, machines) = (world.hosts.clone(), world.hosts.clone());
        let place = Place { rank: world.rank, hosts, machines, cores: world.cores.clone() };
        Ok(Mpi { world: Arc::new(world), place, timeout: None, limit: LIMIT })
    }

    /// The Fortran handle of a communicator of these ranks, for other libraries. It lives as long as this engine; its
    /// collectives are this engine's, so duplicate it.
    pub fn to_fortran(&self) -> i32 {
        self.world.library.to_fortran(self.world.setup)
    }

    /// How bytes go within a host. All ranks say the same.
    pub fn with_transport(mut self, transport: Transport) -> Mpi {
        self.place.hosts = match transport {
            Transport::Shared => self.world.hosts.clone(),
            Transport::Messages => (0..self.world.ranks()).map(|rank| rank as u32).collect(),
        };
        self
    }

    /// How long every call waits for the others; for ever if nothing is said. All ranks say the same.
    pub fn with_timeout(mut self, timeout: Duration) -> Mpi {
        self.timeout = Some(timeout);
        self
    }

    /// The most bytes of one message or collective. All ranks say the same.
    ///
    /// # Panics
    /// If there are none, or more than MPI can count.
    pub fn with_limit(mut self, bytes: usize) -> Mpi {
        assert!(bytes > 0 && i32::try_from(bytes).is_ok(), "a message has from 1 to {} bytes", i32::MAX);
        self.limit = bytes;
        self
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
        let limit = self.limit.min(PIECE);
        Way { library: &world.library, comm: world.messages, rank: world.rank, limit }
    }

    /// Messages of the calls that all ranks make: they have a communicator of their own.
    fn way_of_all(&self) -> Way<'_> {
        Way { comm: self.world.bulk, ..self.way() }
    }

    /// How many bytes each rank has for all.
    fn lengths(&self, own: &[u8]) -> Result<Vec<usize>, EngineError> {
        let world = self.whole_world();
        let lengths = world.all.tell(&world.library, own.len() as u64, self.timeout)?;
        Ok(lengths.into_iter().map(|length| length as usize).collect())
    }

    /// Whether a collective is to be used; the same on all members.
    fn is_collective(&self, exchange: &Exchange<'_, '_>) -> bool {
        exchange.form != Form::Messages
            && exchange.members.len() > IN_MESSAGES
            && exchange.most <= self.limit
            && self.world.library.threads() == Threads::Any
    }
}

impl Engine for Mpi {
    fn place(&self) -> &Place {
        &self.place
    }

    fn share(&self, bytes: usize) -> Result<Vec<Option<SharedBytes>>, EngineError> {
        // That of all hosts is as it is here: with `Transport::Messages` each rank is alone.
        let own = self.place.hosts[self.place.rank];
        let world = self.whole_world();
        let sharers = world.sharers(self.timeout);
        match self.place.hosts.iter().filter(|&&host| host == own).count() {
            1 => share_alone(&sharers, bytes),
            _ => world.windows.share(&sharers, bytes, world.clone()),
        }
    }

    fn give_back(&self) -> Result<(), EngineError> {
        let world = self.whole_world();
        world.windows.give_back(&world.sharers(self.timeout))
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
            return world.groups.exchange(exchange, tag, &self.way(), world.setup, self.timeout);
        }
        let pause = Pause::new(exchange.most, self.timeout);
        self.way().exchange(tag, exchange.form, exchange.sends, exchange.receives, pause)
    }

    fn tell_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
        let lengths = self.lengths(own)?;
        let total = lengths.iter().sum();
        let pause = Pause::new(total, self.timeout);
        if total > self.limit {
            let mut told: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![0; length]).collect();
            let sends: Vec<(usize, &[u8])> = (0..lengths.len()).map(|rank| (rank, own)).collect();
            let mut receives: Vec<(usize, &mut [u8])> =
                told.iter_mut().enumerate().map(|(rank, bytes)| (rank, &mut bytes[..])).collect();
            self.way_of_all().exchange(0, Form::Messages, &sends, &mut receives, pause)?;
            return Ok(told);
        }
        let (all, mut runs, mut told, mut end) = (&self.world.all, Runs::new(), vec![0; total], 0);
        for &length in &lengths {
            runs.push(end, length);
            end += length;
        }
        all.run(&self.world.library, pause, |flight| flight.all_gather(all.comm(), own, &mut told, &runs))?;
        let mut rest = &told[..];
        let part = |&length: &usize| rest.split_off(..length).expect("as many bytes as all have").to_vec();
        Ok(lengths.iter().map(part).collect())
    }

    fn least(&self, own: u64) -> Result<u64, EngineError> {
        let mut least = [own];
        let world = self.whole_world();
        world.all.least(&world.library, &mut least, self.timeout)?;
        Ok(least[0])
    }

    fn gather(&self, own: &[u8]) -> Result<Option<Vec<Vec<u8>>>, EngineError> {
        let lengths = self.lengths(own)?;
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
        if self.least(u64::from(there))? == 0 {
            let total: u128 = lengths.iter().map(|&length| length as u128).sum();
            return Err(refused(format!("rank 0 has no memory for the {total} bytes of all ranks")));
        }
        let pause =
            Pause::new(lengths.iter().fold(0, |sum, &length| sum.saturating_add(length)), self.timeout);
        let mut receives: Vec<(usize, &mut [u8])> =
            all.iter_mut().enumerate().map(|(rank, bytes)| (rank, &mut bytes[..])).collect();
        self.way_of_all().exchange(0, Form::Messages, &[(0, own)], &mut receives, pause)?;
        Ok(is_first.then_some(all))
    }

    fn abort(&self, reason: &str) -> ! {
        self.world.library.abort(reason)
    }
}
