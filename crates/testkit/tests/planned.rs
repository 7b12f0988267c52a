//! Plans of random placements: every one is verified in both forms (by `compile`, which panics where
//! one is broken), and prints and reads back.

use shardweave_compiler::compile::{CompileOptions, compile};
use shardweave_compiler::file::parse_file;
use shardweave_compiler::host::parse_host;
use shardweave_compiler::local::parse_local;
use shardweave_compiler::program::{Program, Sizes};
use shardweave_compiler::schedule::peak_bytes;
use shardweave_testkit::fuzz::Random;

/// A program with operations of every kind.
const PROGRAM: &str = r#"
mesh line { tp = 3 }
mesh grid { dp = 2, tp = 2 }
mesh cube { a = 2, b = 1, c = 2 }
mesh late { tp = 2 } devices [5, 3]

program kinds {
  input x: f32[b, s, e]
  input w: f32[h, e]
  input c: f32[h]
  input g: f32[e]
  input ids: i64[b, s]
  input q: bf16[s, e]
  input r: bf16[h, e]
  input rb: bf16[h]
  y = linear(x, w, c)
  z = gelu(y)
  back = einsum("b s h, h e -> b s e", z, w)
  total = add(x, back)
  low = linear(q, r, rb)
  low2 = cast(low, f32)
  mix = mul(low2, 0.5)
  mean1 = mean(total, s)
  max1 = max(z, h)
  arg = argmax(y, s)
  norm = layer_norm(total, g, e)
  soft = softmax(y, h)
  heads = rearrange(y, "b s (n k) -> b n s k", n=3)
  merged = rearrange(heads, "b n s k -> b s m=(n k)")
  part = slice(total, s -> t, 1, 5)
  wide = pad(part, t -> u, 2, 1)
  both = concat(all, part, total)
  looked = embedding(ids, w)
  flags = less(x, 0.0)
  kept = where(flags, x, total)
  again = reshard(kept)
  index = iota(s)
  turned = rename(mix, s -> v)
  output norm
  output soft
  output merged
  output both
  output wide
  output looked
  output again
  output max1
  output mean1
  output arg
  output turned
  output index
}
"#;

/// Once in so many times.
fn chance(random: &mut Random, of: usize) -> bool {
    random.below(of) == 0
}

const MESHES: [(&str, &[&str]); 4] =
    [("line", &["tp"]), ("grid", &["dp", "tp"]), ("cube", &["a", "b", "c"]), ("late", &["tp"])];

/// A layout as text: each axis cuts a dim, is partial or free; dims may stream.
fn layout(random: &mut Random, dims: &[&str], home: usize) -> String {
    let mesh = if chance(random, 6) { random.below(MESHES.len()) } else { home };
    let mut cuts: Vec<String> = vec![String::new(); dims.len()];
    let mut partial = Vec::new();
    if let (false, true) = (dims.is_empty(), chance(random, 3)) {
        let dim = random.below(dims.len());
        let counts = ["stream(2)", "stream(3)", "stream", "local(2)"];
        cuts[dim].push_str(&format!("/{}", counts[random.below(counts.len())]));
    }
    for axis in MESHES[mesh].1 {
        match random.below(dims.len() + 2) {
            dim if dim < dims.len() => cuts[dim].push_str(&format!("/{axis}")),
            dim if dim == dims.len() && chance(random, 3) => partial.push(*axis),
            _ => {}
        }
    }
    let mut parts: Vec<String> = dims
        .iter()
        .zip(&cuts)
        .filter(|(_, cuts)| !cuts.is_empty())
        .map(|(dim, cuts)| format!("{dim}{cuts}"))
        .collect();
    if !partial.is_empty() {
        parts.push(format!("partial({})", partial.join(", ")));
    }
    if parts.is_empty() {
        parts.push("replicated".into());
    }
    format!("{} on {}", parts.join(", "), MESHES[mesh].0)
}

fn placement(random: &mut Random, program: &Program) -> String {
    let home = random.below(MESHES.len());
    let mut text = format!("placement p for kinds on {} {{\n", MESHES[home].0);
    for (id, value) in program.values().iter() {
        if chance(random, 3) {
            text.push_str(&format!("  {}: {}\n", value.name, layout(random, &program.dim_names(id), home)));
        }
    }
    text + "}\n"
}

#[test]
fn random_placements_give_verified_programs_that_read_back() {
    let (alone, mistakes) = parse_file(PROGRAM, &[]);
    assert!(mistakes.is_empty(), "{mistakes}");
    for seed in 1..=PLANS {
        let mut random = Random::new(seed);
        let placement = placement(&mut random, &alone.programs()[0]);
        let text = format!("{PROGRAM}\n{placement}");
        let (file, mistakes) = parse_file(&text, &[]);
        assert!(mistakes.is_empty(), "seed {seed}: {mistakes}\n{placement}");
        let program = &file.programs()[0];
        let sizes = [("b", 2), ("s", 5 + seed % 3), ("e", 4), ("h", 6)];
        let sizes = Sizes::bind(program, sizes).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let plan = match compile(program, Some(&file.placements()[0]), &sizes, &CompileOptions::default()) {
            Ok(plan) => plan,
            Err(mistakes) => panic!("seed {seed}: {mistakes}\n{placement}"),
        };
        let (local, host) = (plan.local.to_string(), plan.host.to_string());
        assert_eq!(parse_local(&local).as_ref(), Ok(&plan.local), "seed {seed}");
        assert_eq!(parse_host(&host).as_ref(), Ok(&*plan.host), "seed {seed}");
        assert!(peak_bytes(&plan.host) <= plan.host.arena, "seed {seed}");
    }
}

/// How many placements are drawn.
const PLANS: u64 = 40;
