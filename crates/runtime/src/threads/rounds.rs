//! Tests of [`Crew`] with real threads.

use super::crew::Crew;
use crate::execute::RunError;
use crate::meet::Cores;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn every_rank_is_called_once_a_round() {
    let mut crew = Crew::new();
    for ranks in [1, 4, 2, 7, 0, 7] {
        let calls: Arc<Vec<AtomicUsize>> = Arc::new((0..8).map(|_| AtomicUsize::new(0)).collect());
        let counted = calls.clone();
        let count = move |rank: usize| {
            counted[rank].fetch_add(1, Ordering::Relaxed);
        };
        crew.each(ranks, Cores::Enough, Arc::new(count)).unwrap();
        let calls: Vec<usize> = calls.iter().map(|calls| calls.load(Ordering::Relaxed)).collect();
        assert_eq!(calls, (0..8).map(|rank| usize::from(rank < ranks)).collect::<Vec<_>>());
    }
}

#[test]
fn a_panic_in_any_rank_is_an_error_and_the_next_round_works() {
    let mut crew = Crew::new();
    for bad in 0..3 {
        let panics = move |rank| assert!(rank != bad, "rank {rank} gives up");
        let error = crew.each(3, Cores::TooFew, Arc::new(panics)).unwrap_err();
        assert_eq!(error, RunError::Broken(format!("thread {bad} panicked: rank {bad} gives up")));
        crew.each(3, Cores::Enough, Arc::new(|_| ())).unwrap();
    }
}
