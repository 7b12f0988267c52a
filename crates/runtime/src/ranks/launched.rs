//! What a launcher of MPI tells the processes that it starts, before they join.

/// The variables that say which rank a process is, and how many there are: those of Open MPI, and of MPICH.
pub const LAUNCHED: [[&str; 2]; 2] =
    [["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"], ["PMI_RANK", "PMI_SIZE"]];

/// Which rank this process is, and how many there are, if a launcher has started it.
pub fn launched() -> Option<(usize, usize)> {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    LAUNCHED.into_iter().find_map(|[rank, ranks]| Some((number(rank)?, number(ranks)?)))
}
