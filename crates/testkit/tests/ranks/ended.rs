//! What cannot be called back ends all ranks.

use crate::Case;
use crate::engines::{Call, Countdown, Watched};
use crate::failures::{FailsAt, Probes};
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use shardweave_runtime::engine::{Engine, EngineError, Late};
use shardweave_runtime::execute::{How, Record, RunError, Streams};
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_testkit::ranks::on_ranks;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// Whatever call of the engine finds that others are late, all ranks are ended: no error comes out of a session.
#[test]
fn a_rank_that_is_late_ends_all_wherever_it_is_awaited() {
    let case = Case::mlp();
    let mut ended = 0;
    for number in 1.. {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            on_ranks(&[0, 1, 0], |engine| {
                let rank = engine.place().rank;
                let (failing, when) = (Arc::new(Probes::default()), Countdown::new(number));
                let call = when.clone();
                let faulty = Watched::with_timeout(engine, move |at| match at {
                    Call::Exchange | Call::Abort(_) => Ok(()),
                    _ if call.is_now() => Err(EngineError::Late(Late::of(vec![2]))),
                    _ => Ok(()),
                });
                let options = SessionOptions {
                    engine: Some(faulty),
                    record: Record::Bytes,
                    probe: Some(failing.clone()),
                    ..SessionOptions::default()
                };
                let mut session = Session::from_plan(case.plan.clone(), options)?;
                session.run(&case.inputs)?;
                // What ranks tell each other after a failure counts as well.
                let (device, how) = (DeviceId::new(1), How::Refused("no".into()));
                failing.set(Some(FailsAt { device, when: Countdown::new(1), how }));
                assert!(matches!(session.run(&case.inputs), Err(RunError::Device(_))));
                let wrong = if rank == 1 { Inputs::new() } else { case.inputs.clone() };
                assert!(session.bind(&wrong).is_err());
                Ok(when.is_to_come())
            })
        }));
        match ran {
            Err(_) => ended += 1,
            Ok(ran) => {
                let ran: Result<Vec<bool>, RunError> = ran.into_iter().collect();
                assert_eq!(ran, Ok(vec![true; 3]), "call {number} failed, and no rank was ended");
                break;
            }
        }
    }
    assert!(ended >= 15, "only {ended} calls");
}

/// What becomes of the exchange of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exchanges {
    Refused,
    Panics,
}

/// The others wait for the messages of a lane that cannot send them, and will never have them.
#[test]
fn a_lane_that_cannot_go_on_ends_all_ranks() {
    let case = Case::mlp();
    for (becomes, said) in [(Exchanges::Refused, "the wire is cut"), (Exchanges::Panics, "a torn cable")] {
        let reasons: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            on_ranks(&[0, 1, 2], |engine| {
                let rank = engine.place().rank;
                let (second, reasons) = (Countdown::new(2), reasons.clone());
                let engine = Watched::new(engine, move |call| match call {
                    Call::Exchange if rank == 1 && second.is_now() => match becomes {
                        Exchanges::Refused => Err(EngineError::Refused(said.into())),
                        // A panic that prints nothing.
                        Exchanges::Panics => std::panic::resume_unwind(Box::new(said)),
                    },
                    Call::Abort(reason) => {
                        reasons.lock().expect("nobody panics with it").push((rank, reason.to_string()));
                        Ok(())
                    }
                    _ => Ok(()),
                });
                // Another lane of this rank would not end with this thread, as it does with a process.
                let options = SessionOptions { streams: Some(Streams::Merged), ..SessionOptions::default() };
                case.session(engine, options).run(&case.inputs).map(|_| ())
            })
        }));
        assert!(ran.is_err(), "{becomes:?}: {ran:?}");
        let reasons = reasons.lock().expect("all ranks have ended");
        let (rank, reason) = reasons.first().expect("a rank has ended all");
        assert!(*rank == 1 && reason.contains(said), "{becomes:?}: {reasons:?}");
        if becomes == Exchanges::Panics {
            // A fault of ours is told with its place.
            assert!(reason.contains("device1 failed at `"), "{reason}");
        }
    }
}
