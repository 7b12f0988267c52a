//! Tests of [`Progress`] and [`Patience`] with real threads.

use super::patience::{Cores, DIVISOR, Patience, STEP};
use super::progress::{Met, Progress};
use super::sync::MOST_LOOKS;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn a_tick_is_reached_by_itself_and_by_later_ones() {
    let progress = Progress::new();
    assert_eq!(progress.look(0), Met::Reached);
    assert_eq!(progress.look(1), Met::NotYet);
    progress.publish(3);
    assert_eq!(progress.look(2), Met::Reached);
    progress.stop();
    assert_eq!(progress.look(3), Met::Reached);
    assert_eq!(progress.look(4), Met::Stopped);
    progress.reset();
    assert_eq!(progress.look(1), Met::NotYet);
}

/// Two lanes hand a plain counter back and forth; every turn sleeps, and none is lost.
#[test]
fn turns_alternate_without_a_lost_wakeup() {
    const TURNS: u64 = 20_000;
    let (ping, pong) = (Progress::new(), Progress::new());
    let shared = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 1..=TURNS {
                assert_eq!(ping.sleep(turn), Met::Reached);
                assert_eq!(shared.load(Ordering::Relaxed), 2 * turn - 1);
                shared.store(2 * turn, Ordering::Relaxed);
                pong.publish(turn);
            }
        });
        for turn in 1..=TURNS {
            shared.store(2 * turn - 1, Ordering::Relaxed);
            ping.publish(turn);
            if pong.spin(turn, 3) == Met::NotYet {
                assert_eq!(pong.sleep(turn), Met::Reached);
            }
            assert_eq!(shared.load(Ordering::Relaxed), 2 * turn);
        }
    });
}

#[test]
fn a_stop_wakes_all_who_sleep() {
    let progress = Progress::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(progress.sleep(1), Met::Stopped));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        progress.stop();
    });
}

#[test]
fn patience_is_lost_fast_and_won_slowly() {
    let (progress, patience) = (Progress::new(), Patience::new());
    progress.publish(1);
    assert_eq!(patience.wait(&progress, 1, Cores::Enough), Met::Reached);
    assert_eq!(patience.looks(), MOST_LOOKS);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            progress.publish(2);
        });
        assert_eq!(patience.wait(&progress, 2, Cores::Enough), Met::Reached);
    });
    assert_eq!(patience.looks(), MOST_LOOKS / DIVISOR);
    patience.wait(&progress, 2, Cores::Enough);
    assert_eq!(patience.looks(), MOST_LOOKS / DIVISOR + STEP);
}
