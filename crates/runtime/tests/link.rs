//! A link that is played: nothing is computed with before it would have come, and what is under way is told
//! with the times that follow from the link alone.

use shardweave_compiler::file::parse_file;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use shardweave_runtime::execute::{Doing, Event, How, InstrId, Link, Probe, Record, RunError, Streams};
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::Tensor;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A product on so many devices along `tp`, with these layouts.
fn session(devices: u64, layouts: &str, options: SessionOptions) -> Session {
    let text = format!(
        "mesh line {{ tp = {devices} }}\nprogram p {{\ninput x: f32[m, k]\ninput w: f32[n, k]\n\
         y = linear(x, w)\noutput y\n}}\nplacement q for p on line {{\n{layouts}\n}}\n"
    );
    let (file, found) = parse_file(&text, &[]);
    assert!(found.is_empty(), "{found}");
    Session::new(file.programs()[0].clone(), Some(file.placements()[0].clone()), options)
}

fn options(link: Link) -> SessionOptions {
    SessionOptions { record: Record::Times, link: Some(link), ..SessionOptions::default() }
}

/// `x: [m, k]`, `w: [n, k]`.
fn inputs(m: u64, n: u64, k: u64) -> Inputs {
    let tensor = |rows: u64, shift: u64| {
        let elements: Vec<f32> = (0..rows * k).map(|at| ((at * 7 + shift) % 19) as f32 - 9.0).collect();
        Tensor::from_elements(&[rows, k], &elements)
    };
    Inputs::new().with("x", tensor(m, 0)).with("w", tensor(n, 5))
}

/// What one device did of a kind, in its order.
fn did(session: &Session, device: usize, doing: Doing) -> Vec<&Event> {
    let of = |event: &&Event| event.device == DeviceId::new(device) && event.doing == doing;
    session.recording().events.iter().filter(of).collect()
}

#[test]
fn what_comes_from_different_peers_comes_at_once() {
    let link = Link { latency_us: 500.0, bytes_per_us: 1.0 };
    for streams in [Streams::Merged, Streams::Apart] {
        let options = SessionOptions { streams: Some(streams), ..options(link) };
        let mut session = session(4, "x: m/tp\nw: n/tp\ny: n/tp", options);
        session.run(&inputs(8, 4, 100)).unwrap();
        for device in 0..4 {
            let [gather] = did(&session, device, Doing::Link)[..] else { panic!("one gather") };
            // Two rows of 100 floats from each of three peers.
            assert_eq!(gather.end - gather.start, link.time(800), "{device}");
            let [product] = did(&session, device, Doing::Compute)[..] else { panic!("one product") };
            assert!(product.start >= gather.end, "{device}");
        }
    }
}

#[test]
fn nothing_is_computed_with_before_it_is_there() {
    let link = Link { latency_us: 700.0, bytes_per_us: 10.0 };
    let gathered = "x: m/tp\nw: n/tp\ny: m/stream(4), n/tp via ";
    let scattered = "x: k/tp\nw: k/tp\ny: m/stream(4)/tp via ";
    for (layouts, ways) in
        [(gathered, &["collective", "broadcast", "direct", "ring", "none"][..]), (scattered, &["collective"])]
    {
        for way in ways {
            let expected = session(2, &format!("{layouts}none"), SessionOptions::default());
            let expected = { expected }.run(&inputs(16, 6, 12)).unwrap();
            for streams in [Streams::Merged, Streams::Apart] {
                let options = SessionOptions { streams: Some(streams), ..options(link) };
                let mut session = session(2, &format!("{layouts}{way}"), options);
                let outputs = session.run(&inputs(16, 6, 12)).unwrap();
                let [outputs, expected] =
                    [&outputs, &expected].map(|all| all.get("y").unwrap().elements::<f32>());
                assert_eq!(outputs, expected, "{way} {streams:?}");
                for device in 0..2 {
                    let under_way = did(&session, device, Doing::Link);
                    assert!(!under_way.is_empty());
                    for pair in under_way.windows(2) {
                        assert!(pair[0].end <= pair[1].start, "a stream sends one thing after another");
                    }
                    assert!(under_way.iter().all(|event| event.end <= session.recording().time));
                    if layouts == gathered {
                        for product in did(&session, device, Doing::Compute) {
                            let its = |event: &&&Event| event.steps == product.steps;
                            let late = under_way.iter().filter(its).any(|event| event.end > product.start);
                            assert!(!late, "{way} {streams:?}: step {:?} of {device}", product.steps);
                        }
                    }
                }
            }
        }
    }
}

/// One thread for each device plays how its streams overlap: the next step is under way without waiting for
/// the one at hand to be computed with.
#[test]
fn steps_overlap_in_one_lane_as_in_two() {
    let link = Link { latency_us: 900.0, bytes_per_us: 10.0 };
    for (cores, streams) in [(1, None), (1, Some(Streams::Merged)), (4, None), (1, Some(Streams::Apart))] {
        let options = SessionOptions { streams, cores, ..options(link) };
        let mut session = session(2, "x: m/stream(4)/tp\nw: n/tp\ny: m/stream(4), n/tp", options);
        session.run(&inputs(16, 6, 12)).unwrap();
        let of = |doing| [0, 1].map(|device| did(&session, device, doing));
        let (products, under_way) = (of(Doing::Compute), of(Doing::Link));
        let last_end =
            |of: &[Vec<&Event>; 2], step: usize| of.each_ref().map(|own| own[step].end).into_iter().max();
        for device in 0..2 {
            assert_eq!((products[device].len(), under_way[device].len()), (4, 4));
            for step in 0..4 {
                let (own, product) = (under_way[device][step], products[device][step]);
                assert!(own.end <= product.start, "{cores} {streams:?}: {own:?} before {product:?}");
                // A step waits for the one before it on the link, and for the slot of the step before that.
                let arrived = step.checked_sub(1).and_then(|before| last_end(&under_way, before));
                let free = step.checked_sub(2).and_then(|before| last_end(&products, before));
                let may_start = arrived.max(free).unwrap_or_default();
                assert!(own.start <= may_start, "{cores} {streams:?}: {own:?} from {may_start:?} on");
            }
        }
        let apart = session.recording().events.iter().any(|event| event.stream.is_some());
        assert_eq!(apart, streams == Some(Streams::Apart) || cores == 4);
    }
}

/// Refuses the first product of device 1.
struct Refuses;

impl Probe for Refuses {
    fn before(&self, device: DeviceId, _: InstrId, doing: Doing) -> Result<(), String> {
        match doing {
            Doing::Compute if device.index() == 1 => Err("not today".into()),
            _ => Ok(()),
        }
    }
}

/// Lanes that are far ahead of what they play end as the others do.
#[test]
fn a_failure_ends_all_lanes_and_the_next_run_is_right() {
    let link = Link { latency_us: 200.0, bytes_per_us: 100.0 };
    for way in ["collective", "broadcast", "direct", "ring"] {
        for streams in [Streams::Merged, Streams::Apart] {
            let layouts = format!("x: m/tp\nw: n/tp\ny: m/stream(4), n/tp via {way}");
            let options =
                SessionOptions { streams: Some(streams), probe: Some(Arc::new(Refuses)), ..options(link) };
            let mut session = session(2, &layouts, options);
            for _ in 0..3 {
                let start = Instant::now();
                match session.run(&inputs(16, 6, 12)) {
                    Err(RunError::Device(failure)) => {
                        assert_eq!(failure.how, How::Refused("not today".into()));
                        assert_eq!(failure.device.index(), 1);
                    }
                    other => panic!("{other:?}"),
                }
                assert!(start.elapsed() < Duration::from_secs(5));
            }
        }
    }
}
