//! Whatever the bytes: a clear answer, quickly, never a panic. The texts come from a fixed seed.

use shardweave_compiler::file::{WeaveFile, parse_bytes, parse_file};
use shardweave_compiler::placement::verify_sizes;
use shardweave_compiler::program::Sizes;
use shardweave_testkit::fuzz::{Random, mutated};
use shardweave_testkit::sources::weave_files;
use std::time::{Duration, Instant};

/// Reads bytes as a file and goes on as far as that leads: messages stay short, what is sound prints and
/// reads back the same, and can be given sizes.
fn digest(bytes: &[u8], random: &mut Random) {
    let (file, found) = parse_bytes(bytes, &[]);
    for diagnostic in found.errors().iter().chain(found.warnings()) {
        let length = diagnostic.message.len() + diagnostic.help.as_ref().map_or(0, String::len);
        assert!(length < 2000, "a message of {length} bytes: {}", &diagnostic.message[..200]);
    }
    if !found.is_empty() {
        return;
    }
    let (again, found) = parse_file(&file.to_string(), &[]);
    assert!(found.is_empty(), "{found}\nin\n{file}");
    assert_eq!(again, file);
    bind(&file, random);
}

fn bind(file: &WeaveFile, random: &mut Random) {
    for program in file.programs() {
        let sizes = program.dims().values().filter(|dim| dim.fixed.is_none());
        let sizes: Vec<(&str, u64)> = sizes
            .map(|dim| (dim.name.as_str(), [0, 1, 2, 3, 4, 6, 8, 12, u64::MAX][random.below(9)]))
            .collect();
        if let Ok(sizes) = Sizes::bind(program, sizes) {
            for placement in
                file.placements().iter().filter(|placement| placement.program() == program.name())
            {
                verify_sizes(program, placement, &sizes);
            }
        }
    }
}

#[test]
fn random_bytes() {
    let mut random = Random::new(0x5eed);
    for _ in 0..2000 {
        let length = random.below(200);
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        digest(&bytes, &mut random);
    }
}

#[test]
fn random_tokens() {
    const TOKENS: &str = "mesh program placement input output for on via strict stream local partial replicated auto \
        x y w m n a b tp dp f32 i64 bool linear add sum softmax concat rearrange einsum slice where full iota inf nan \
        ( ) [ ] { } , : = / -> <- - 0 1 4 -3 1.5 1e9 99999999999999999999 \"a b -> b a\" \"(a b) -> a b\" \" %3 # . $ \n";
    let tokens: Vec<&str> = TOKENS.split(' ').filter(|token| !token.is_empty()).collect();
    let mut random = Random::new(0x70c5);
    for _ in 0..2000 {
        let mut text = String::from("mesh m { tp = 2 }\nprogram p {\ninput x: f32[a, b]\ny = ");
        for _ in 0..random.below(60) {
            text += tokens[random.below(tokens.len())];
            text += [" ", " ", "\n"][random.below(3)];
        }
        let start = if random.below(2) == 0 { 0 } else { 46 };
        digest(&text.as_bytes()[start..], &mut random);
    }
}

/// Edits of sound and of faulty files.
#[test]
fn mangled_files() {
    let files: Vec<Vec<u8>> = weave_files().into_iter().map(|(_, bytes)| bytes).collect();
    let mut random = Random::new(0xbad);
    for round in 0..4000 {
        let other = &files[random.below(files.len())];
        let bytes = mutated(&mut random, &files[round % files.len()], other);
        digest(&bytes, &mut random);
    }
}

/// Large and deep texts, each made of a beginning, a part that is repeated, and an end. Each takes less
/// than a second on an idle machine; work that grows with the square of the text would take minutes.
#[test]
fn large_texts_are_answered_quickly() {
    let long = "n".repeat(1_000_000);
    let digits = "9".repeat(1_000_000);
    let program = |body: &str| format!("program p {{\ninput x: f32[a, b]\n{body}\noutput x\n}}\n");
    let repeat = |piece: &str, count: usize| piece.repeat(count);
    let numbered = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let texts = [
        long.clone(),
        program(&format!("y = {long}(x)")),
        program(&format!("y = sum(x, {long})")),
        program(&format!("y = add(x, {digits})")),
        program(&format!("y = add(x, {digits}.5)")),
        program(&format!("y = cast(x, {long})")),
        program(&format!("y = rearrange(x, \"{long} b -> b\")")),
        program(&format!("y = neg(x) -> [{long}]")),
        format!("mesh {long} {{ {long} = 0, {long} = 2 }}\n"),
        format!("mesh m {{ tp = {digits} }}\n"),
        format!("mesh m {{ {} }}\n", numbered(30_000, &|i| format!("a{i} = 1, "))),
        repeat("(", 1_000_000),
        program(&format!("y = neg({}", repeat("(", 1_000_000))),
        program(&repeat("y = neg(\n", 100_000)),
        program(&format!("y = rearrange(x, \"{}\")", repeat("(", 1_000_000))),
        program(&format!("y = rearrange(x, \"({}) b -> b\")", numbered(100_000, &|i| format!("a{i} ")))),
        program(&format!("y = concat(t{})", repeat(", x", 100_000))),
        program(&format!("input z: f32[{}]", numbered(100_000, &|i| format!("d{i}, ")))),
        program(&numbered(20_000, &|i| format!("y{} = rename(y{i}, a -> a)\n", i + 1)).replace("y0", "x")),
        program(&numbered(50_000, &|i| format!("y{i} = lineer(x)\n"))),
        repeat("}\n", 500_000),
        repeat("mesh m { a = 2 }\n", 50_000),
        repeat("placement q for p on m {\nx: a/b\n}\n", 50_000),
        repeat("\u{e9}", 500_000),
        repeat("\"", 1_000_001),
        repeat("program p {\n", 100_000),
        format!(
            "mesh m {{ tp = 2 }}\n{}placement q for p on m {{\nx: a{}\n}}\n",
            program(""),
            repeat("/local(2)", 100_000)
        ),
    ];
    for (i, text) in texts.iter().enumerate() {
        let started = Instant::now();
        digest(text.as_bytes(), &mut Random::new(1));
        let took = started.elapsed();
        assert!(took < Duration::from_secs(60), "text {i} took {took:?}");
    }
}
