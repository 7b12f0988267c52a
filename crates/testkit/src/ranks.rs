//! Ranks without processes: each is a thread with a session of its own, and this is what joins them.
//!
//! It keeps the contract of [`Engine`] with messages in tables under one lock. So what runs between ranks is tested
//! wherever cargo is, with hosts as wanted: all ranks on one, each on its own, or some here and some there.

use shardweave_runtime::engine::{Engine, EngineError, Exchange, Form, Place, SharedBytes};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One of the ranks.
pub struct Rank {
    place: Place,
    hall: Arc<Hall>,
}

/// Where all ranks of a run meet.
#[derive(Default)]
struct Hall {
    tables: Mutex<Tables>,
    changed: Condvar,
}

#[derive(Default)]
struct Tables {
    /// On which stream, from whom, to whom: messages in the order in which they were sent.
    messages: BTreeMap<(usize, usize, usize), Vec<Vec<u8>>>,
    /// How many calls that all make each rank has made.
    calls: BTreeMap<usize, usize>,
    /// What each rank gave at each of these calls.
    given: BTreeMap<usize, BTreeMap<usize, Given>>,
    /// Why all ranks were ended.
    aborted: Option<String>,
}

#[derive(Clone)]
enum Given {
    Bytes(Vec<u8>),
    /// None if it could not be had.
    Memory(Option<SharedBytes>),
}

/// No rank of a test is without news of the others for so long, unless it would wait for ever.
const LIMIT: Duration = Duration::from_secs(120);

/// Plays `rank` in a thread for each of the hosts: ranks with the same number share memory. Gives what each returns.
///
/// # Panics
/// If one of the ranks does, or ends all.
pub fn on_ranks<T: Send>(hosts: &[u32], rank: impl Fn(Arc<Rank>) -> T + Sync) -> Vec<T> {
    let hall = Arc::new(Hall::default());
    let ranks = (0..hosts.len()).map(|number| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // Each host is a machine, as if it were one.
        let (hosts, machines, cores) = (hosts.to_vec(), hosts.to_vec(), vec![cores; hosts.len()]);
        Arc::new(Rank { place: Place { rank: number, hosts, machines, cores }, hall: hall.clone() })
    });
    std::thread::scope(|scope| {
        let played: Vec<_> = ranks
            .map(|one| {
                let (rank, hall) = (&rank, &hall);
                scope.spawn(move || {
                    let _gone = EndsOthers(hall);
                    rank(one)
                })
            })
            .collect();
        played.into_iter().map(|played| played.join().expect("a rank panicked")).collect()
    })
}

/// A rank that panics ends all others, as the end of a process does.
struct EndsOthers<'a>(&'a Hall);

impl Drop for EndsOthers<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().aborted.get_or_insert_with(|| "another rank panicked".into());
            self.0.changed.notify_all();
        }
    }
}

impl Hall {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is something.
    fn wait<T>(&self, mut find: impl FnMut(&mut Tables) -> Option<T>) -> T {
        let mut tables = self.lock();
        loop {
            if let Some(reason) = tables.aborted.clone() {
                drop(tables);
                panic!("all ranks were ended: {reason}");
            }
            if let Some(found) = find(&mut tables) {
                return found;
            }
            let waited = self.changed.wait_timeout(tables, LIMIT);
            let (there, over) = waited.unwrap_or_else(PoisonError::into_inner);
            assert!(!over.timed_out(), "a rank waits for what never comes");
            tables = there;
        }
    }
}

impl Rank {
    /// What all ranks give at a call that all make.
    fn all(&self, own: Given) -> Vec<Given> {
        let (rank, ranks) = (self.place.rank, self.place.ranks());
        let call = {
            let mut tables = self.hall.lock();
            let calls = tables.calls.entry(rank).or_default();
            *calls += 1;
            let call = *calls;
            tables.given.entry(call).or_default().insert(rank, own);
            call
        };
        self.hall.changed.notify_all();
        let given =
            self.hall.wait(|tables| tables.given.get(&call).filter(|given| given.len() == ranks).cloned());
        given.into_values().collect()
    }

    fn all_bytes(&self, own: &[u8]) -> Vec<Vec<u8>> {
        let bytes = |given: Given| match given {
            Given::Bytes(bytes) => bytes,
            Given::Memory(_) => panic!("ranks make different calls"),
        };
        self.all(Given::Bytes(own.to_vec())).into_iter().map(bytes).collect()
    }
}

impl Engine for Rank {
    fn place(&self) -> &Place {
        &self.place
    }

    fn share(&self, bytes: usize) -> Result<Vec<Option<SharedBytes>>, EngineError> {
        let memory = |given| match given {
            Given::Memory(memory) => memory,
            Given::Bytes(_) => panic!("ranks make different calls"),
        };
        let own = SharedBytes::within_process(bytes);
        let all: Vec<_> = self.all(Given::Memory(own)).into_iter().map(memory).collect();
        match all[self.place.rank] {
            None => Err(EngineError::Refused(format!("{bytes} bytes cannot be had"))),
            Some(_) if all.iter().any(Option::is_none) => Err(EngineError::Elsewhere),
            Some(_) => {
                let here = |(rank, memory): (usize, Option<SharedBytes>)| {
                    memory.filter(|_| self.place.has_here(rank))
                };
                Ok(all.into_iter().enumerate().map(here).collect())
            }
        }
    }

    fn give_back(&self) -> Result<(), EngineError> {
        // What is dropped is free at once; so when all are here.
        self.all_bytes(b"given back");
        Ok(())
    }

    fn exchange(&self, exchange: Exchange<'_, '_>) -> Result<(), EngineError> {
        check(&exchange, self.place.rank);
        let own = self.place.rank;
        {
            let mut tables = self.hall.lock();
            for (to, bytes) in exchange.sends.iter().filter(|(to, bytes)| *to != own && !bytes.is_empty()) {
                tables.messages.entry((exchange.stream, own, *to)).or_default().push(bytes.to_vec());
            }
        }
        self.hall.changed.notify_all();
        // Who sends the same to all need not name itself.
        let kept = exchange.sends.iter().find(|(to, _)| *to == own || exchange.form == Form::AllGather);
        for (from, into) in exchange.receives.iter_mut().filter(|(_, into)| !into.is_empty()) {
            if *from == own {
                into.copy_from_slice(kept.expect("who receives of itself sends to itself").1);
                continue;
            }
            let message = self.hall.wait(|tables| {
                let messages = tables.messages.get_mut(&(exchange.stream, *from, own))?;
                (!messages.is_empty()).then(|| messages.remove(0))
            });
            assert_eq!(message.len(), into.len(), "a message of another length");
            into.copy_from_slice(&message);
        }
        Ok(())
    }

    fn tell_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
        Ok(self.all_bytes(own))
    }

    fn least(&self, own: u64) -> Result<u64, EngineError> {
        let all = self.all_bytes(&own.to_le_bytes());
        let number =
            |bytes: &Vec<u8>| u64::from_le_bytes(bytes[..].try_into().expect("ranks make different calls"));
        Ok(all.iter().map(number).min().expect("there is at least this rank"))
    }

    fn gather(&self, own: &[u8]) -> Result<Option<Vec<Vec<u8>>>, EngineError> {
        Ok(Some(self.all_bytes(own)).filter(|_| self.place.rank == 0))
    }

    fn abort(&self, reason: &str) -> ! {
        self.hall.lock().aborted.get_or_insert_with(|| reason.into());
        self.hall.changed.notify_all();
        panic!("rank {} ends all: {reason}", self.place.rank);
    }
}

/// What every engine may rely on.
fn check(exchange: &Exchange<'_, '_>, own: usize) {
    let Exchange { form, members, most, sends, receives, .. } = exchange;
    assert!(members.is_sorted() && members.contains(&own), "the members are in order, and this rank is one");
    let (to, from): (Vec<usize>, Vec<usize>) =
        (sends.iter().map(|(to, _)| *to).collect(), receives.iter().map(|(from, _)| *from).collect());
    assert!(to.is_sorted_by(|a, b| a < b) && from.is_sorted_by(|a, b| a < b), "each at most once, in order");
    assert!(to.iter().chain(&from).all(|rank| members.contains(rank)), "messages stay between members");
    let total = |lengths: &mut dyn Iterator<Item = usize>| lengths.sum::<usize>();
    let sent = total(&mut sends.iter().map(|(_, bytes)| bytes.len()));
    let received = total(&mut receives.iter().map(|(_, bytes)| bytes.len()));
    let is_in_a_row = |mut ranges: Vec<std::ops::Range<*const u8>>| {
        ranges.retain(|range| !range.is_empty());
        ranges.windows(2).all(|pair| pair[0].end == pair[1].start)
    };
    let sends_in_a_row = is_in_a_row(sends.iter().map(|(_, bytes)| bytes.as_ptr_range()).collect());
    let receives_in_a_row = is_in_a_row(receives.iter().map(|(_, bytes)| bytes.as_ptr_range()).collect());
    assert!(sends_in_a_row || !form.sends_in_a_row(own), "what goes lies one behind the other");
    assert!(receives_in_a_row || !form.receives_in_a_row(own), "what comes lies one behind the other");
    let is_same = sends.windows(2).all(|pair| pair[0].1 == pair[1].1);
    assert!(is_same || !form.sends_alike(), "all are sent the same");
    match *form {
        Form::AllGather => assert_eq!(received, *most, "each receives of all"),
        _ => assert!(sent.max(received) <= *most, "no member sends or receives more"),
    }
    match *form {
        Form::Messages | Form::AllGather | Form::AllToAll => {}
        Form::Broadcast { root } if own == root => assert!(receives.is_empty()),
        Form::Broadcast { root } => assert!(from == [root] && sends.is_empty()),
        Form::Gather { root } => assert!(to.iter().all(|&to| to == root) && (own == root || from.is_empty())),
        Form::Scatter { root } => {
            assert!(from.iter().all(|&from| from == root) && (own == root || to.is_empty()))
        }
    }
}
