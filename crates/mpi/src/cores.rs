//! How many cores the ranks of a machine may use together.
//!
//! ```text
//!  rank 0   may use cores  x x . .   and so many at a time      those of the machine: x x x .
//!  rank 1   may use cores  . x x .   and so many at a time
//! ```
//!
//! A process may be bound to some cores, and may be allowed less time than these have; ranks of one machine are taken
//! to have such a quota together.

use crate::binding::core_bits;
use std::collections::BTreeMap;

/// How many threads of a rank can run at a time, and then a bit for each core that it may use.
pub(crate) type Cores = [u64; 17];

/// Those of this process.
pub(crate) fn own() -> Cores {
    let at_a_time = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut own = [at_a_time; 17];
    own[1..].copy_from_slice(&core_bits());
    own
}

/// For each rank the cores of its machine, from what all ranks say.
pub(crate) fn of_ranks(all: &[Cores], hosts: &[u32]) -> Vec<usize> {
    let mut of_hosts: BTreeMap<u32, Vec<&Cores>> = BTreeMap::new();
    hosts.iter().zip(all).for_each(|(&host, cores)| of_hosts.entry(host).or_default().push(cores));
    let together: BTreeMap<u32, usize> =
        of_hosts.iter().map(|(&host, cores)| (host, together(cores))).collect();
    hosts.iter().map(|host| together[host]).collect()
}

fn together(of_ranks: &[&Cores]) -> usize {
    let bits = |cores: &Cores| u64::from(cores[1..].iter().map(|bits| bits.count_ones()).sum::<u32>());
    let most = |some: &dyn Fn(&Cores) -> bool| {
        of_ranks.iter().filter(|cores| some(cores)).map(|cores| cores[0]).max()
    };
    // Where a system names no cores, ranks are taken to use the same ones.
    let known = of_ranks.iter().all(|cores| bits(cores) > 0);
    let union: u64 =
        (1..17).map(|at| u64::from(of_ranks.iter().fold(0, |all, cores| all | cores[at]).count_ones())).sum();
    let quota = most(&|cores| cores[0] < bits(cores));
    let cores = if known { union.min(quota.unwrap_or(u64::MAX)) } else { most(&|_| true).unwrap_or(1) };
    usize::try_from(cores).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(at_a_time: u64, bits: u64) -> Cores {
        let mut cores = [0; 17];
        (cores[0], cores[2]) = (at_a_time, bits);
        cores
    }

    #[test]
    fn ranks_of_a_machine_have_the_cores_of_all_of_them() {
        let of = |all: &[Cores]| of_ranks(all, &vec![0; all.len()]);
        assert_eq!(of(&[cores(1, 0b01), cores(1, 0b10)]), [2, 2], "each is bound to a core of its own");
        assert_eq!(of(&[cores(2, 0b11), cores(2, 0b11)]), [2, 2], "they have the same ones");
        assert_eq!(of(&[cores(2, 0xff), cores(2, 0xff)]), [2, 2], "a quota is for all together");
        assert_eq!(of(&[cores(4, 0), cores(4, 0)]), [4, 4], "no core has a name");
        let two = of_ranks(&[cores(1, 1), cores(2, 0b11), cores(1, 0b100)], &[0, 1, 0]);
        assert_eq!(two, [2, 2, 2]);
    }
}
