//! Every block of README and docs is run, and what it shows is compared with what comes out.
//!
//! | block | what is done with it |
//! |---|---|
//! | `weave` | is parsed and checked; with a file name behind `weave` it is also saved for later commands |
//! | `console` | commands behind `$` are run in one folder per document; their output must be as shown |
//! | `sh` | commands must succeed |
//! | `pieces`, `move` | pictures: the part behind the first empty line is drawn from the part before it |
//! | `<!-- table: NAME -->` | a table that is printed from the compiler's own |
//! | `rust` | compiles and runs as a documentation test (see `src/lib.rs`) |
//! | `text` | is only read; with a file name it is saved: a file with mistakes |
//!
//! `BLESS=1` writes what comes out into the documents. Times in milliseconds and errors of floating
//! point are not compared, and not blessed where nothing else differs.

mod architecture;
mod console;
mod flags;
mod markdown;
mod paths;
mod pictures;
mod tables;

use console::Console;
use markdown::{Block, Document, Part};
use std::path::PathBuf;

/// The root of the project.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a block should say; as it is if nothing is to be compared.
fn expected(block: &Block, console: &mut Console) -> Result<String, String> {
    let mut info = block.info.split_whitespace();
    match (info.next().unwrap_or(""), info.next()) {
        ("weave", file) => {
            let (_, found) = shardweave::parse_file(&block.body, &[]);
            found.finish(()).map_err(|found| found.to_string())?;
            if let Some(file) = file {
                console.save(file, &block.body);
            }
            Ok(block.body.clone())
        }
        ("console", None) => console.session(&block.body),
        ("sh", None) => console.all_succeed(&block.body).map(|()| block.body.clone()),
        ("pieces", None) => pictures::pieces(&block.body),
        ("move", None) => pictures::moves(&block.body),
        ("table:", Some(name)) => tables::table(name),
        ("text", Some(file)) => {
            console.save(file, &block.body);
            Ok(block.body.clone())
        }
        ("rust" | "text", None) => Ok(block.body.clone()),
        _ => Err(format!("there is no kind of block `{}`", block.info)),
    }
}

/// Compares, or blesses, all blocks of a document.
#[track_caller]
fn check(name: &str) {
    let mut document = Document::read(&root().join(name));
    let mut console = Console::new(&root());
    let mut wrong = Vec::new();
    for part in &mut document.parts {
        let Part::Block(block) = part else { continue };
        match expected(block, &mut console) {
            Ok(says) if console::comparable(&says) == console::comparable(&block.body) => {}
            Ok(says) => {
                wrong.push(format!("{name}:{}: says\n{}\nbut should say\n{says}", block.line, block.body));
                block.body = says;
            }
            Err(why) => panic!("{name}:{}: {why}", block.line),
        }
    }
    if std::env::var_os("BLESS").is_some() {
        document.write();
    } else {
        assert!(wrong.is_empty(), "{}\n`cargo xtask bless` accepts what comes out", wrong.join("\n"));
    }
}

#[test]
fn readme() {
    check("README.md");
}

#[test]
fn language() {
    check("docs/language.md");
}

#[test]
fn tour() {
    check("docs/tour.md");
}

#[test]
fn collectives() {
    check("docs/collectives.md");
}

#[test]
fn speed() {
    check("docs/speed.md");
}

#[test]
fn extending() {
    check("docs/extending.md");
}
