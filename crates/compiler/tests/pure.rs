//! The compiler is pure: nothing in it reads or writes, waits, looks at a clock or the environment, or
//! goes over a hash map in an order that nobody chose.

use std::path::Path;

/// What a pure library does not name.
const EFFECTS: [&str; 12] = [
    "std::fs",
    "std::io",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    "std::time",
    "std::sync::Mutex",
    "HashMap",
    "HashSet",
    "println!",
    "thread_local!",
];

#[test]
fn the_compiler_names_no_effect() {
    let mut files = 0;
    visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut |path, text| {
        files += 1;
        for effect in EFFECTS {
            assert!(!text.contains(effect), "{} names `{effect}`", path.display());
        }
    });
    assert!(files > 50, "only {files} files were read");
}

fn visit(folder: &Path, file: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            visit(&path, file);
        } else {
            file(&path, &std::fs::read_to_string(&path).expect("sources are texts"));
        }
    }
}
