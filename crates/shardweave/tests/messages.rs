//! What the command line tells, as it was reviewed. `tests/messages/NAME.weave` is a file, whose first
//! comments are commands on it (`# $ run p.weave --random 1`); `NAME.txt` beside it is what they print. To
//! write the texts anew: `BLESS=1 cargo test --test messages`, then look at the diff.
//!
//! Beside `p.weave` lie `x.npy` (f32, sizes 4 and 2), `ids.npy` (i64: 0, 7, 1) and `w.safetensors` (tensors
//! `w` and `v`, f32, sizes 4 and 2).

mod support;

use std::fs;
use std::path::Path;
use support::Bench;

#[test]
fn what_is_told_is_as_it_was_reviewed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages");
    let bless = std::env::var_os("BLESS").is_some();
    let mut different = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder of messages is there") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_none_or(|extension| extension != "weave") {
            continue;
        }
        let now = told(&fs::read_to_string(&path).expect("the file can be read"));
        let expected = path.with_extension("txt");
        if bless {
            fs::write(&expected, &now).expect("the text can be written");
        } else if fs::read_to_string(&expected).unwrap_or_default() != now {
            different.push(format!("{}:\n{now}", path.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Each command with its status and all that it prints on either stream.
fn told(text: &str) -> String {
    let bench = Bench::with(text);
    bench.npy("x.npy", &[4, 2], &[1.0; 8]);
    bench.npy_of("ids.npy", &[3], &[0_i64, 7, 1], npyz::Order::C);
    bench.safetensors("w.safetensors", &[("w", &[4, 2], &[1.0; 8]), ("v", &[4, 2], &[1.0; 8])]);
    let commands = text.lines().map_while(|line| line.strip_prefix("# $ "));
    let told = commands.map(|words| {
        let ended = bench.run(words);
        format!("$ {words}\n{}{}status {}\n", ended.stdout, ended.stderr, ended.status)
    });
    told.collect::<Vec<_>>().join("\n")
}
