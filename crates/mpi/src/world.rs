//! The ranks of a run: their communicators, their hosts, and how they end.
//!
//! ```text
//!  base (MPI_COMM_WORLD, or the program's)
//!    ├ all       collectives of all ranks
//!    ├ host      collectives of the ranks of this host
//!    ├ messages  messages of the streams, by tag
//!    ├ bulk      messages of the calls that all ranks make
//!    ├ setup     makes the communicators of groups
//!    └ notes     notes of ranks whose time is over
//! ```

use crate::binding::{Comm, Library};
use crate::calls::{Call, begin};
use crate::collectives::Groups;
use crate::cores;
use crate::group::Group;
use crate::windows::{Sharers, Windows};
use shardweave_runtime::engine::EngineError;

pub(crate) struct World {
    pub library: Library,
    pub rank: usize,
    /// For each rank the lowest rank of its host.
    pub hosts: Vec<u32>,
    /// For each rank how many cores those of its host may use together.
    pub cores: Vec<usize>,
    pub all: Group,
    pub host: Group,
    pub messages: Comm,
    pub bulk: Comm,
    pub setup: Comm,
    pub greatest_tag: usize,
    pub groups: Groups,
    pub windows: Windows,
}

impl World {
    /// Finds out who is there. All ranks make this call.
    pub(crate) fn new(library: Library) -> Result<World, EngineError> {
        let base = library.base();
        let (rank, ranks) = library.rank_of(base)?;
        let all = Group::new(library.duplicate(base)?, (0..ranks).collect::<Vec<_>>(), rank);
        let messages = library.duplicate(base)?;
        let bulk = library.duplicate(base)?;
        let setup = library.duplicate(base)?;
        let notes = library.duplicate(base)?;
        let host = library.split_by_host(base)?;
        let (own, size) = library.rank_of(host)?;
        // The host's members are not known before they have told each other; till then they are numbered.
        let host = Group::new(host, (0..size).collect::<Vec<_>>(), own);
        let mut lowest = [rank as u64];
        host.least(&library, &mut lowest)?;
        let hosts: Vec<u32> = all.tell(&library, lowest[0])?.into_iter().map(|host| host as u32).collect();
        let members: Vec<usize> = (0..ranks).filter(|&other| hosts[other] == hosts[rank]).collect();
        let host = Group::new(host.comm(), members, rank);
        let greatest_tag = library.greatest_tag(messages)?;
        let (groups, windows) = (Groups::new(), Windows::new());
        let cores = cores::of_ranks(&all.tell_some(&library, cores::own())?, &hosts);
        library.have_joined(notes, ranks);
        Ok(World {
            library,
            rank,
            hosts,
            cores,
            all,
            host,
            messages,
            bulk,
            setup,
            greatest_tag,
            groups,
            windows,
        })
    }

    pub(crate) fn ranks(&self) -> usize {
        self.hosts.len()
    }

    /// Those of this host, who share memory.
    pub(crate) fn sharers(&self) -> Sharers<'_> {
        Sharers { library: &self.library, all: &self.all, host: &self.host }
    }

    /// Frees all that was made. All ranks have ended, and nothing is under way.
    fn free(&self) -> Result<(), EngineError> {
        self.windows.free_all(&self.library)?;
        for group in self.groups.take() {
            self.library.free(group.comm())?;
        }
        let comms = [self.host.comm(), self.setup, self.bulk, self.messages, self.all.comm()];
        for comm in self.library.notes().into_iter().chain(comms) {
            self.library.free(comm)?;
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.library.abort("it panicked");
        }
        // Ranks that are in a call of their own would be waited for without end.
        if let Some(reason) = self.library.broken() {
            self.library.abort(reason);
        }
        // Ending takes all ranks: waiting for them here leaves the core to others.
        match begin(Call::End, 0, &self.all, &self.library) {
            Ok(_) => {}
            Err(late @ EngineError::Late(_)) => self.library.abort(&late.to_string()),
            // The others have found out as well, and end all ranks. Till then this one may tell why it has ended.
            Err(_) => return,
        }
        if let Err(error) = self.free() {
            self.library.abort(&format!("the ranks cannot be ended in order: {error}"));
        }
        self.library.end();
    }
}
