//! What joins the processes of a run in which every device is a process of its own: an engine such as MPI.
//!
//! ```text
//!  rank 0, host 0      rank 1, host 0        rank 2, host 1
//!   device 0            device 1              device 2
//!      └── share: each reads the other ──┘       │
//!      └─────────── exchange: bytes in messages ─┘
//! ```
//!
//! **The contract of every engine.**
//!
//! 1. All ranks make the same calls of [`share`](Engine::share), [`give_back`](Engine::give_back),
//!    [`tell_all`](Engine::tell_all), [`least`](Engine::least) and [`gather`](Engine::gather) in the same order. A call returns when the others have
//!    made it too, or fails.
//! 2. The members of an [`Exchange`] make it in the same order on every stream; exchanges of different streams may
//!    be under way at the same time, from different threads. When it returns, all that was to come is there, and
//!    what was sent may change. Nothing has to be buffered: sends and receives of one exchange are all started
//!    before any is waited for.
//! 3. An error leaves nothing under way. What cannot be ended so ends all ranks ([`abort`](Engine::abort)).
//! 4. A rank that has nothing to do but wait leaves its core to others after a short while.

pub use crate::arena::SharedBytes;
pub use crate::digest::digest;
use std::fmt;
use std::time::Duration;

/// Joins the processes of a run. See the [module](self).
pub trait Engine: Send + Sync {
    /// Where this process stands among those of the run.
    fn place(&self) -> &Place;

    /// How long calls wait for the other ranks; for ever if nothing is said. All ranks say the same.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// So many zeroed bytes of every rank of this host, where all of them can read and write: by rank, none for
    /// ranks of other hosts. Ranks may ask for different numbers of bytes.
    ///
    /// # Errors
    /// If one of the ranks cannot have its bytes; then none has. That rank hears why, the others may hear
    /// [`EngineError::Elsewhere`].
    fn share(&self, bytes: usize) -> Result<Vec<Option<SharedBytes>>, EngineError>;

    /// Gives back the memory of [`share`](Self::share) that no rank holds any more, and returns when all ranks have done
    /// so. All ranks make this call.
    ///
    /// # Errors
    /// If the engine fails.
    fn give_back(&self) -> Result<(), EngineError>;

    /// Sends and receives.
    ///
    /// # Errors
    /// [`EngineError::Late`] if the others do not come in time; then messages are under way, and all that is left is
    /// to [`abort`](Engine::abort).
    fn exchange(&self, exchange: Exchange<'_, '_>) -> Result<(), EngineError>;

    /// What every rank says, by rank. For few bytes.
    ///
    /// # Errors
    /// If the engine fails.
    fn tell_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, EngineError>;

    /// The least number of all ranks.
    ///
    /// # Errors
    /// If the engine fails.
    fn least(&self, own: u64) -> Result<u64, EngineError>;

    /// The bytes of all ranks, by rank, on rank 0; none on the others. For any number of bytes.
    ///
    /// # Errors
    /// If the engine fails.
    fn gather(&self, own: &[u8]) -> Result<Option<Vec<Vec<u8>>>, EngineError>;

    /// Tells ranks that ask for it what this one waits for: who waits for the memory of another rank, and not in a call
    /// of the engine, calls this again and again.
    ///
    /// # Errors
    /// If the engine fails.
    fn answer(&self, waits: &dyn Fn() -> Waits) -> Result<(), EngineError> {
        let _ = waits;
        Ok(())
    }

    /// Who is to blame where what this rank waits for has not come in time; nobody if all ranks wait, so that it may
    /// come still. An engine that cannot ask names those who are waited for.
    ///
    /// # Errors
    /// If the engine fails.
    fn late(&self, waits: &dyn Fn() -> Waits) -> Result<Option<Late>, EngineError> {
        Ok(Some(Late::of(waits().ranks)))
    }

    /// Ends all ranks at once, with this as the reason.
    fn abort(&self, reason: &str) -> !;
}

/// Where a process stands among those of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The number of this process; it plays the device of that number, if there is one.
    pub rank: usize,
    /// For each rank a number of its host: ranks with the same number can share memory.
    pub hosts: Vec<u32>,
    /// For each rank a number of its machine, whose memory and cores it has together with those of the same number,
    /// whether they share memory or not.
    pub machines: Vec<u32>,
    /// For each rank how many cores the ranks of its machine may use together.
    pub cores: Vec<usize>,
}

impl Place {
    /// How many processes there are.
    pub fn ranks(&self) -> usize {
        self.hosts.len()
    }

    /// Whether a device is played on this host.
    pub fn has_here(&self, device: usize) -> bool {
        self.hosts.get(device) == self.hosts.get(self.rank)
    }

    /// Whether a device is played on this machine.
    pub fn is_on_machine(&self, device: usize) -> bool {
        self.machines.get(device) == self.machines.get(self.rank)
    }

    /// Whether every machine has a core for each of so many lanes of each of the devices that it plays. All ranks say
    /// the same.
    pub fn has_cores(&self, devices: u64, lanes: u64) -> bool {
        let devices = usize::try_from(devices).unwrap_or(usize::MAX).min(self.ranks());
        let on_machine =
            |of: usize| (0..devices).filter(move |&other| self.machines[other] == self.machines[of]);
        (0..devices).all(|device| {
            (on_machine(device).count() as u64).saturating_mul(lanes) <= self.cores[device] as u64
        })
    }
}

/// Bytes that go from rank to rank.
pub struct Exchange<'a, 'm> {
    /// The stream of the program.
    pub stream: usize,
    /// The form that all members' messages have together.
    pub form: Form,
    /// All who send or receive, in ascending order; this rank is one of them.
    pub members: &'a [usize],
    /// No member sends or receives more bytes in all; in a [`Form::AllGather`], how many each receives. All members say
    /// the same.
    pub most: usize,
    /// To whom what goes: each rank at most once, in ascending order.
    pub sends: &'a [(usize, &'m [u8])],
    /// From whom what comes: each rank at most once, in ascending order.
    pub receives: &'a mut [(usize, &'m mut [u8])],
}

/// The form of an exchange. Every form can be carried out as [`Form::Messages`]; the others say more, so that an
/// engine can use what it has for them. All members see the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Any messages between any members.
    Messages,
    /// The root sends the same bytes to all other members.
    Broadcast {
        /// Who sends.
        root: usize,
    },
    /// Each member sends the same bytes to all members, also to itself, which it need not name: all receive the same.
    /// What comes lies one behind the other in memory.
    AllGather,
    /// Each member may send to each, also to itself. What goes, and what comes, lies one behind the other in memory.
    AllToAll,
    /// Each member may send to the root, which may also send to itself. What comes there lies one behind the other in
    /// memory.
    Gather {
        /// Who receives.
        root: usize,
    },
    /// The root may send to each member, also to itself. What goes from there lies one behind the other in memory.
    Scatter {
        /// Who sends.
        root: usize,
    },
}

impl Form {
    /// Whether a member sends the same bytes to all.
    pub fn sends_alike(self) -> bool {
        matches!(self, Form::Broadcast { .. } | Form::AllGather)
    }

    /// Whether what goes from a member lies one behind the other in memory, in the order of the members.
    pub fn sends_in_a_row(self, member: usize) -> bool {
        match self {
            Form::AllToAll => true,
            Form::Scatter { root } => member == root,
            Form::Messages | Form::Broadcast { .. } | Form::AllGather | Form::Gather { .. } => false,
        }
    }

    /// Whether what comes to a member lies one behind the other in memory, in the order of the members.
    pub fn receives_in_a_row(self, member: usize) -> bool {
        match self {
            Form::AllGather | Form::AllToAll => true,
            Form::Gather { root } => member == root,
            Form::Messages | Form::Broadcast { .. } | Form::Scatter { .. } => false,
        }
    }
}

/// What a rank waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    /// For whom.
    pub ranks: Vec<usize>,
    /// Where in the program.
    pub place: String,
}

/// Ranks that others wait for in vain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Late {
    /// They have not come, and do not wait themselves, as far as is known.
    pub ranks: Vec<usize>,
    /// Others that do, and for what.
    pub waiting: Vec<(usize, Waits)>,
}

impl Late {
    /// These ranks; of others nothing is known.
    pub fn of(ranks: Vec<usize>) -> Late {
        Late { ranks, waiting: Vec::new() }
    }

    /// Who else waits, for the end of a sentence.
    pub fn waiting_text(&self) -> String {
        let waits = |(rank, waits): &(usize, Waits)| format!("; rank {rank} waits for {}", waits);
        self.waiting.iter().map(waits).collect()
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", ranks_text(&self.ranks), self.place)
    }
}

/// Ranks by their names.
pub(crate) fn ranks_text(ranks: &[usize]) -> String {
    let ranks: Vec<String> = ranks.iter().map(|rank| format!("rank {rank}")).collect();
    ranks.join(", ")
}

/// Why an engine did not do what it was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EngineError {
    /// Ranks did not come in time.
    Late(Late),
    /// The engine itself, or the system, refuses: why.
    Refused(String),
    /// Another rank was refused its part, and hears why.
    Elsewhere,
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Late(late) => {
                write!(f, "{} did not come in time{}", ranks_text(&late.ranks), late.waiting_text())
            }
            EngineError::Refused(why) => f.write_str(why),
            EngineError::Elsewhere => f.write_str("another rank was refused its part"),
        }
    }
}

impl std::error::Error for EngineError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ranks_count_the_cores_of_all_machines() {
        for rank in 0..4 {
            // Two machines, of which ranks share no memory: 3 cores and 1 core.
            let (hosts, machines, cores) = (vec![0, 1, 2, 3], vec![0, 0, 0, 3], vec![3, 3, 3, 1]);
            let place = Place { rank, hosts, machines, cores };
            assert!(place.has_cores(3, 1) && place.has_cores(4, 1));
            assert!(!place.has_cores(2, 2) && !place.has_cores(4, 2) && place.has_cores(1, 3));
            assert_eq!(place.is_on_machine(1), rank < 3);
            assert_eq!(place.has_here(1), rank == 1);
        }
    }
}
