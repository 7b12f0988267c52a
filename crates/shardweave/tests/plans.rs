//! What `explain`, `compile` and `run` print: the shape of the JSON, the tables, the forms.

mod support;

use serde_json::Value;
use support::{Bench, Ended};

const LAYER: &str = "
mesh line { tp = 2 }
program layer {
  input x: f32[s=6, e=4]
  input w: f32[h=8, e=4]
  y = linear(x, w)
  z = relu(y)
  output z
}
placement rows for layer on line {
  x: s/tp
  w: h/tp
  z: h/tp
}
";

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

const EXPLAINED: [&str; 11] = [
    "program",
    "placement",
    "mesh",
    "devices",
    "values",
    "collectives",
    "flops_per_device",
    "peak_bytes_per_device",
    "time_us",
    "alternatives",
    "notes",
];

#[test]
fn explain_json_has_the_shape_of_the_reference() {
    let json = Bench::with(LAYER).run("explain p.weave --json").exits(0).json();
    assert_eq!(keys(&json), EXPLAINED);
    assert_eq!(json["program"], "layer");
    assert_eq!(json["placement"], "rows");
    assert_eq!(json["mesh"].to_string(), r#"{"tp":2}"#);
    assert_eq!(json["devices"], 2);
    assert_eq!(keys(&json["values"]), ["x", "w", "y", "z"]);
    assert_eq!(
        json["values"]["x"].to_string(),
        r#"{"dims":{"s":6,"e":4},"dtype":"f32","placed":"s/tp","origin":"given"}"#
    );
    assert_eq!(json["values"]["y"]["placed"], "h/tp");
    assert!(json["values"]["y"]["origin"].as_str().is_some_and(|why| why.contains(' ')), "a sentence");
    assert_eq!(json["flops_per_device"], 2 * 6 * 4 * 4);
    let moved = &json["collectives"][0];
    assert_eq!(
        keys(moved),
        ["kind", "value", "axes", "group", "steps", "overlap", "bytes_per_device", "bytes_total", "because"]
    );
    assert_eq!((moved["kind"].as_str(), moved["value"].as_str()), (Some("all_gather"), Some("x")));
    assert_eq!(moved["axes"].to_string(), r#"["tp"]"#);
    assert_eq!((moved["group"].as_u64(), moved["steps"].as_u64()), (Some(2), Some(1)));
    assert_eq!((moved["bytes_per_device"].as_u64(), moved["bytes_total"].as_u64()), (Some(48), Some(96)));
    assert_eq!(json["collectives"].as_array().map(Vec::len), Some(1));
}

#[test]
fn without_a_placement_there_is_one_device() {
    let json = Bench::with(LAYER).run("explain p.weave --placement none --json").exits(0).json();
    assert_eq!((&json["placement"], &json["devices"]), (&Value::Null, &Value::from(1)));
    assert_eq!(json["mesh"].to_string(), "{}");
    assert_eq!(json["collectives"].to_string(), "[]");
    assert_eq!(json["values"]["x"]["placed"], "replicated");
}

#[test]
fn explain_for_people_fits_in_100_columns_without_colours() {
    let told = Bench::with(LAYER).run("explain p.weave").exits(0);
    for part in [
        "layer, placement rows, on 2 devices (tp = 2)",
        "s=6, e=4",
        "all_gather",
        "given",
        "96 B",
        "per device",
    ] {
        assert!(told.stdout.contains(part), "lacks {part}:\n{}", told.stdout);
    }
    for line in told.stdout.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(!told.stdout.contains('\u{1b}'));
    assert!(told.stderr.is_empty());
}

#[test]
fn run_json_adds_outputs_check_and_times() {
    let bench = Bench::with(LAYER);
    let json = bench.run("run p.weave --random 1 --json").exits(0).json();
    assert_eq!(keys(&json), [&EXPLAINED[..], &["outputs", "check", "time_ms"]].concat());
    assert_eq!(
        json["outputs"].to_string(),
        r#"{"z":{"dims":{"s":6,"h":8},"dtype":"f32","placed":"h/tp","file":null}}"#
    );
    assert_eq!(json["check"], Value::Null);
    assert_eq!(keys(&json["time_ms"]), ["compile", "first_run", "run"]);
    assert!(json["time_ms"]["compile"].is_f64() && json["time_ms"]["first_run"].is_f64());
    assert_eq!(json["time_ms"]["run"], Value::Null);

    let json = bench.run("run p.weave --random 1 --check --repeat 3 --output z=z.npy --json").exits(0).json();
    assert_eq!(json["outputs"]["z"]["file"], "z.npy");
    assert_eq!(keys(&json["check"]), ["ok", "max_abs", "max_rel", "outputs"]);
    assert_eq!(json["check"]["ok"], true);
    assert!(json["check"]["outputs"]["z"]["ok"].as_bool().is_some_and(|ok| ok));
    assert!(json["time_ms"]["run"].is_f64());
}

#[test]
fn run_for_people_tells_outputs_check_and_times() {
    let bench = Bench::with(LAYER);
    let told = bench.run("run p.weave --random 1 --check --repeat 2 --output z=z.npy").exits(0);
    told.prints(&[
        "layer, placement rows",
        "s=6, h=8",
        "h/tp",
        "z.npy",
        "agrees with one device",
        "compiled in",
        "median",
    ]);
    bench.run("run p.weave --random 1 --plan").exits(0).prints(&["all_gather", "given", "s=6, h=8"]);
}

#[test]
fn a_check_that_fails_is_status_4_and_names_the_first_value_that_differs() {
    let bench = Bench::with(
        "
mesh m { t = 2 }
program p {
  input x: f32[s]
  y = mul(x, 1.0)
  z = sum(y, s)
  k = add(z, 1.0)
  output k
}
placement parts for p on m {
  x: s/t
  z: partial(t)
}
",
    );
    // Each device rounds its part of the sum to f32, which loses the ones.
    bench.npy("x.npy", &[4], &[1e8, 1.0, -1e8, 1.0]);
    for on in ["threads", "lockstep"] {
        let words = format!("run p.weave --input x=x.npy --check --output k=k.npy --on {on}");
        bench
            .run(&words)
            .exits(4)
            .tells(&["E0804", "`k`", "the first value that differs is `z`"])
            .prints(&["DIFFERS"]);
        assert!(bench.path("k.npy").exists(), "what differs is what one wants to look at");
        let json = bench.run(&format!("{words} --json")).exits(4).tells(&["E0804"]).json();
        assert_eq!(json["check"]["ok"], false);
        assert_eq!(json["check"]["max_abs"], 2.0);
    }
    bench.run("run p.weave --input x=x.npy --check --on reference").exits(0);
}

#[test]
fn random_inputs_are_the_same_on_every_placement_and_backend() {
    let bench = Bench::with(&LAYER.replace("output z", "output z\n  output x"));
    let outputs = |words: &str| {
        bench.run(&format!("run p.weave --output z=z.npy x=x.npy {words}")).exits(0);
        (bench.read_npy("x.npy"), bench.read_npy("z.npy").1)
    };
    let (x, z) = outputs("--random 7");
    assert_eq!(x.0, [6, 4]);
    for words in ["--random 7 --placement none", "--random 7 --on lockstep", "--random 7 --on reference"] {
        let (again, z_again) = outputs(words);
        assert_eq!(again, x, "{words}");
        for (a, b) in z.iter().zip(&z_again) {
            assert!((a - b).abs() < 1e-5, "{words}");
        }
    }
    assert_ne!(outputs("--random 8").0, x);
}

#[test]
fn the_cost_of_links_and_flops_can_be_given() {
    let bench = Bench::with(LAYER);
    let explain = |words: &str| bench.run(&format!("explain p.weave {words} --json")).exits(0).json();
    assert_eq!(explain(""), explain("--link 2,8 --flops 50"), "these are the documented constants");
    explain("--link 0,1e-3 --flops 1e6");
}

#[test]
fn threads_deliver_as_the_link_would_and_say_so() {
    let bench = Bench::with(LAYER);
    // The one gather brings 48 bytes to each device.
    let json = bench.run("run p.weave --random 1 --link 50000,1 --json").exits(0).json();
    let time = json["time_ms"]["first_run"].as_f64().expect("a time");
    assert!((50.0..1000.0).contains(&time), "{time} ms");
    assert!(json["notes"].to_string().contains("50000 us and 1 GB/s"), "{}", json["notes"]);
    let told = bench.run("run p.weave --random 1 --link 50000,1").exits(0).prints(&["50000 us and 1 GB/s"]);
    assert!(told.stderr.is_empty());
    let json = bench.run("run p.weave --random 1 --link 50000,1 --on lockstep --json").exits(0).json();
    assert!(json["time_ms"]["first_run"].as_f64().expect("a time") < 50.0);
    assert!(!json["notes"].to_string().contains("50000 us"));
}

#[test]
fn every_form_is_printed_and_those_of_the_language_are_read_back() {
    let bench = Bench::with(LAYER);
    let emit =
        |file: &str, form: &str| -> Ended { bench.run(&format!("compile {file} --emit {form}")).exits(0) };
    let program = emit("p.weave", "program");
    bench.put("program.weave", program.stdout.as_bytes());
    assert_eq!(emit("program.weave", "program").stdout, program.stdout);
    let placement = emit("p.weave", "placement");
    bench.put("placement.weave", placement.stdout.as_bytes());
    assert_eq!(emit("placement.weave", "placement").stdout, placement.stdout);
    // The same program runs; only, what was derived is now what the user wrote, and reasons say so.
    let unreasoned = |file: &str| -> String {
        let host = emit(file, "host").stdout;
        host.lines().map(|line| format!("{}\n", line.split(" because ").next().unwrap_or(line))).collect()
    };
    assert_eq!(unreasoned("placement.weave"), unreasoned("p.weave"));
    emit("p.weave", "local").prints(&["local layer", "all_gather"]);
    emit("p.weave", "host").prints(&["host layer", "all_gather"]);
    let json = bench.run("compile p.weave --emit local --json").exits(0).json();
    assert_eq!(json["form"], "local");
    assert_eq!(json["text"].as_str().map(str::trim_end), Some(emit("p.weave", "local").stdout.trim_end()));
}

/// What a run with these flags writes.
fn trace(bench: &Bench, flags: &str) -> Vec<Value> {
    bench.run(&format!("run p.weave --random 1 --trace t.json {flags}")).exits(0);
    let text = std::fs::read_to_string(bench.path("t.json")).expect("there");
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    trace["traceEvents"].as_array().expect("a list").clone()
}

fn with<'a>(events: &'a [Value], field: &'a str, value: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event[field] == value)
}

/// The sum of an argument of all bars.
fn total(events: &[Value], arg: &str) -> u64 {
    with(events, "ph", "X").filter_map(|bar| bar["args"][arg].as_u64()).sum()
}

#[test]
fn a_trace_has_a_process_for_each_device() {
    let bench = Bench::with(LAYER);
    for on in ["threads", "lockstep"] {
        let events = trace(&bench, &format!("--on {on}"));
        let names = |what: &str| -> Vec<String> {
            with(&events, "name", what).map(|event| event["args"]["name"].as_str().unwrap().into()).collect()
        };
        assert_eq!(names("process_name"), ["device 0", "device 1"]);
        assert_eq!(names("thread_name"), ["compute and communication"; 2], "one stream does both");
        for device in 0..2 {
            let bars = events.iter().filter(|event| event["ph"] == "X" && event["pid"] == device);
            let named: Vec<&str> = bars.clone().filter_map(|bar| bar["name"].as_str()).collect();
            for part in ["all_gather x", "linear y", "relu z"] {
                assert!(named.contains(&part), "device {device} on {on}: {named:?}");
            }
            assert!(bars.clone().all(|bar| bar["ts"].is_f64() && bar["dur"].is_f64()));
        }
    }
}

/// A product in steps, with its operand gathered on a stream of its own.
const STEPS: &str = "
mesh line { tp = 2 }
program layer {
  input x: f32[s=12, e=4]
  input w: f32[h=8, e=4]
  y = linear(x, w)
  output y
}
placement steps for layer on line {
  x: s/stream(3)/tp
  w: h/tp
  y: s/stream(3), h/tp
}
";

#[test]
fn a_trace_has_a_track_for_each_stream_with_steps_bytes_and_flops() {
    let bench = Bench::with(STEPS);
    let plan = bench.run("explain p.weave --json").exits(0).json();
    for flags in ["--on threads", "--on lockstep", "--link 100,1"] {
        let events = trace(&bench, flags);
        let tracks: Vec<String> = with(&events, "name", "thread_name")
            .map(|track| format!("{} {} {}", track["pid"], track["tid"], track["args"]["name"]))
            .collect();
        let mut expected = Vec::new();
        for device in [0, 1] {
            expected.extend([format!("{device} 0 \"compute\""), format!("{device} 1 \"communication\"")]);
            if flags.contains("link") {
                expected.push(format!("{device} 3 \"communication, simulated link\""));
            }
        }
        assert_eq!(tracks, expected);
        for name in ["linear y", "all_gather x"] {
            let mut steps: Vec<&str> =
                with(&events, "name", name).filter_map(|bar| bar["args"]["step"].as_str()).collect();
            steps.sort_unstable();
            assert_eq!(steps, ["0", "0", "1", "1", "2", "2"], "{name} on two devices, {flags}");
        }
        assert_eq!(Some(total(&events, "bytes")), plan["collectives"][0]["bytes_total"].as_u64());
        assert_eq!(Some(total(&events, "flops")), plan["flops_per_device"].as_u64().map(|one| 2 * one));
        let linked = with(&events, "cat", "link").filter_map(|bar| bar["name"].as_str());
        let linked: Vec<&str> = linked.collect();
        assert_eq!(linked.len(), if flags.contains("link") { 6 } else { 0 }, "{flags}");
        assert!(linked.iter().all(|name| *name == "all_gather x, simulated link"), "{linked:?}");
    }
}

#[test]
fn arrows_lead_from_the_device_that_gives_to_the_one_that_takes() {
    let bench = Bench::with(STEPS);
    for flags in ["--on threads", "--on lockstep", "--link 100,1"] {
        let events = trace(&bench, flags);
        let (starts, ends): (Vec<_>, Vec<_>) =
            (with(&events, "ph", "s").collect(), with(&events, "ph", "f").collect());
        assert_eq!((starts.len(), ends.len()), (6, 6), "one for each step and device, {flags}");
        let mut bytes = 0;
        for (id, (start, end)) in starts.iter().zip(&ends).enumerate() {
            assert_eq!((start["id"].as_u64(), end["id"].as_u64()), (Some(id as u64), Some(id as u64)));
            assert_ne!(start["pid"], end["pid"]);
            let time = |end: &Value| end["ts"].as_f64().expect("a time");
            assert!(time(start) <= time(end), "{start} {end}");
            // Each end is at a bar of its track: viewers drop arrows that are at none.
            for (at, doing) in [(start, "tell"), (end, "copy")] {
                let is_at = |bar: &&Value| {
                    let from = time(bar);
                    let to = from + bar["dur"].as_f64().expect("a duration");
                    bar["pid"] == at["pid"] && bar["tid"] == at["tid"] && (from..=to).contains(&time(at))
                };
                assert!(with(&events, "cat", doing).any(|bar| is_at(&bar)), "{at} {flags}");
            }
            bytes += end["args"]["bytes"].as_u64().expect("bytes");
        }
        assert_eq!(bytes, total(&events, "bytes"));
    }
}

#[test]
fn a_traced_run_tells_how_each_device_spent_it() {
    let bench = Bench::with(STEPS);
    let told = bench.run("run p.weave --random 1 --trace t.json").exits(0);
    let told = told.prints(&[
        "computing",
        "communicating",
        "of it hidden",
        "waiting",
        "mean",
        "the traced run took",
    ]);
    assert!(!told.stdout.contains("simulated"));
    bench
        .run("run p.weave --random 1 --trace t.json --link 100,1")
        .exits(0)
        .prints(&["communicating (simulated link)"]);
    let json = bench.run("run p.weave --random 1 --trace t.json --link 100,1 --json").exits(0).json();
    assert_eq!(keys(&json), [&EXPLAINED[..], &["outputs", "check", "time_ms", "timeline"]].concat());
    let timeline = &json["timeline"];
    assert_eq!(keys(timeline), ["run_ms", "simulated_link", "devices"]);
    assert_eq!(timeline["simulated_link"], true);
    let devices = timeline["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 2);
    for (number, device) in devices.iter().enumerate() {
        assert_eq!(device["device"], number);
        let time = |name: &str| device[name].as_f64().expect("a time");
        assert!(time("communicating_ms") >= 0.3, "three steps over the link: {device}");
        assert!(time("hidden_ms") <= time("computing_ms").min(time("communicating_ms")), "{device}");
        let all = time("computing_ms") + time("communicating_ms") - time("hidden_ms") + time("waiting_ms");
        assert!((all - timeline["run_ms"].as_f64().expect("a time")).abs() < 1e-6, "{device}");
    }
    let json = bench.run("run p.weave --random 1 --trace t.json --on reference --json").exits(0).json();
    assert_eq!(json["timeline"], Value::Null, "nothing is recorded there");
}
