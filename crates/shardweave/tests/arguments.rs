//! What can be typed, and which status a command ends with when it does not fit together.

mod support;

use support::Bench;

const TWO: &str = "
mesh line { tp = 2 }
program p {
  input x: f32[s, e]
  y = relu(x)
  output y
}
placement rows for p on line { x: s/tp }
placement columns for p on line { x: e/tp }
program q {
  input x: f32[s]
  output x
}
";

#[test]
fn what_does_not_parse_is_status_2() {
    let bench = Bench::with(TWO);
    for words in [
        "",
        "frobnicate p.weave",
        "check",
        "check p.weave p.weave",
        "check p.weave --program p",
        "explain p.weave --nonsense",
        "explain p.weave --size s",
        "explain p.weave --size s=",
        "explain p.weave --size =1",
        "explain p.weave --size s=-1",
        "explain p.weave --size s=1.5",
        "explain p.weave --size s=99999999999999999999",
        "explain p.weave --mesh line.tp",
        "explain p.weave --link 1",
        "explain p.weave --link 1,0",
        "explain p.weave --link -1,1",
        "explain p.weave --link nan,1",
        "explain p.weave --link 1,inf",
        "explain p.weave --flops 0",
        "explain p.weave --flops x",
        "explain p.weave --program p --program p",
        "compile p.weave",
        "compile p.weave --emit nothing",
        "run p.weave --on moon",
        "run p.weave --random x",
        "run p.weave --repeat 0",
        "run p.weave --input x.npy",
        "run p.weave --output =y.npy",
        "measure p.weave",
        "measure --devices 1",
        "measure --devices x",
        "measure --devices 1000000",
        "measure --product 8,8",
        "measure --product 8,8,0",
        "measure --product 8,8,8,8",
        "measure --product 8,8,1e3",
        "measure --repeat 0",
        "measure --link 1,1",
    ] {
        let ended = bench.run(words).exits(2);
        assert!(ended.stdout.is_empty(), "{words}: {}", ended.stdout);
        assert!(!ended.stderr.is_empty(), "{words}");
    }
}

#[test]
fn what_does_not_parse_is_json_if_json_is_asked_for() {
    let bench = Bench::with(TWO);
    for words in ["explain p.weave --json --nonsense", "run p.weave --repeat 0 --json", "check --json"] {
        let ended = bench.run(words).exits(2);
        assert_eq!(ended.codes(), ["E0901"], "{words}");
        assert!(ended.stderr.is_empty(), "{}", ended.stderr);
    }
}

#[test]
fn all_words_that_do_not_parse_are_told() {
    let bench = Bench::with(TWO);
    let words = "run p.weave --size s=x e=4 --mesh line.tp=y --bogus 5 6 --link 1 --on moon --json";
    let ended = bench.run(words).exits(2);
    assert_eq!(ended.codes(), ["E0901"; 5]);
    for word in ["s=x", "line.tp=y", "--bogus", "'1'", "moon"] {
        assert!(ended.stdout.contains(word), "{word}: {}", ended.stdout);
    }
    // What lacks because a word was left out is no mistake of its own.
    assert_eq!(bench.run("compile p.weave --emit nothing --json").exits(2).codes(), ["E0901"]);
}

#[test]
fn warnings_are_about_the_chosen_program() {
    let bench = Bench::with(
        "program p {\n input x: f32[s]\n unused = neg(x)\n output x\n}\nprogram q {\n input x: f32[s]\n output x\n}\n",
    );
    bench.run("explain p.weave --program q --size s=2").exits(0);
    let warned = bench.run("explain p.weave --program p --size s=2").exits(0);
    assert!(warned.stderr.contains("`unused`"), "{}", warned.stderr);
    assert!(bench.run("check p.weave").exits(0).stderr.contains("`unused`"));
}

#[test]
fn help_and_version_are_no_mistake() {
    let bench = Bench::new();
    for (words, says) in [
        ("--help", "explain"),
        ("run --help", "--random"),
        ("explain --help", "--size"),
        ("--version", "shardweave"),
    ] {
        bench.run(words).exits(0).prints(&[says]);
    }
}

#[test]
fn a_choice_that_is_missing_lists_what_there_is() {
    let bench = Bench::with(TWO);
    let sizes = "--size s=4 e=2";
    bench.run(&format!("explain p.weave {sizes}")).exits(2).tells(&["E0902", "rows", "columns"]);
    bench.run(&format!("explain p.weave --program p {sizes}")).exits(2).tells(&["E0902", "rows", "columns"]);
    bench.run(&format!("explain p.weave --placement none {sizes}")).exits(2).tells(&["E0902", "`p`", "`q`"]);
    assert_eq!(bench.run("run p.weave --random 1 --json").exits(2).codes(), ["E0902"]);
}

#[test]
fn a_placement_implies_its_program_and_a_lone_one_is_taken() {
    let bench = Bench::with(TWO);
    let explain = |words: &str| bench.run(&format!("explain p.weave --json {words}")).exits(0).json();
    let json = explain("--placement columns --size s=4 e=2");
    assert_eq!((json["program"].as_str(), json["placement"].as_str()), (Some("p"), Some("columns")));
    let json = explain("--program q --size s=4");
    assert_eq!((json["program"].as_str(), json["placement"].as_str()), (Some("q"), None));
    let json = explain("--program p --placement none --size s=4 e=2");
    assert_eq!((json["program"].as_str(), json["placement"].as_str()), (Some("p"), None));
    assert_eq!(json["mesh"].to_string(), "{}");
    assert_eq!(json["devices"], 1);

    let lone = Bench::with(
        "mesh m { t = 2 } \nprogram p {\n input x: f32[s=4]\n output x\n}\nplacement a for p on m { x: s/t }\nprogram q {\n input x: f32[s=4]\n output x\n}\n",
    );
    let json = lone.run("explain p.weave --json").exits(0).json();
    assert_eq!((json["program"].as_str(), json["placement"].as_str()), (Some("p"), Some("a")));
}

#[test]
fn names_that_are_not_there_are_status_1() {
    let bench = Bench::with(TWO);
    for (words, code) in [
        ("--program r --size s=4", "E0401"),
        ("--placement diagonal --size s=4", "E0409"),
        ("--program q --placement rows --size s=4", "E0409"),
        ("--placement rows --size s=4 e=2 zz=1", "E0403"),
        ("--placement rows --size s=4 e=2 --mesh tube.tp=2", "E0203"),
        ("--placement rows --size s=4 e=2 --mesh line.dp=2", "E0204"),
        ("--placement rows --size s=4 e=2 --mesh line.tp=0", "E0201"),
        ("--placement rows --size s=4 e=2 s=5", "E0501"),
        ("--placement rows --size s=4", "E0502"),
    ] {
        for command in ["explain", "compile --emit host", "run --random 1"] {
            let (command, flags) = command.split_once(' ').unwrap_or((command, ""));
            let words = format!("{command} p.weave {flags} {words} --json");
            assert_eq!(bench.run(&words).exits(1).codes(), [code], "{words}");
        }
    }
}

#[test]
fn flags_with_several_values_may_be_repeated_or_filled_at_once() {
    let bench = Bench::with(TWO);
    for words in [
        "p.weave --size s=4 e=2",
        "p.weave --size s=4 --size e=2",
        "--size=s=4 p.weave --size=e=2",
        "--size s=4 e=2 p.weave",
    ] {
        let json = bench.run(&format!("explain {words} --placement rows --json")).exits(0).json();
        assert_eq!(json["values"]["x"]["dims"].to_string(), r#"{"s":4,"e":2}"#);
    }
}

#[test]
fn a_mesh_can_be_changed_unless_it_lists_its_devices() {
    let bench = Bench::with(TWO);
    let json =
        bench.run("explain p.weave --placement rows --size s=4 e=2 --mesh line.tp=4 --json").exits(0).json();
    assert_eq!(json["mesh"].to_string(), r#"{"tp":4}"#);
    assert_eq!(json["devices"], 4);
    let listed = Bench::with(
        "mesh m { t = 2 } devices [1, 0]\nprogram p {\n input x: f32[s=4]\n output x\n}\nplacement a for p on m { x: s/t }\n",
    );
    listed.run("explain p.weave --mesh m.t=4").exits(1).tells(&["`m`"]);
}

#[test]
fn what_is_not_built_in_is_status_2() {
    let bench = Bench::with(TWO);
    bench.run("run p.weave --program q --size s=4 --random 1 --on mpi").exits(2).tells(&["E0903", "mpi"]);
}

#[test]
fn a_timeout_is_a_number_above_0_and_for_ranks() {
    let bench = Bench::with(TWO);
    let run = |timeout: &str| {
        bench.run(&format!("run p.weave --program q --size s=4 --random 1 --timeout={timeout}")).exits(2)
    };
    for wrong in ["0", "-1", "inf", "NaN"] {
        run(wrong).tells(&["--timeout", "must be above 0"]);
    }
    run("soon").tells(&["--timeout", "`soon` is not a number"]);
    for right in ["30", "0.5"] {
        run(right).tells(&["`--timeout` is for ranks"]);
    }
}

#[test]
fn a_file_that_is_not_there_or_no_text_is_status_1() {
    let bench = Bench::new();
    bench.put("bad.weave", b"program \xff {");
    for command in ["check", "explain", "run"] {
        bench.run(&format!("{command} none.weave")).exits(1).tells(&["E0607", "none.weave"]);
        bench.run(&format!("{command} .")).exits(1).tells(&["E0607"]);
        bench.run(&format!("{command} bad.weave")).exits(1).tells(&["E0102", "bad.weave"]);
        assert_eq!(bench.run(&format!("{command} none.weave --json")).exits(1).codes(), ["E0607"]);
    }
}

#[test]
fn all_mistakes_of_a_file_are_told_with_their_places() {
    let bench = Bench::with(
        "mesh m { t = 0 }\nprogram p {\n  input x: f33[s]\n  y = reluu(x)\n  z = add(x, nothing)\n  output z\n}\n",
    );
    let json = bench.run("check p.weave --json").exits(1).json();
    let errors = json["errors"].as_array().expect("a list");
    let lines: Vec<u64> = errors.iter().map(|error| error["line"].as_u64().expect("a line")).collect();
    for line in [1, 3, 4, 5] {
        assert!(lines.contains(&line), "nothing is told of line {line}: {json}");
    }
    for error in errors {
        assert_eq!(error["file"], "p.weave");
        assert!(error["column"].as_u64().is_some_and(|column| column > 0));
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
        let keys: Vec<&String> = error.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["code", "file", "line", "column", "message", "help"]);
    }
    let told = bench.run("check p.weave").exits(1);
    assert!(told.stdout.is_empty());
    told.tells(&["p.weave:1:", "p.weave:3:", "p.weave:4:", "p.weave:5:", "reluu", "nothing"]);
}

#[test]
fn check_says_what_there_is() {
    let bench = Bench::with(TWO);
    bench.run("check p.weave").exits(0).prints(&["p.weave", "1 mesh", "2 programs", "2 placements"]);
    let json = bench.run("check p.weave --json").exits(0).json();
    assert_eq!(json["programs"].to_string(), r#"["p","q"]"#);
    assert_eq!(json["placements"].to_string(), r#"["rows","columns"]"#);
    assert_eq!(json["meshes"].to_string(), r#"["line"]"#);
    bench.put("empty.weave", b"");
    bench.run("check empty.weave").exits(0);
}

#[test]
fn a_reader_that_stops_early_is_no_mistake() {
    use std::process::{Command, Stdio};
    let bench = Bench::with(TWO);
    let mut child = Command::new(env!("CARGO_BIN_EXE_shardweave"))
        .args(["explain", "p.weave", "--placement", "rows", "--size", "s=4", "e=2"])
        .current_dir(bench.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
