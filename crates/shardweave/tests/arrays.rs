//! Arrays in and out: what is bound to which input, what is refused, and what is left on disk.

mod support;

use support::Bench;

const SCALE: &str = "
mesh line { tp = 2 }
program scale {
  input x: f32[s, e]
  input w: f32[e]  from \"layer.weight\"
  y = mul(x, w)
  z = neg(y)
  output y
  output z
}
placement rows for scale on line { x: s/tp }
";

const X: [f32; 6] = [1., 2., 3., 4., 5., 6.];
const W: [f32; 2] = [10., 100.];
const Y: [f32; 6] = [10., 200., 30., 400., 50., 600.];

fn scale() -> Bench {
    let bench = Bench::with(SCALE);
    bench.npy("x.npy", &[3, 2], &X);
    bench.npy("w.npy", &[2], &W);
    bench.safetensors("m.safetensors", &[("layer.weight", &[2], &W), ("unused", &[1], &[0.])]);
    bench
}

#[test]
fn inputs_from_every_kind_of_file_give_the_same_outputs() {
    let bench = scale();
    bench.safetensors("in.safetensors", &[("x", &[3, 2], &X), ("w", &[2], &W), ("extra", &[1], &[0.])]);
    bench.npy_in_order("f.npy", &[3, 2], &[1., 3., 5., 2., 4., 6.], npyz::Order::Fortran);
    for arrays in [
        "--input x=x.npy w=w.npy",
        "--input x=x.npy --input w=w.npy",
        "--input x=f.npy --weights m.safetensors",
        "--inputs in.safetensors",
        "--input x=x.npy --weights m.safetensors",
    ] {
        for on in ["", "--placement none", "--on lockstep", "--on reference"] {
            bench.run(&format!("run p.weave {arrays} {on} --output y=y.npy z=z.npy")).exits(0);
            assert_eq!(bench.read_npy("y.npy"), (vec![3, 2], Y.to_vec()), "{arrays} {on}");
            assert_eq!(bench.read_npy("z.npy").1, Y.map(|y| -y), "{arrays} {on}");
        }
    }
}

#[test]
fn outputs_go_to_safetensors_too() {
    let bench = scale();
    bench.run("run p.weave --input x=x.npy w=w.npy --outputs out.safetensors --output y=y.npy").exits(0);
    let bytes = std::fs::read(bench.path("out.safetensors")).expect("there");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("others read it");
    let y: Vec<u8> = Y.iter().flat_map(|y| y.to_le_bytes()).collect();
    assert_eq!(file.tensor("y").expect("y").data(), y);
    assert_eq!(file.tensor("y").expect("y").shape(), [3, 2]);
    assert_eq!(file.names().len(), 2);
    assert_eq!(bench.read_npy("y.npy").1, Y);
}

#[test]
fn a_split_checkpoint_is_read_by_its_index() {
    let bench = scale();
    std::fs::create_dir(bench.path("model")).expect("tests can write");
    bench.safetensors("model/1.safetensors", &[("layer.weight", &[2], &W)]);
    bench.safetensors("model/2.safetensors", &[("other", &[2], &W)]);
    bench.put(
        "model/model.safetensors.index.json",
        br#"{"weight_map": {"layer.weight": "1.safetensors", "other": "2.safetensors"}}"#,
    );
    let run = "run p.weave --input x=x.npy --output y=y.npy --weights";
    bench.run(&format!("{run} model/model.safetensors.index.json")).exits(0);
    assert_eq!(bench.read_npy("y.npy").1, Y);
    bench.run(&format!("{run} model/1.safetensors model/2.safetensors")).exits(0);
    bench.run(&format!("{run} model/1.safetensors m.safetensors")).exits(1).tells(&["E0603", "layer.weight"]);
    bench.run(&format!("{run} model/2.safetensors")).exits(1).tells(&["E0606", "layer.weight"]);
}

#[test]
fn headers_of_weights_and_inputs_bind_sizes() {
    let bench = scale();
    let json = bench.run("explain p.weave --weights m.safetensors --size s=3 --json").exits(0).json();
    assert_eq!(json["values"]["y"]["dims"].to_string(), r#"{"s":3,"e":2}"#);
    bench.run("compile p.weave --weights m.safetensors --size s=3 --emit local").exits(0);
    bench.run("explain p.weave --weights m.safetensors --size s=3 e=3").exits(1).tells(&[
        "E0501",
        "layer.weight",
        "`e`",
    ]);
}

#[test]
fn what_does_not_fit_is_told_and_status_1() {
    let bench = scale();
    bench.npy("w3.npy", &[3], &[1., 2., 3.]);
    bench.npy("flat.npy", &[6], &X);
    bench.safetensors("in.safetensors", &[("x", &[3, 2], &X)]);
    bench.safetensors("bad.safetensors", &[("layer.wieght", &[2], &W)]);
    bench.put("junk.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff");
    bench.put("junk.safetensors", &u64::MAX.to_le_bytes());
    for (arrays, code, says) in [
        ("--input x=x.npy", "E0601", "`w`"),
        ("--weights m.safetensors", "E0601", "`x`"),
        ("--input x=x.npy y=x.npy w=w.npy", "E0602", "`y`"),
        ("--input x=x.npy q=x.npy w=w.npy", "E0602", "`q`"),
        ("--input x=x.npy x=x.npy w=w.npy", "E0603", "`x`"),
        ("--input x=x.npy w=w.npy --inputs in.safetensors", "E0603", "in.safetensors"),
        ("--input x=x.npy w=w.npy --weights m.safetensors", "E0603", "w.npy"),
        ("--input x=flat.npy w=w.npy", "E0604", "flat.npy"),
        ("--input x=x.npy w=w3.npy", "E0501", "w3.npy"),
        ("--input x=x.npy --weights bad.safetensors", "E0606", "layer.wieght"),
        ("--input x=x.npy --weights bad.safetensors --random 1", "E0606", "layer.wieght"),
        ("--input x=x.npy x=x.npy --random 1", "E0603", "`x`"),
        ("--input q=x.npy --random 1 --size s=1 e=1", "E0602", "`q`"),
        ("--input x=none.npy w=w.npy", "E0607", "none.npy"),
        ("--input x=junk.npy w=w.npy", "E0607", "junk.npy"),
        ("--input x=x.npy --weights junk.safetensors", "E0607", "junk.safetensors"),
        ("--inputs junk.safetensors", "E0607", "junk.safetensors"),
        ("--inputs x.npy", "E0607", "x.npy"),
        ("--input x=in.safetensors w=w.npy", "E0607", "in.safetensors"),
    ] {
        let words = format!("run p.weave {arrays} --output y=y.npy");
        let json = bench.run(&format!("{words} --json")).exits(1).json();
        let errors = json["errors"].as_array().expect("a list");
        assert_eq!(errors.len(), 1, "{words}: {json}");
        assert_eq!(errors[0]["code"], code, "{words}: {json}");
        assert!(errors[0].to_string().contains(says), "{words}: {json}");
        bench.run(&words).exits(1).tells(&[code, says]);
        assert!(!bench.path("y.npy").exists());
    }
}

#[test]
fn all_mistakes_of_the_arrays_are_told_at_once() {
    let bench = scale();
    let told = bench
        .run("run p.weave --input q=x.npy x=none.npy --weights none.safetensors --output a=a.npy b=b.npy");
    told.exits(1).tells(&["`q`", "none.npy", "none.safetensors", "`a`", "`b`"]);
}

#[test]
fn an_array_given_for_the_wrong_input_names_dim_sizes_and_both_sources() {
    let bench = Bench::with(
        "mesh line { tp = 2 }\nprogram p {\n  input x: f32[d, m, k]\n  input w: f32[g, k, n]\n  y = matmul(x, w) -> [d, g, m, n]\n  output y\n}\nplacement keep_w for p on line {\n  x: d/tp\n  w: g/tp\n  y: g/tp\n}\n",
    );
    bench.npy("x.npy", &[2, 2, 3], &[1.; 12]);
    bench.npy("w.npy", &[2, 3, 5], &[1.; 30]);
    bench.run("run p.weave --input x=x.npy w=w.npy --check").exits(0);
    let told = bench.run("run p.weave --input x=w.npy w=w.npy --output y=y.npy").exits(1);
    told.tells(&["`x`", "`k`", "5", "3", "w.npy"]);
    assert_eq!(bench.names(), ["p.weave", "w.npy", "x.npy"]);
}

#[test]
fn types_must_agree_and_cast_is_offered() {
    let bench = Bench::with("program p {\n  input x: f64[s]\n  y = neg(x)\n  output y\n}\n");
    bench.npy("x.npy", &[3], &[1., 2., 3.]);
    bench.run("run p.weave --input x=x.npy").exits(1).tells(&["E0605", "f64", "f32", "x.npy", "cast"]);
}

#[test]
fn bf16_has_no_npy() {
    let bench = Bench::with("program p {\n  input x: bf16[s=3]\n  y = neg(x)\n  output y\n}\n");
    bench.npy("x.npy", &[3], &[1., 2., 3.]);
    bench.run("run p.weave --input x=x.npy").exits(1).tells(&["E0609", "bf16", "safetensors"]);
    bench.run("run p.weave --random 1 --output y=y.npy").exits(1).tells(&["E0609", "bf16", "safetensors"]);
    bench.run("run p.weave --random 1 --outputs y.safetensors").exits(0);
    assert_eq!(bench.names(), ["p.weave", "x.npy", "y.safetensors"]);
}

#[test]
fn outputs_that_cannot_be_written_are_told_before_anything_runs() {
    let bench = scale();
    let run = "run p.weave --input x=x.npy w=w.npy";
    for (words, code, says) in [
        ("--output q=q.npy", "E0610", "`q`"),
        ("--output x=q.npy", "E0610", "`x`"),
        ("--output y=none/q.npy", "E0608", "none/q.npy"),
        ("--output y=q.npy y=r.npy", "E0610", "`y`"),
        ("--output y=q.npy z=q.npy", "E0608", "q.npy"),
        ("--outputs none/q.safetensors", "E0608", "none/q.safetensors"),
        ("--output y=.", "E0608", "."),
    ] {
        let ended = bench.run(&format!("{run} {words} --json")).exits(1);
        assert_eq!(ended.codes(), [code], "{words}");
        bench.run(&format!("{run} {words}")).exits(1).tells(&[code, says]);
    }
    assert_eq!(bench.names(), ["m.safetensors", "p.weave", "w.npy", "x.npy"]);
}

#[test]
fn a_failure_while_running_is_status_3_and_leaves_no_output() {
    let bench = Bench::with(
        "program p {\n  input ids: i64[s]\n  input table: f32[v=2, e=1]\n  y = embedding(ids, table)\n  k = neg(table)\n  output y\n  output k\n}\n",
    );
    bench.npy("t.npy", &[2, 1], &[1., 2.]);
    bench.npy_of("ids.npy", &[3], &[0_i64, 7, 1], npyz::Order::C);
    bench.put("k.npy", b"as it was");
    for on in ["threads", "lockstep", "reference"] {
        let words = format!("run p.weave --input ids=ids.npy table=t.npy --output k=k.npy y=y.npy --on {on}");
        bench.run(&words).exits(3).tells(&["E0801", "7", "p.weave:4:", "y = embedding"]);
        assert_eq!(bench.run(&format!("{words} --check --json")).exits(3).codes(), ["E0801"]);
        assert_eq!(bench.names(), ["ids.npy", "k.npy", "p.weave", "t.npy"]);
        assert_eq!(std::fs::read(bench.path("k.npy")).expect("there"), b"as it was");
    }
}

#[test]
fn what_no_output_needs_needs_no_array() {
    let bench = Bench::with(
        "program p {\n  input x: f32[s]\n  input unused: f32[t]  from \"none\"\n  u = neg(unused)\n  y = neg(x)\n  output y\n}\n",
    );
    bench.npy("x.npy", &[3], &[1., 2., 3.]);
    bench.safetensors("m.safetensors", &[("a", &[1], &[0.])]);
    let ended = bench
        .run("run p.weave --input x=x.npy --weights m.safetensors --json")
        .exits(0)
        .tells(&["W0301", "`u`"]);
    let json = ended.json();
    let values: Vec<&String> = json["values"].as_object().expect("an object").keys().collect();
    assert_eq!(values, ["x", "y"]);
}

#[test]
fn a_plan_that_cannot_fit_in_memory_is_status_1_but_is_explained() {
    let bench = Bench::with("program p {\n  input x: f32[s]\n  y = neg(x)\n  output y\n}\n");
    bench.run("explain p.weave --size s=1000000000000").exits(0);
    bench.run("run p.weave --random 1 --size s=1000000000000").exits(1).tells(&["E0703"]);
}

#[test]
fn more_devices_than_threads_can_be_started_for_is_status_1() {
    let bench = Bench::with(SCALE);
    let run = "run p.weave --random 1 --size s=3 e=2 --mesh line.tp=60000";
    bench.run(run).exits(1).tells(&["E0704", "60000", "lockstep"]);
}
