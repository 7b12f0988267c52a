//! Type rules, sizes and text of programs.

use super::{Program, SizeBinder, Sizes};

const MLP: &str = "program mlp {
  input x: f32[b=2, s, e]
  input w0: f32[h, e] from \"a.\\\"w\\\"\"
  input b0: f32[h]
  y0 = linear(x, w0, b0)
  y1 = gelu(y0)
  y2 = linear(y1, w0) -> [s, b, e]
  output y2
}";

fn mistakes(body: &str) -> String {
    match format!("program p {{\n{body}\n}}").parse::<Program>() {
        Ok(program) => panic!("no mistake was found in {program}"),
        Err(found) => found.to_string(),
    }
}

/// The type of the last value.
fn last(body: &str) -> String {
    let program: Program =
        format!("program p {{\n{body}\n}}").parse().unwrap_or_else(|why| panic!("{body}: {why}"));
    let (id, value) = program.values.iter().last().expect("there are values");
    format!("{}[{}]", value.dtype, program.dim_names(id).join(", "))
}

#[test]
fn a_program_prints_as_it_was_written() {
    let program = "program mlp {
  input x: f32[b=2, s, e]
  input w0: f32[h, e] from \"a.\\\"w\\\"\"
  y0 = linear(x, w0) -> [s, b, h]
  y1 = mul(y0, -1.5)
  y2 = rearrange(y1, \"s b (n k) -> b n s k\", n=4)
  output y1
  output y2
}";
    let read: Program = program.parse().expect("a sound program");
    assert_eq!(read.to_string(), program);
    assert_eq!(read.to_string().parse::<Program>(), Ok(read));
}

#[test]
fn dims_of_results() {
    let inputs = "input x: f32[b, s, e]\ninput w: f32[h, e]\ninput c: f32[b, e]\ninput i: i64[b, s]\n";
    for (call, expected) in [
        ("linear(x, w)", "f32[b, s, h]"),
        ("linear(x, c)", "f32[b, s]"),
        ("linear(x, c) -> [s]", "f32[s]"),
        ("linear(x, w) -> [h, s, b]", "f32[h, s, b]"),
        ("einsum(\"b s e, h e -> h t\", x, w)", ""),
        ("einsum(\"b t e, h e -> h t\", x, w)", "f32[h, t]"),
        ("einsum(\"b t e, h e -> h t\", x, w) -> [t, h]", "f32[t, h]"),
        ("einsum(\"b s e ->\", x)", "f32[]"),
        ("add(w, x)", "f32[h, e, b, s]"),
        ("add(1, x)", "f32[b, s, e]"),
        ("less(x, 0)", "bool[b, s, e]"),
        ("sum(x, s, b)", "f32[e]"),
        ("argmax(x, s)", "i64[b, e]"),
        ("layer_norm(x, c, e)", "f32[b, s, e]"),
        ("rearrange(x, \"b s (n h) -> n one=1 m=(b s) h\", n=12)", "f32[n, one, m, h]"),
        ("rename(x, b -> s, s -> b)", "f32[s, b, e]"),
        ("slice(x, s -> t, 1, 4)", "f32[b, t, e]"),
        ("pad(x, e -> f, 1, 4)", "f32[b, s, f]"),
        ("broadcast(x, q=3)", "f32[q, b, s, e]"),
        ("iota(b)", "i64[b]"),
        ("full(3, bf16)", "bf16[]"),
        ("embedding(i, w)", "f32[b, s, e]"),
        ("concat(t, c, c) -> [b, t]", "f32[b, t]"),
        ("cast(i, f16)", "f16[b, s]"),
    ] {
        if expected.is_empty() {
            assert!(mistakes(&format!("{inputs}y = {call}\noutput y")).contains("E0310"), "{call}");
        } else {
            assert_eq!(last(&format!("{inputs}y = {call}\noutput y")), expected, "{call}");
        }
    }
}

#[test]
fn one_mistake_does_not_cause_others() {
    let found = mistakes("input x: f32[b]\ny = lineer(x)\nz = gelu(y)\nu = add(z, q)\noutput u\noutput y");
    assert_eq!(found.matches("error[").count(), 2, "{found}");
    assert!(
        found.contains("there is no operation `lineer`") && found.contains("there is no value `q`"),
        "{found}"
    );
}

fn mlp_sizes(bind: impl FnOnce(&Program, &mut SizeBinder<'_>)) -> Result<Sizes, String> {
    let program: Program = MLP.parse().expect("a sound program");
    let mut binder = SizeBinder::new(&program);
    bind(&program, &mut binder);
    binder.finish().map_err(|found| found.to_string())
}

#[test]
fn the_array_of_another_input_is_told_with_both_places() {
    let found = mlp_sizes(|program, binder| {
        let input = |name| program.value(name).expect("it is there");
        binder.bind_array(input("w0"), "w0.npy", &[16, 8]);
        binder.bind_array(input("x"), "w.npy", &[2, 16, 5]);
    });
    assert_eq!(
        found.expect_err("e has two sizes").lines().next(),
        Some(
            "error[E0501]: the dim `e` has size 5 from w.npy with sizes [2, 16, 5] for input `x`, but size 8 from \
             w0.npy with sizes [16, 8] for input `w0`"
        )
    );
    let found = mlp_sizes(|program, binder| {
        binder.bind_array(program.value("x").expect("it is there"), "w.npy", &[2, 16]);
    });
    assert_eq!(
        found.expect_err("x has three dims").lines().next(),
        Some("error[E0604]: input `x` has 3 dims, [`b`, `s`, `e`], but w.npy has 2: [2, 16]")
    );
}

#[test]
fn missing_sizes_are_listed_at_once() {
    let found = mlp_sizes(|_, binder| binder.bind_named("h", 3)).expect_err("two are missing");
    assert!(found.contains("the dims `s`, `e` have no size"), "{found}");
    assert!(found.contains("--size s=N e=N"), "{found}");
}

/// Sizes of a program with the given lines, by name.
fn sizes(body: &str, given: &[(&str, u64)]) -> Result<Vec<(String, u64)>, String> {
    let program: Program =
        format!("program p {{\n{body}\n}}").parse().unwrap_or_else(|why| panic!("{body}: {why}"));
    let sizes = Sizes::bind(&program, given.iter().copied()).map_err(|found| found.to_string())?;
    Ok(program.dims.iter().map(|(id, dim)| (dim.name.clone(), sizes[id])).collect())
}

#[test]
fn sizes_follow_from_operations_in_both_directions() {
    let body = "input x: f32[b, s]\ny = pad(x, s -> t, 1, 2)\nz = rename(y, t -> u)\n\
                v = concat(w, x, z) -> [b, w]\nr = rearrange(v, \"b (n k) -> n k b\", n=2)\noutput r";
    for given in [[("b", 3), ("s", 5)], [("b", 3), ("u", 8)]] {
        let found = sizes(body, &given).expect_err("13 does not split in two");
        assert!(found.contains("`(n k)` has size 13, which the known parts, 2, do not divide"), "{found}");
    }
    let body = body.replace("1, 2)", "1, 1)");
    let found = sizes(&body, &[("b", 3), ("k", 6)]).expect_err("w is 12, but s and u are not known");
    assert!(found.contains("the dims `s`, `t`, `u` have no size"), "{found}");
    let got = sizes(&body, &[("b", 3), ("t", 7)]).expect("everything follows");
    assert_eq!(got.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [3, 5, 7, 7, 12, 2, 6]);
}

#[test]
fn rules_with_sizes() {
    for (body, given, expected) in [
        (
            "input x: f32[a]\ny = slice(x, a -> b, 1, 4)\noutput y",
            &[("a", 3)][..],
            "takes 1..4 of `a`, which has size 3",
        ),
        ("input x: i32[a]\ny = max(x, a)\noutput y", &[("a", 0)], "is over `a`, which has size 0"),
        ("input x: f32[a]\ny = argmax(x, a)\noutput y", &[("a", 0)], "is over `a`, which has size 0"),
        (
            "input x: f32[a]\ninput z: f32[b]\ny = concat(c, x, z)\noutput y",
            &[("a", 1), ("b", 2), ("c", 4)],
            "makes 3 (`a` is 1 (given with `--size`), `b` is 2 (given with `--size`)), but `c` is 4",
        ),
        (
            "input x: f32[a]\ninput z: f32[b]\ny = einsum(\"n, n ->\", x, z)\noutput y",
            &[("a", 1), ("b", 2)],
            "has one size for `n`, but `a` is 1",
        ),
        ("input x: f32[a, b]\noutput x", &[("a", 1 << 40), ("b", 1 << 40)], "more than 2^63 bytes"),
        (
            "input x: f32[a=2]\noutput x",
            &[("a", 3)],
            "the dim `a` has size 3 given with `--size`, but size 2 fixed",
        ),
        ("input x: f32[a=2]\noutput x", &[("q", 3)], "program `p` has no dim `q`"),
    ] {
        let found = sizes(body, given).expect_err(body);
        assert!(found.contains(expected), "{body}: {found}");
    }
    assert!(sizes("input x: f32[a]\ny = max(x, a)\noutput y", &[("a", 0)]).is_ok());
}

#[test]
fn what_no_output_needs_has_no_size() {
    let program: Program =
        "program p {\ninput x: f32[a]\ninput z: f32[q]\noutput x\n}".parse().expect("sound");
    let sizes = Sizes::bind(&program, [("a", 2)]).expect("q is not needed");
    assert_eq!(sizes.get(program.dim("q").expect("it is named")), None);
}
