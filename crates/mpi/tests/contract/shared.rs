//! Memory that the ranks of a host share.

use shardweave_mpi::Mpi;
use shardweave_runtime::engine::{Engine, SharedBytes};
use std::sync::atomic::{AtomicU64, Ordering};

/// The 8 bytes from a place on, as a number that all ranks may touch at any time.
fn number(shared: &SharedBytes, at: usize) -> &AtomicU64 {
    assert!(at.is_multiple_of(8) && at + 8 <= shared.bytes());
    // SAFETY: the place lies inside and is a multiple of 8 from an aligned start; all touch it as an atomic only.
    unsafe { AtomicU64::from_ptr(shared.start().add(at).as_ptr().cast()) }
}

fn bytes_of(rank: usize) -> usize {
    8 * (1 + rank * 700)
}

pub fn seen_by_all_of_the_host(mpi: &Mpi) {
    let place = mpi.place();
    let (rank, own_host) = (place.rank, place.hosts[place.rank]);
    let shared = mpi.share(bytes_of(rank)).expect("there is memory");
    assert_eq!(shared.len(), place.ranks());
    for (other, shared) in shared.iter().enumerate() {
        let Some(shared) = shared else {
            assert_ne!(place.hosts[other], own_host, "memory of rank {other} is shared");
            continue;
        };
        assert_eq!(place.hosts[other], own_host);
        assert_eq!(shared.bytes(), bytes_of(other));
        assert_eq!(shared.start().as_ptr().align_offset(64), 0);
        for at in (0..shared.bytes()).step_by(8) {
            assert_eq!(number(shared, at).load(Ordering::Relaxed), 0, "memory is zero");
        }
    }
    mpi.least(0).expect("all have looked");
    // Each rank adds its bit to the first and the last number of every other.
    let on_host: Vec<&SharedBytes> = shared.iter().flatten().collect();
    for shared in &on_host {
        number(shared, shared.bytes() - 8).fetch_add(1 << rank, Ordering::AcqRel);
    }
    let all: u64 = (0..place.ranks()).filter(|&r| place.hosts[r] == own_host).map(|rank| 1 << rank).sum();
    for shared in &on_host {
        // By reading alone, without a call of the engine.
        while number(shared, shared.bytes() - 8).load(Ordering::Acquire) != all {
            std::thread::yield_now();
        }
    }
}

/// How many places in memory this process has mapped.
fn mapped() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("the system tells").lines().count()
}

pub fn dropped_in_any_order(mpi: &Mpi) {
    let rank = mpi.place().rank;
    let mut held: Vec<(u64, Vec<Option<SharedBytes>>)> = Vec::new();
    let mut mapped_before = 0;
    for turn in 0..30u64 {
        if turn == 10 {
            mapped_before = mapped();
        }
        let shared = mpi.share(100_000 + 8 * rank).expect("there is memory");
        number(shared[rank].as_ref().expect("own memory"), 0).store(turn + 1, Ordering::Release);
        held.push((turn + 1, shared));
        mpi.least(0).expect("all have written");
        // What is held is as it was, whatever was freed meanwhile, here or by others.
        for (turn, shared) in &held {
            assert!(shared.iter().flatten().all(|shared| number(shared, 0).load(Ordering::Acquire) == *turn));
        }
        // Ranks drop in different orders, some of them only a part of what they were given.
        if held.len() > 3 {
            let (_, mut dropped) = held.remove((turn as usize + rank) % held.len());
            // The last one that is left of a window holds it.
            if turn % 2 == 0 {
                dropped.truncate(1);
            }
            drop(dropped);
        }
        mpi.least(0).expect("all have dropped");
    }
    // What nobody holds is given back: at most some of the last turns are still there.
    let ranks = mpi.place().ranks();
    assert!(mapped() < mapped_before + 12 * (ranks + 2), "{} places, before {mapped_before}", mapped());
}

/// What all have dropped is mapped nowhere after it was given back; what some hold stays.
pub fn given_back(mpi: &Mpi) {
    let (rank, ranks) = (mpi.place().rank, mpi.place().ranks());
    mpi.give_back().expect("there is nothing yet");
    let kept = mpi.share(64).expect("there is memory");
    let before = mapped();
    for turn in 0..20 {
        let shared = mpi.share(100_000).expect("there is memory");
        // The last rank drops later than the others.
        if rank + 1 == ranks {
            std::thread::sleep(std::time::Duration::from_millis(turn % 3));
        }
        drop(shared);
        mpi.least(0).expect("all have dropped");
        mpi.give_back().expect("all make this call");
        assert!(mapped() <= before + ranks + 2, "{} places in turn {turn}, before {before}", mapped());
    }
    number(kept[rank].as_ref().expect("own memory"), 0).store(7, Ordering::Release);
}

pub fn refused_by_all(mpi: &Mpi) {
    let place = mpi.place();
    for bytes in [usize::MAX, usize::MAX / 2, isize::MAX as usize - 4096] {
        let wanted = if place.rank + 1 == place.ranks() { bytes } else { 64 };
        let refused = mpi.share(wanted).err().expect("nobody has so much memory").to_string();
        assert!(!refused.is_empty());
    }
    let shared = mpi.share(64).expect("all is as before");
    assert_eq!(number(shared[place.rank].as_ref().expect("own memory"), 0).load(Ordering::Relaxed), 0);
}

/// What is shared stays when the engine is dropped.
pub fn outlives_the_engine(mpi: Mpi) {
    let rank = mpi.place().rank;
    let shared = mpi.share(64).expect("there is memory");
    drop(mpi);
    let own = number(shared[rank].as_ref().expect("own memory"), 0);
    own.store(7, Ordering::Release);
    assert_eq!(own.load(Ordering::Acquire), 7);
}
