//! `measure` prints flags that `explain` and `run` take.

mod support;

use support::Bench;

const LAYER: &str = "
mesh line { tp = 2 }
program layer {
  input x: f32[s=8, e=4]
  input w: f32[h=6, e=4]
  y = linear(x, w)
  output y
}
placement p for layer on line {
  x: s/tp
  w: h/tp
  y: h/tp
}
";

#[test]
fn the_last_line_is_what_explain_and_run_take() {
    let bench = Bench::with(LAYER);
    for devices in [2, 3] {
        let told = bench.run(&format!("measure --devices {devices} --product 16,24,32 --repeat 3")).exits(0);
        let told = told.prints(&["products", "latency", "copies", "16 x 32 times 32 x 24", "taken 3 times"]);
        assert!(told.stderr.is_empty());
        assert!(told.stdout.starts_with(&format!("{devices} devices")), "{}", told.stdout);
        let flags = told.stdout.lines().last().expect("a line");
        let words: Vec<&str> = flags.split(' ').collect();
        assert!(words.len() == 4 && (words[0], words[2]) == ("--link", "--flops"), "{flags}");
        bench.run(&format!("explain p.weave {flags}")).exits(0);
        bench.run(&format!("run p.weave --random 1 --check {flags}")).exits(0);
    }
}

#[test]
fn as_json_it_has_medians_between_lowest_and_highest() {
    let bench = Bench::new();
    let json = bench.run("measure --product 16,24,32 --repeat 4 --json").exits(0).json();
    assert!(json["devices"].as_u64().expect("a number") >= 2, "{json}");
    assert_eq!(json["times"], 4);
    assert_eq!(json["product"], serde_json::json!({ "m": 16, "n": 24, "k": 32 }));
    for name in ["gflops", "latency_us", "gigabytes_per_second"] {
        let of = |which: &str| json[name][which].as_f64().expect("a number");
        assert!(
            0.0 < of("lowest") && of("lowest") <= of("median") && of("median") <= of("highest"),
            "{json}"
        );
    }
    assert!(json["flags"].as_str().expect("text").starts_with("--link "), "{json}");
}

#[test]
fn what_does_not_fit_in_memory_is_told() {
    let bench = Bench::new();
    let huge = "measure --devices 2 --product 16777216,16777216,16777216";
    let told = bench.run(huge).exits(1);
    assert!(told.stderr.contains("smaller product") && told.stdout.is_empty(), "{}", told.stderr);
    let json = bench.run(&format!("{huge} --json")).exits(1).json();
    assert_eq!(json["errors"][0]["file"], serde_json::Value::Null);
}
