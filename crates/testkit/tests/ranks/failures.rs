//! Devices that fail, on one rank.

use crate::engines::Countdown;
use crate::{Case, HOSTS};
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use shardweave_runtime::engine::Engine;
use shardweave_runtime::execute::{Doing, How, InstrId, NotReady, Probe, Record, RunError, Streams};
use shardweave_runtime::session::SessionOptions;
use shardweave_testkit::ranks::on_ranks;
use std::sync::{Arc, Mutex, PoisonError};

/// Fails at one of the things that a device does, all lanes counted on.
pub struct FailsAt {
    pub device: DeviceId,
    pub when: Countdown,
    pub how: How,
}

impl Probe for FailsAt {
    fn before(&self, device: DeviceId, _: InstrId, _: Doing) -> Result<(), String> {
        if device != self.device || !self.when.is_now() {
            return Ok(());
        }
        match &self.how {
            // A panic that prints nothing.
            How::Panic(reason) => std::panic::resume_unwind(Box::new(reason.clone())),
            how => Err(format!("{how:?}")),
        }
    }
}

/// The probe of a rank, which can be told where to fail.
#[derive(Default)]
pub struct Probes(Mutex<Option<FailsAt>>);

impl Probes {
    pub fn set(&self, probe: Option<FailsAt>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = probe;
    }
}

impl Probe for Probes {
    fn before(&self, device: DeviceId, instr: InstrId, doing: Doing) -> Result<(), String> {
        let probe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        probe.as_ref().map_or(Ok(()), |probe| probe.before(device, instr, doing))
    }
}

#[test]
fn a_failure_anywhere_on_a_rank_is_told_on_all_and_their_sessions_go_on() {
    let case = Case::mlp();
    for (hosts, streams) in
        HOSTS.into_iter().flat_map(|hosts| [(hosts, Streams::Merged), (hosts, Streams::Apart)])
    {
        let failures = on_ranks(&hosts, |engine| {
            let rank = engine.place().rank;
            let probes = Arc::new(Probes::default());
            let options = SessionOptions {
                streams: Some(streams),
                record: Record::Bytes,
                probe: Some(probes.clone()),
                ..SessionOptions::default()
            };
            let mut session = case.session(engine, options);
            let mut failures = 0;
            for device in 0..hosts.len() {
                // All ranks see how the run went, so all leave off at the same number.
                for (number, how) in
                    (1..).flat_map(|n| [(n, How::Refused("no".into())), (n, How::Panic("oh".into()))])
                {
                    let device = DeviceId::new(device);
                    probes.set(Some(FailsAt { device, when: Countdown::new(number), how: how.clone() }));
                    let ran = session.run(&case.inputs);
                    probes.set(None);
                    match ran {
                        Ok(_) => break,
                        Err(RunError::Device(failure)) => {
                            assert_eq!(failure.device, device);
                            assert!(matches!(
                                (&failure.how, &how),
                                (How::Panic(_), How::Panic(_)) | (How::Refused(_), How::Refused(_))
                            ));
                        }
                        Err(error) => panic!("rank {rank}: {error}"),
                    }
                    assert_eq!(session.outputs().err(), Some(RunError::NotReady(NotReady::Outputs)));
                    case.assert_runs(&mut session, rank);
                    failures += 1;
                }
            }
            failures
        });
        assert!(failures[0] >= 60, "{hosts:?}: only {} failures", failures[0]);
        assert!(failures.iter().all(|count| *count == failures[0]));
    }
}
