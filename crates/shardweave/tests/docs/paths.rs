//! What the documents point at is there.

use crate::root;
use std::collections::BTreeSet;
use std::path::Path;

const DOCUMENTS: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/language.md",
    "docs/tour.md",
    "docs/collectives.md",
    "docs/extending.md",
];

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Whether a piece of code is a path in the project. In ARCHITECTURE it may start at a crate's
/// sources, in whose terms that page speaks.
fn is_there(code: &str) -> bool {
    ["", "crates/compiler/src", "crates/runtime/src", "crates/mpi/src"]
        .iter()
        .any(|from| root().join(from).join(code).exists())
}

#[test]
fn every_path_in_a_document_exists() {
    for name in DOCUMENTS {
        let text = read(name);
        // The odd pieces between backquotes are code.
        for code in text
            .lines()
            .filter(|line| !line.starts_with("```"))
            .flat_map(|line| line.split('`').skip(1).step_by(2))
        {
            let folders = ["crates/", "docs/", "examples/", "xtask/"];
            let is_path = folders.iter().any(|folder| code.starts_with(folder)) || code.ends_with(".rs");
            if is_path && !code.contains([' ', '*']) {
                assert!(is_there(code), "{name} names `{code}`, which is not there");
            }
        }
    }
}

/// Between backquotes, three or more words joined by `_` are the name of a test.
#[test]
fn every_test_that_keeps_an_invariant_exists() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let text: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect();
    let architecture = read("ARCHITECTURE.md");
    let of_a_test = |code: &&str| {
        code.matches('_').count() >= 2 && code.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
    };
    let named: Vec<&str> = architecture.split('`').skip(1).step_by(2).filter(of_a_test).collect();
    assert!(named.len() > 10, "{named:?}");
    for test in named {
        assert!(
            text.contains(&format!("#[test]\nfn {test}()")) || text.contains(&format!("    fn {test}()")),
            "there is no test `{test}`"
        );
    }
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    for name in DOCUMENTS {
        let text = read(name);
        let folder = Path::new(name).parent().expect("a file has a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { name.into() } else { folder.join(file).display().to_string() };
            let linked = read(&target);
            assert!(anchor.is_empty() || anchors(&linked).contains(anchor), "{name} links to {link}");
        }
    }
}

/// The anchors of a document's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The walk through adding an operation names the files that another operation of its kind is in.
#[test]
fn the_files_of_an_elementwise_operation_are_named() {
    let text = read("docs/extending.md");
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a source file");
        let name = file.strip_prefix(root()).expect("a file of the project").display().to_string();
        if name.contains("/src/") && (source.contains("Map::Silu") || source.contains("    Silu,")) {
            assert!(text.contains(&format!("`{name}`")), "docs/extending.md does not name {name}");
        }
    }
}

/// All Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.extension() {
            _ if path.is_dir() => sources(&path, found),
            Some(extension) if extension == "rs" => found.push(path),
            _ => {}
        }
    }
}
