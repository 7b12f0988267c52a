//! Files that no one would write, through the binary: each ends at once, in a message.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};
use support::Bench;

/// Tests are built with little optimization, and run beside each other.
const AT_ONCE: Duration = Duration::from_secs(5);

/// What a file must end in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    /// Nothing is wrong with it.
    Well,
    /// It is read, and a program is missed: status 2.
    Missed(&'static str),
    /// The code of its first error; status 1.
    Wrong(&'static str),
}
use Ends::{Missed, Well, Wrong};

/// Devices as said in a mesh, statements, what the placement says.
fn weave(axes: &str, statements: &str, placed: &str) -> Vec<u8> {
    format!(
        "mesh m {{ {axes} }}\nprogram p {{\n{statements}\noutput y\n}}\nplacement q for p on m {{ {placed} }}\n"
    )
    .into_bytes()
}

fn on_axes(axes: &str) -> Vec<u8> {
    weave(axes, "input x: f32[s=8]\ny = relu(x)", "x: s/a")
}

fn of_sizes(sizes: &str) -> Vec<u8> {
    weave("a = 2", &format!("input x: f32[{sizes}]\ny = relu(x)"), "x: s/a")
}

fn of_statements(statements: &str) -> Vec<u8> {
    weave("a = 2", &format!("input x: f32[s=8]\n{statements}"), "x: s/a")
}

/// Each value from the one before it.
fn chain(length: usize) -> Vec<u8> {
    let mut text = String::from("v0 = relu(x)\n");
    (1..length).for_each(|at| text += &format!("v{at} = relu(v{})\n", at - 1));
    of_statements(&format!("{text}y = relu(v{})", length - 1))
}

/// Bytes in `from..bound` that follow no rule, the same every time.
fn noise(count: usize, from: u8, bound: u8) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        from + ((state >> 32) % u64::from(bound - from)) as u8
    };
    (0..count).map(|_| next()).collect()
}

fn nested(depth: usize) -> String {
    format!("{}s{}", "(".repeat(depth), ")".repeat(depth))
}

const DEEP: usize = 100_000;
const MEGABYTE: usize = 1 << 20;

fn weave_files() -> Vec<(&'static str, Vec<u8>, Ends)> {
    let long = "n".repeat(MEGABYTE);
    vec![
        ("a million devices", on_axes("a = 1000000"), Wrong("E0201")),
        ("2^40 devices", on_axes("a = 1099511627776"), Wrong("E0201")),
        ("2^63 devices", on_axes("a = 9223372036854775808"), Wrong("E0201")),
        ("2^64 devices", on_axes("a = 18446744073709551616"), Wrong("E0103")),
        ("axes of 2^64 together", on_axes("a = 4294967296, b = 4294967296"), Wrong("E0201")),
        ("axes of 2^80 together", on_axes("a = 1099511627776, b = 1099511627776"), Wrong("E0201")),
        ("device 2^63", on_axes("a = 1 } devices [9223372036854775808] #"), Wrong("E0201")),
        ("2^61 elements of 4 bytes", of_sizes("s=4294967296, e=536870912"), Wrong("E0504")),
        ("2^63 elements", of_sizes("s=4294967296, e=2147483648"), Wrong("E0504")),
        ("2^64 elements", of_sizes("s=4294967296, e=4294967296"), Wrong("E0504")),
        ("2^64 elements, and none", of_sizes("s=4294967296, e=4294967296, n=0"), Wrong("E0504")),
        (
            "2^60 steps of 8 elements",
            weave("a = 2", "input x: f32[s=8]\ny = relu(x)", "x: s/a\ny: s/stream(1152921504606846976)"),
            Well,
        ),
        (
            "2^60 steps",
            weave("a = 2", "input x: f32[s=1152921504606846976]\ny = relu(x)", "y: s/stream"),
            Wrong("E0407"),
        ),
        ("a name of a megabyte", of_statements(&format!("{long} = relu(x)\ny = relu({long})")), Well),
        ("an unknown operation of a megabyte", of_statements(&format!("y = {long}(x)")), Wrong("E0302")),
        ("a long chain", chain(2_000), Well),
        ("parentheses", of_statements(&format!("y = relu({})", nested(DEEP))), Wrong("E0101")),
        ("brackets", of_statements(&format!("y = relu(x) -> {}", "[".repeat(DEEP))), Wrong("E0101")),
        ("braces", "{".repeat(DEEP).into_bytes(), Wrong("E0101")),
        (
            "a deep pattern",
            of_statements(&format!("y = rearrange(x, \"s -> {}\")", nested(DEEP))),
            Wrong("E0310"),
        ),
        ("a pattern without an end", of_statements(&format!("y = rearrange(x, \"{long}")), Wrong("E0101")),
        (
            "a layout of many cuts",
            weave("a = 2", "input x: f32[s=8]\ny = relu(x)", &format!("x: s{}", "/a".repeat(DEEP))),
            Wrong("E0402"),
        ),
        ("nothing", Vec::new(), Missed("E0902")),
        ("a NUL", of_statements("y = re\0lu(x)"), Wrong("E0302")),
        ("nothing but NULs", vec![0; 1000], Wrong("E0101")),
        ("any bytes", noise(MEGABYTE, 0, 255), Wrong("E0102")),
        ("any letters", noise(MEGABYTE, b' ', b'~'), Wrong("E0101")),
    ]
}

/// `.safetensors` with this header, which claims to be so long, and so many bytes after it.
fn safetensors(header: &str, claimed: Option<u64>, data: usize) -> Vec<u8> {
    let length = claimed.unwrap_or(header.len() as u64);
    [&length.to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
}

/// A header entry of eight numbers.
fn entry(name: &str, shape: &str, from: u64, to: u64) -> String {
    format!("\"{name}\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}")
}

fn safetensors_files() -> Vec<(&'static str, Vec<u8>, Ends)> {
    let one = |shape: &str, from, to| format!("{{{}}}", entry("x", shape, from, to));
    let good = one("[8]", 0, 32);
    let two = |second: String| format!("{{{},{second}}}", entry("x", "[8]", 0, 32));
    let wrong = Wrong("E0607");
    vec![
        ("good", safetensors(&good, None, 32), Well),
        ("a header of 2^63 bytes", safetensors(&good, Some(1 << 63), 32), wrong),
        ("a header of 2^64 - 1 bytes", safetensors(&good, Some(u64::MAX), 32), wrong),
        ("a header without its end", safetensors(&good, None, 0)[..20].to_vec(), wrong),
        ("a length without its end", vec![1, 0, 0], wrong),
        ("half the elements", safetensors(&good, None, 16), wrong),
        ("elements beyond the file", safetensors(&one("[8]", 1 << 62, (1 << 62) + 32), None, 32), wrong),
        ("elements at 2^64", safetensors(&one("[8]", u64::MAX - 32, u64::MAX), None, 32), wrong),
        ("elements backwards", safetensors(&one("[8]", 32, 0), None, 32), wrong),
        ("two in one place", safetensors(&two(entry("z", "[8]", 16, 48)), None, 48), wrong),
        ("2^64 elements", safetensors(&one("[4294967296,4294967296]", 0, 32), None, 32), wrong),
        ("a size below 0", safetensors(&one("[-8]", 0, 32), None, 32), wrong),
        ("an unknown type", safetensors(&good.replace("F32", "Q7"), None, 32), wrong),
        ("deep JSON", safetensors(&"[".repeat(DEEP), None, 0), wrong),
        ("deep JSON in an entry", safetensors(&format!("{{\"x\":{}", "[".repeat(DEEP)), None, 0), wrong),
        ("NULs", safetensors(&"\0".repeat(64), None, 0), wrong),
        ("any bytes", noise(MEGABYTE, 0, 255), wrong),
        ("nothing", Vec::new(), wrong),
    ]
}

/// `.npy` of a version, with this header, which claims to be so long, and so many bytes after it.
fn npy(version: u8, header: &str, claimed: Option<u32>, data: usize) -> Vec<u8> {
    let length = claimed.unwrap_or(header.len() as u32).to_le_bytes();
    let length = if version == 1 { &length[..2] } else { &length[..] };
    [b"\x93NUMPY", &[version, 0][..], length, header.as_bytes(), &vec![0; data]].concat()
}

fn npy_files() -> Vec<(&'static str, Vec<u8>, Ends)> {
    let header =
        |ty: &str, shape: &str| format!("{{'descr': '{ty}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let of = |shape: &str| npy(1, &header("<f4", shape), None, 32);
    let good = header("<f4", "(8,)");
    let wrong = Wrong("E0607");
    vec![
        ("good", of("(8,)"), Well),
        ("a header beyond the file", npy(1, &good, Some(65535), 32), wrong),
        ("a header of 2^32 - 1 bytes", npy(2, &good, Some(u32::MAX), 32), wrong),
        ("an unknown version", npy(9, &good, None, 32), wrong),
        ("five bytes of 32", npy(1, &good, None, 5), wrong),
        ("2^63 elements", of("(9223372036854775808,)"), wrong),
        ("2^64 elements", of("(18446744073709551616,)"), wrong),
        ("2^64 elements together", of("(4294967296, 4294967296)"), wrong),
        ("a size below 0", of("(-8,)"), wrong),
        ("objects", npy(1, &header("|O", "(8,)"), None, 32), Wrong("E0609")),
        ("a deep header", npy(2, &"(".repeat(DEEP), None, 32), wrong),
        ("a deep shape", npy(2, &header("<f4", &"(".repeat(DEEP)), None, 32), wrong),
        ("a beginning", b"\x93NUM".to_vec(), wrong),
        ("NULs", vec![0; 100], wrong),
        ("any bytes", noise(MEGABYTE, 0, 255), wrong),
        ("nothing", Vec::new(), wrong),
    ]
}

/// Runs one command, which ends at once and as it must; what is wrong with that otherwise.
fn check(bench: &Bench, told: &str, command: &str, ends: Ends) -> Result<(), String> {
    let start = Instant::now();
    let ended = bench.run(command);
    let took = start.elapsed();
    let short = |text: &str| text.chars().take(300).collect::<String>();
    let wrong = |what: String| Err(format!("{told}: {command}: {what}"));
    if took > AT_ONCE {
        return wrong(format!("it took {took:?}"));
    }
    if ended.stderr.contains("panicked") {
        return wrong(short(&ended.stderr));
    }
    let status = match ends {
        Well => 0,
        Wrong(_) => 1,
        Missed(_) => 2,
    };
    if ended.status != status {
        return wrong(format!("status {} {} {}", ended.status, short(&ended.stdout), short(&ended.stderr)));
    }
    if command.ends_with("--json") {
        let json: serde_json::Value = match serde_json::from_str(&ended.stdout) {
            Ok(json) => json,
            Err(error) => return wrong(format!("{error}: {}", short(&ended.stdout))),
        };
        let first = json["errors"][0]["code"].as_str();
        let expected = match ends {
            Well => None,
            Wrong(code) | Missed(code) => Some(code),
        };
        if first != expected {
            return wrong(format!("{first:?}, not {expected:?}: {}", short(&ended.stdout)));
        }
    } else if ends != Well && ended.stderr.is_empty() {
        return wrong("nothing is told".into());
    }
    Ok(())
}

fn assert_all_end(found: impl Iterator<Item = Result<(), String>>) {
    let wrong: Vec<String> = found.filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn hostile_programs_end_at_once_in_a_message() {
    let bench = Bench::new();
    assert_all_end(weave_files().into_iter().flat_map(|(told, bytes, ends)| {
        bench.put("p.weave", &bytes);
        [
            "explain p.weave --json",
            "explain p.weave",
            "compile p.weave --emit host",
            "run p.weave --random 1 --json",
        ]
        .map(|command| check(&bench, told, command, ends))
    }));
}

#[test]
fn a_hundred_thousand_statements_are_checked_at_once() {
    let bench = Bench::new();
    bench.put("p.weave", &chain(100_000));
    assert_all_end([check(&bench, "a chain", "check p.weave", Well)].into_iter());
}

#[test]
fn hostile_arrays_end_at_once_in_a_message() {
    let bench = Bench::new();
    bench.put("p.weave", &of_statements("y = relu(x)"));
    bench.put("w.weave", &weave("a = 2", "input x: f32[s=8] from \"x\"\ny = relu(x)", "x: s/a"));
    let tensors = safetensors_files().into_iter().flat_map(|(told, bytes, ends)| {
        bench.put("x.safetensors", &bytes);
        [
            "run p.weave --inputs x.safetensors --json",
            "run w.weave --weights x.safetensors --json",
            "explain w.weave --weights x.safetensors --json",
            "run w.weave --weights x.safetensors",
        ]
        .map(|command| check(&bench, told, command, ends))
    });
    assert_all_end(tensors);
    let arrays = npy_files().into_iter().flat_map(|(told, bytes, ends)| {
        bench.put("x.npy", &bytes);
        ["run p.weave --input x=x.npy --json", "run p.weave --input x=x.npy"]
            .map(|command| check(&bench, told, command, ends))
    });
    assert_all_end(arrays);
}

#[test]
fn what_is_no_file_is_a_message() {
    let bench = Bench::new();
    bench.put("p.weave", &of_statements("y = relu(x)"));
    std::fs::create_dir(bench.path("directory")).expect("tests can write");
    assert!(!Path::exists(&bench.path("missing")));
    let commands = ["directory", "missing", "/dev/null/x"].into_iter().flat_map(|path| {
        [
            format!("explain {path} --json"),
            format!("run p.weave --input x={path} --json"),
            format!("run p.weave --inputs {path} --json"),
            format!("explain p.weave --weights {path} --json"),
        ]
    });
    let found: Vec<_> = commands.map(|command| check(&bench, "no file", &command, Wrong("E0607"))).collect();
    assert_all_end(found.into_iter());
}
