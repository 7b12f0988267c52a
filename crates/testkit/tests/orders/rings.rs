//! Pieces that go round a ring of devices, an odd one too: as one exchange, as sends one after another, and
//! as sends of which nobody says which is first.

use super::explore::{Orders, Wrong, explore};
use super::machine::{Lane, Machine, Step, Work};
use super::{MOST, MOST_OF_FEW, Tried};
use shardweave_compiler::host::{self, HostProgram, StreamId, parse_host};
use shardweave_compiler::id::Id;
use std::fmt::Write;

/// Every size that is tried: one device, a pair, odd and even rings.
const SIZES: [usize; 5] = [1, 2, 3, 4, 5];

fn read(text: &str) -> HostProgram {
    parse_host(text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"))
}

/// Every device passes on what it holds until its own is back: each hop is one permute of all devices,
/// between two buffers that take turns.
fn coalesced(size: usize) -> String {
    let mut text = format!("host ring {{\n  devices {size}, arena 256, streams 1, events 0\n");
    let mut line = |line: String| writeln!(text, "  {line}").expect("a string can be written to");
    for hop in 0..size {
        let devices: Vec<String> = (0..size).map(|at| ((at + hop) % size).to_string()).collect();
        line(format!("mesh hop{hop} {{ tp = {size} }} devices [{}]", devices.join(", ")));
    }
    let buffer = |id: usize, hop: usize, role: &str, place: usize| {
        format!("b{id} x: f32[s={size}] at s/tp on hop{hop}, {role}, offset {}, bytes 64", 64 * place)
    };
    line(buffer(0, 0, "argument", 0));
    for hop in 1..size {
        line(buffer(hop, hop, "temporary", 1 + hop % 2));
    }
    line(buffer(size, 0, "result", 3));
    line("input x = b0".into());
    for hop in 1..size {
        line(format!("s0: alloc b{hop}"));
        line(format!("s0: b{hop} <- permute b{} over tp group {size}", hop - 1));
        if hop > 1 {
            line(format!("s0: free b{}", hop - 1));
        }
    }
    line(format!("s0: alloc b{size}"));
    let kind =
        if size > 1 { format!("permute b{} over tp group {size}", size - 1) } else { "copy b0".into() };
    line(format!("s0: b{size} <- {kind}"));
    if size > 1 {
        line(format!("s0: free b{}", size - 1));
    }
    line(format!("output x = b{size}"));
    text + "}\n"
}

/// One hop as a send for each device, each on the stream that `on` gives it.
fn uncoalesced(size: usize, on: fn(usize) -> usize) -> String {
    let streams = (0..size).map(on).max().unwrap_or(0) + 1;
    let mut text = format!("host ring {{\n  devices {size}, arena 128, streams {streams}, events 0\n");
    let mut line = |line: String| writeln!(text, "  {line}").expect("a string can be written to");
    for device in 0..size {
        line(format!("mesh m{device} {{ }} devices [{device}]"));
    }
    for device in 0..size {
        let next = (device + 1) % size;
        let buffer = |id: usize, on: usize, role: &str, place: usize| {
            format!("b{id} x{device}: f32[s=4] at replicated on m{on}, {role}, offset {place}, bytes 64")
        };
        line(buffer(2 * device, device, "argument", 0));
        line(buffer(2 * device + 1, next, "result", 64));
    }
    for device in 0..size {
        line(format!("input x{device} = b{}", 2 * device));
    }
    for device in 0..size {
        let (stream, from, to) = (on(device), 2 * device, 2 * device + 1);
        line(format!("s{stream}: alloc b{to}"));
        line(format!("s{stream}: b{to} <- send_recv b{from} group 2"));
    }
    for device in 0..size {
        line(format!("output x{device} = b{}", 2 * device + 1));
    }
    text + "}\n"
}

#[test]
fn an_exchange_of_all_devices_goes_round_rings_of_every_size() {
    let mut tried = Tried::default();
    for size in SIZES {
        let program = read(&coalesced(size));
        host::verify(&program).unwrap_or_else(|fault| panic!("{fault}\n{program}"));
        tried.explore(&program, MOST_OF_FEW).unwrap_or_else(|wrong| panic!("{wrong}\n{program}"));
    }
    assert!(tried.whole == SIZES.len(), "{tried:?}");
}

/// All devices read one text, so on one stream they have one order of the sends, and nobody waits in a
/// circle. On two streams the two sends of a pair have none: refused. In a larger ring no two devices have
/// two sends in common, and streams do not wait for each other.
#[test]
fn sends_one_by_one_are_ordered_or_refused() {
    let mut tried = Tried::default();
    for size in [2, 3, 5] {
        let mut explore = |program: &HostProgram| {
            host::verify(program).unwrap_or_else(|fault| panic!("{fault}\n{program}"));
            tried.explore(program, 1 << 24).unwrap_or_else(|wrong| panic!("{wrong}\n{program}"))
        };
        let one_by_one = explore(&read(&uncoalesced(size, |_| 0)));
        let apart = read(&uncoalesced(size, |device| device));
        match size {
            2 => {
                let fault = host::verify(&apart).expect_err("the devices may take the sends in turn");
                assert!(fault.to_string().contains("no one order of moves"), "{fault}");
            }
            _ => assert_eq!(explore(&apart), one_by_one),
        }
    }
    assert!(tried.whole == tried.programs, "{tried:?}");
}

/// What no host program can say: every device sends to the next before it receives, and a send ends when
/// it is received. In a ring that is a circle, and exploring finds it; where one device receives first,
/// there is none.
#[test]
fn devices_that_all_send_first_stand_still() {
    for size in [2, 3, 4, 5] {
        for first in [None, Some(0)] {
            let wrong = explore(&blocking(size, first), Orders::All, MOST);
            match first {
                None => assert!(matches!(wrong, Err(Wrong::Deadlock(..))), "{size}: {wrong:?}"),
                Some(_) => assert!(matches!(wrong, Ok(Some(_))), "{size}: {wrong:?}"),
            }
        }
    }
}

/// Sends and receives without a buffer between them; `first` receives before it sends.
fn blocking(size: usize, first: Option<usize>) -> Machine {
    let turns = vec!["send".to_string(), "receive".to_string()];
    let place = |device: usize, turn: usize| if Some(device) == first { 1 - turn } else { turn };
    let lane = |device: usize| {
        let (before, next) = ((device + size - 1) % size, (device + 1) % size);
        let send = Step::new(0, Work::Wait(vec![(next, place(next, 1))]));
        let receive = Step::new(1, Work::Wait(vec![(before, place(before, 0))]));
        let steps = if Some(device) == first { vec![receive, send] } else { vec![send, receive] };
        Lane { device, stream: StreamId::new(0), steps }
    };
    Machine::of((0..size).map(lane).collect(), turns, vec![vec![0; 1]; size], Vec::new())
}
