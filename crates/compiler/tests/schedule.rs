//! What scheduling promises: memory, and that it stays cheap on large meshes.

use shardweave_compiler::host::Walk::Every;
use shardweave_compiler::host::{self, Action, BufferId, HostProgram, enqueue};
use shardweave_compiler::id::Id;
use shardweave_compiler::local::{self, LocalProgram, parse_local};
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::schedule;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Write;

fn form(file: &str) -> LocalProgram {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forms").join(file);
    let text = std::fs::read_to_string(path).expect("the form is there");
    parse_local(&text).unwrap_or_else(|mistakes| panic!("{file}: {mistakes}"))
}

/// The most bytes that one device holds, device by device and step by step.
struct Walk<'a> {
    program: &'a HostProgram,
    device: DeviceId,
    now: u64,
    peak: u64,
}

impl Walk<'_> {
    fn bytes(&self, id: BufferId, steps: &[u64]) -> u64 {
        let ty = &self.program.buffers[id].ty;
        let piece = ty.layout.piece_at_step(&ty.sizes(), self.device, steps);
        piece.map_or(0, |piece| piece.iter().map(|set| set.count()).product::<u64>() * ty.dtype.size())
    }

    fn walk(&mut self) {
        let walked: Result<(), Infallible> = enqueue(&self.program.body, Every, &mut |enqueued| {
            match enqueued.action {
                Action::Alloc(id) => self.now += self.bytes(*id, enqueued.at.steps()),
                Action::Free(id) => self.now -= self.bytes(*id, enqueued.at.steps()),
                _ => {}
            }
            self.peak = self.peak.max(self.now);
            Ok(())
        });
        let Ok(()) = walked;
    }
}

fn peak_by_walking(program: &HostProgram) -> u64 {
    let devices = (0..program.devices as usize).map(DeviceId::new);
    let peaks = devices.map(|device| {
        let mut walk = Walk { program, device, now: 0, peak: 0 };
        let given = program.buffers.iter().filter(|(_, buffer)| buffer.role.is_given());
        walk.now = given.map(|(id, _)| walk.bytes(id, &[])).sum();
        walk.walk();
        walk.peak
    });
    peaks.max().unwrap_or(0)
}

#[test]
fn peak_bytes_are_those_of_a_walk_over_devices_and_steps() {
    for file in ["mlp.local", "pipelined.local", "kinds.local", "uneven.local"] {
        let host = schedule::run(&form(file), &BTreeSet::new()).expect("the program is small");
        let peak = schedule::peak_bytes(&host);
        assert_eq!(peak, peak_by_walking(&host), "{file}");
        assert!(0 < peak && peak <= host.arena, "{file}");
    }
}

#[test]
fn buffers_share_bytes_where_lives_or_devices_part() {
    let local = form("stages.local");
    let translated = schedule::translate(&local, &BTreeSet::new());
    let placed = schedule::run(&local, &BTreeSet::new()).expect("the program is small");
    // Six values of 64 bytes; each stage has three of them, all alive at once, on its own device.
    assert_eq!((translated.arena, placed.arena), (6 * 64, 3 * 64));
}

/// Layers of a product cut over one axis after another.
fn layers(count: usize, mesh: &str) -> String {
    let mut text = format!("local layers {{\n  {mesh}\n");
    let line =
        |text: &mut String, line: String| writeln!(text, "  {line}").expect("a string can be written to");
    line(&mut text, "%0 x: f32[s=20000, e=300] at s/a/b on big = input".into());
    let mut last = 0;
    for layer in 0..count {
        let [w, whole, part, next] = [1, 2, 3, 4].map(|n| 4 * layer + n);
        line(&mut text, format!("%{w} w{layer}: f32[k{layer}=500, e=300] at k{layer}/b on big = input"));
        line(
            &mut text,
            format!("%{whole} x: f32[s=20000, e=300] at s/a on big = all_gather %{last} over b group 100"),
        );
        line(
            &mut text,
            format!(
                "%{part} y: f32[s=20000, k{layer}=500] at s/a, k{layer}/b on big = linear(%{whole}, %{w}) over s/a, k{layer}/b on big"
            ),
        );
        line(
            &mut text,
            format!(
                "%{next} z: f32[s=20000, e=300] at s/a, partial(b) on big = linear(%{part}, %{w}) over s/a, k{layer}/b on big"
            ),
        );
        last = 4 * count + layer + 1;
        line(
            &mut text,
            format!(
                "%{last} z: f32[s=20000, e=300] at s/a/b on big = reduce_scatter %{next} over b group 100"
            ),
        );
    }
    writeln!(text, "  output z = %{last}\n}}").expect("a string can be written to");
    text
}

#[test]
fn ten_thousand_devices_are_verified_as_one_text() {
    let text = layers(8, "mesh big { a = 100, b = 100 }");
    let program = parse_local(&text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let start = std::time::Instant::now();
    local::verify(&program).unwrap_or_else(|fault| panic!("{fault}"));
    let host = schedule::run(&program, &BTreeSet::new()).expect("the program is small");
    host::verify(&host).unwrap_or_else(|fault| panic!("{fault}"));
    let peak = schedule::peak_bytes(&host);
    assert!(0 < peak && peak <= host.arena);
    // A walk over devices x devices would take minutes; this takes some hundredths of a second.
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn more_bytes_than_can_be_counted_are_a_mistake() {
    let mut text = String::from("local huge {\n  mesh one { }\n");
    for value in 0..4 {
        let size = 1_u64 << 60;
        writeln!(text, "  %{value} x{value}: f32[s={size}] at replicated on one = input").expect("written");
    }
    text.push_str("  output x0 = %0\n}\n");
    let program = parse_local(&text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    local::verify(&program).unwrap_or_else(|fault| panic!("{fault}"));
    let mistakes = schedule::run(&program, &BTreeSet::new()).expect_err("2^64 bytes");
    assert!(mistakes.to_string().contains("more than 2^63"), "{mistakes}");
}
