//! What all ranks tell each other.

use shardweave_mpi::Mpi;
use shardweave_runtime::engine::Engine;

fn bytes_of(rank: usize, count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 13 + rank * 5 + 1) as u8).collect()
}

pub fn all_tell_all(mpi: &Mpi) {
    let (rank, ranks) = (mpi.place().rank, mpi.place().ranks());
    for turn in 0..40 {
        let count =
            |rank: usize| (rank * 37 + turn * 11) % 90 * usize::from(!(rank + turn).is_multiple_of(4));
        let told = mpi.tell_all(&bytes_of(rank, count(rank))).expect("all tell");
        assert_eq!(told, (0..ranks).map(|rank| bytes_of(rank, count(rank))).collect::<Vec<_>>());
        let least = mpi.least((rank + turn) as u64 % ranks as u64 + 10).expect("all tell");
        assert_eq!(least, 10);
        // The numbers of half of the ranks have the highest bit.
        let high = if rank % 2 == 0 { u64::MAX - rank as u64 } else { rank as u64 };
        let lowest = if ranks == 1 { u64::MAX } else { 1 };
        assert_eq!(mpi.least(high).expect("all tell"), lowest);
        assert_eq!(mpi.least(u64::MAX - rank as u64).expect("all tell"), u64::MAX - (ranks as u64 - 1));
    }
}

pub fn much_is_gathered(mpi: &Mpi) {
    let (rank, ranks) = (mpi.place().rank, mpi.place().ranks());
    for largest in [0, 3, 4097] {
        let count = |rank: usize| largest * (rank % 3) + rank;
        let gathered = mpi.gather(&bytes_of(rank, count(rank))).expect("all give");
        let expected = (0..ranks).map(|rank| bytes_of(rank, count(rank))).collect::<Vec<_>>();
        assert_eq!(gathered, (rank == 0).then_some(expected));
    }
}
