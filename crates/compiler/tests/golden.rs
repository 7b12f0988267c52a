//! Forms against the files of `tests/golden`. `BLESS=1 cargo test` writes them anew; the diff is
//! reviewed.

use shardweave_compiler::local::parse_local;
use shardweave_compiler::schedule;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Collects the files that are not as expected, so that all are told.
#[derive(Default)]
struct Golden {
    different: Vec<String>,
}

impl Golden {
    fn check(&mut self, name: &str, text: &str) {
        let path = folder("golden").join(name);
        if std::env::var_os("BLESS").is_some() {
            let folder = path.parent().expect("a golden file is in a folder");
            std::fs::create_dir_all(folder).expect("the folder of golden files can be made");
            std::fs::write(&path, text).expect("a golden file can be written");
            return;
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if let Some((line, (old, new))) = first_difference(&expected, text) {
            self.different.push(format!("{name}:{line}\n  - {old}\n  + {new}"));
        }
    }

    fn finish(self) {
        let told = self.different.join("\n");
        assert!(self.different.is_empty(), "{told}\nwrite the files anew with BLESS=1, and review the diff");
    }
}

fn first_difference<'a>(old: &'a str, new: &'a str) -> Option<(usize, (&'a str, &'a str))> {
    let (mut olds, mut news) = (old.lines(), new.lines());
    for line in 1.. {
        match (olds.next(), news.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return Some((line, (a.unwrap_or("(the end)"), b.unwrap_or("(the end)")))),
        }
    }
    None
}

#[test]
fn local_programs_are_scheduled_as_before() {
    let mut golden = Golden::default();
    for name in ["mlp", "pipelined", "kinds"] {
        let text = std::fs::read_to_string(folder("forms").join(format!("{name}.local"))).expect("a form");
        let local = parse_local(&text).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"));
        let host = schedule::run(&local).expect("the program is small");
        golden.check(&format!("schedule/{name}.host"), &host.to_string());
    }
    golden.finish();
}
