//! Tests of [`Progress`] and [`Patience`] with real threads.

use super::patience::{Cores, Debt, MOST_DEBT, PART, Patience};
use super::progress::{Met, Progress};
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
fn no_more_than_a_part_of_the_time_is_looked_in_vain() {
    const LOOK: u64 = 50_000;
    let debt = Debt::new();
    let (mut now, mut in_vain) = (1_000_000_000, 0);
    let start = now;
    for pause in [0, 1_000, 100_000, 3_000_000].into_iter().cycle().take(40_000) {
        let before = now;
        now += if debt.allows(now) { LOOK } else { 0 };
        if now > before {
            debt.add(before, now);
            in_vain += LOOK;
        }
        now += pause;
    }
    let all = now - start;
    assert!(in_vain <= all / PART + MOST_DEBT / PART + LOOK, "{in_vain} of {all} ns");
    // Where time is left, it looks each time.
    assert!(in_vain >= all / PART / 2, "{in_vain} of {all} ns");
    now += 10_000_000;
    for _ in 0..MOST_DEBT / PART / LOOK {
        assert!(debt.allows(now), "after a pause it looks again, and again");
        debt.add(now, now + LOOK);
        now += LOOK;
    }
}

#[test]
fn a_tick_is_waited_for_with_and_without_a_core_to_look_on() {
    for cores in [Cores::Enough, Cores::TooFew] {
        let (progress, patience) = (Progress::new(), Patience::new());
        progress.publish(1);
        assert_eq!(patience.wait(&progress, 1, cores), Met::Reached);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                progress.publish(2);
            });
            assert_eq!(patience.wait(&progress, 2, cores), Met::Reached);
        });
    }
}
