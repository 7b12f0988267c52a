//! Programs on several streams, as parallel as the verifier lets them be.
//!
//! ```text
//!  s0: b1 <- exp(b0)        every action on a stream        of the waits that can be dropped,
//!  s0: b2 <- neg(b1)        drawn for it, and ordered       dropped as many as possible
//!  s0: b3 <- exp(b0)        after all before it
//! ```
//!
//! What is left is one wait away from being refused, everywhere.

use shardweave_compiler::host::{self, HostProgram, parse_host};
use shardweave_testkit::fuzz::Random;

const STREAMS: usize = 3;

/// A program as parallel as it can be; `None` if even with all waits it is refused.
pub fn parallel(right: &HostProgram, random: &mut Random) -> Option<HostProgram> {
    let mut lines = on_streams(&right.to_string(), random);
    let accepted =
        |lines: &[String]| parse_host(&lines.join("\n")).ok().filter(|program| host::verify(program).is_ok());
    let mut best = accepted(&lines)?;
    let mut waits: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].contains(": wait ")).collect();
    while !waits.is_empty() {
        let at = waits.swap_remove(random.below(waits.len()));
        let wait = std::mem::take(&mut lines[at]);
        match accepted(&lines) {
            Some(program) => best = program,
            None => lines[at] = wait,
        }
    }
    Some(best)
}

/// Every action on a stream drawn for it. Each stream has an event, recorded after each of its actions,
/// and waits for all others before its next one.
fn on_streams(text: &str, random: &mut Random) -> Vec<String> {
    let others = |stream| (0..STREAMS).filter(move |&other| other != stream);
    let records = || (0..STREAMS).map(|stream| format!("s{stream}: record e{stream}"));
    let mut lines: Vec<String> = Vec::new();
    let mut started = false;
    for line in text.lines() {
        let action = line.trim_start().strip_prefix("s0: ");
        let is_loop = line.trim_start().starts_with("loop ");
        if !started && (action.is_some() || is_loop) {
            started = true;
            lines.extend(records());
        }
        if let Some(action) = action {
            let stream = random.below(STREAMS);
            lines.extend(others(stream).map(|other| format!("s{stream}: wait e{other}")));
            lines.push(format!("s{stream}: {action}"));
            lines.push(format!("s{stream}: record e{stream}"));
        } else {
            let (one, several) = ("streams 1, events 0", format!("streams {STREAMS}, events {STREAMS}"));
            lines.push(line.replace(one, &several));
        }
        if is_loop {
            // A step starts after the one before; in it, events are those of the step.
            let wait = |stream| others(stream).map(move |other| format!("s{stream}: wait e{other} back 1"));
            lines.extend((0..STREAMS).flat_map(wait));
            lines.extend(records());
        }
    }
    lines
}
