//! What ARCHITECTURE.md says of the whole tree and no type keeps: who uses whom, and where `unsafe`
//! stands.

use crate::root;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// All Rust files below a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry of a folder").path();
        match path.is_dir() {
            true => files.extend(rust_files(&path)),
            false if path.extension().is_some_and(|end| end == "rs") => files.push(path),
            false => {}
        }
    }
    files.sort();
    files
}

/// A file's code as far as it is not a test: comments are left out.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let code = text.split("#[cfg(test)]").next().unwrap_or("");
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The modules that a crate's `lib.rs` lists, in its order.
fn modules(sources: &Path) -> Vec<String> {
    let lines = code(&sources.join("lib.rs"));
    let declared = lines.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        line.strip_prefix("mod ")?.strip_suffix(';').map(str::to_string)
    });
    declared.collect()
}

/// The names that directly follow `crate::` in code.
fn used(code: &str) -> BTreeSet<&str> {
    let names = code.split("crate::").skip(1);
    names.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("")).collect()
}

/// Checks that every module of a crate uses only modules that stand above it.
fn assert_in_order(sources: &Path) {
    let modules = modules(sources);
    assert!(modules.len() > 5, "{} lists its modules", sources.display());
    for (place, module) in modules.iter().enumerate() {
        let folder = sources.join(module);
        let mut files = if folder.is_dir() { rust_files(&folder) } else { Vec::new() };
        files.extend(Some(sources.join(format!("{module}.rs"))).filter(|file| file.exists()));
        assert!(!files.is_empty(), "module {module} has a file");
        for file in files {
            let code = code(&file);
            for name in used(&code) {
                let at = modules.iter().position(|module| module == name);
                assert!(
                    at.is_none_or(|at| at <= place),
                    "{} uses `{name}`, which stands below `{module}`",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn modules_use_only_those_above_them() {
    for name in ["compiler", "runtime", "mpi"] {
        assert_in_order(&root().join("crates").join(name).join("src"));
    }
}

#[test]
fn unsafe_code_stands_where_the_architecture_says() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut lines = page.lines().skip_while(|line| !line.contains("`unsafe` stands in named files only"));
    let said: BTreeSet<&str> = lines
        .next()
        .into_iter()
        .chain(lines.take_while(|line| line.starts_with(' ')))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|name| name.ends_with(".rs"))
        .collect();
    let of_crate = |name: &str| {
        let sources = root().join("crates").join(name).join("src");
        let files = rust_files(&sources).into_iter().filter(|file| code(file).contains("expect(unsafe_code"));
        let inside =
            |file: PathBuf| file.strip_prefix(&sources).expect("a file of the folder").display().to_string();
        files.map(inside).collect::<Vec<_>>()
    };
    let found: BTreeSet<String> = ["runtime", "mpi"].into_iter().flat_map(of_crate).collect();
    assert_eq!(said, found.iter().map(String::as_str).collect());
}
