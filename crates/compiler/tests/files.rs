//! Whole files: what prints reads back the same, order does not matter, axes can be resized.

use shardweave_compiler::file::{AxisSize, WeaveFile, parse_bytes, parse_file};
use std::fs;
use std::path::Path;

fn sound(text: &str) -> WeaveFile {
    let (file, found) = parse_file(text, &[]);
    assert!(found.is_empty(), "{found}");
    file
}

/// The texts of the examples and of the files in `tests/sound`, with their names.
fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    for folder in ["../../examples", "tests/sound"] {
        let folder = root.join(folder);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("the folder can be read").path();
            if path.extension().is_some_and(|extension| extension == "weave") {
                let text = fs::read_to_string(&path).expect("the file can be read");
                texts.push((path.display().to_string(), text));
            }
        }
    }
    texts.sort();
    assert!(texts.len() >= 5, "the examples are there");
    texts
}

#[test]
fn files_print_and_read_back_the_same() {
    for (name, text) in texts() {
        let (file, found) = parse_file(&text, &[]);
        assert!(found.is_empty(), "{name}: {found}");
        let printed = file.to_string();
        let again = sound(&printed);
        assert_eq!(again, file, "{name}");
        assert_eq!(again.to_string(), printed, "{name}");
    }
}

#[test]
fn placements_may_stand_before_what_they_name() {
    let program = "program p {\n  input x: f32[a]\n  output x\n}\n";
    let mesh = "mesh m { i = 2 }\n";
    let placement = "placement q for p on m {\n  x: a/i on n\n}\n";
    let other = "mesh n { i = 3 }\n";
    let forward = sound(&format!("{mesh}{other}{program}{placement}"));
    assert_eq!(sound(&format!("{placement}{program}{mesh}{other}")), forward);
    assert_eq!(forward.placements()[0].entries()[0].layout.mesh().device_count(), 3);
}

#[test]
fn an_axis_takes_the_size_of_the_command_line() {
    let text = "mesh a.b { c = 2, d.e = 2 }\nmesh l { c = 2 } devices [1, 0]\n\
                program p {\n  input x: f32[s]\n  output x\n}\nplacement q for p on a.b {\n  x: s/c(1, 2, 3)\n}\n";
    let resize = |path: &str, size| parse_file(text, &[AxisSize { path: path.into(), size }]);
    let (file, found) = resize("a.b.c", 3);
    assert!(found.is_empty(), "{found}");
    assert_eq!(file.placements()[0].mesh().device_count(), 6);
    for (path, size, expected) in [
        (
            "z.c",
            2,
            "error[E0203]: `--mesh z.c=2`: no mesh has this name\n  help: meshes of the file: `a.b`, `l`",
        ),
        ("a.b.z", 2, "error[E0204]: `--mesh a.b.z=2`: mesh `a.b` has no such axis"),
        ("a.b.d.e", 0, "error[E0201]: `--mesh a.b.d.e=0`: axis `d.e` has size 0"),
        ("l.c", 2, "error[E0202]: `--mesh l.c=2`: mesh `l` lists its devices, so its axes stay as they are"),
    ] {
        let found = resize(path, size).1.to_string();
        assert!(found.contains(expected), "{path}: {found}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_told_with_their_place() {
    let (_, found) = parse_bytes(b"mesh m { a = 2 }\n# \xff", &[]);
    assert_eq!(
        found.to_string(),
        "error[E0102]: the file is not UTF-8: byte 0xff at position 19, line 2\n  help: save the file as UTF-8"
    );
    assert!(parse_bytes("\u{feff}mesh m { a = 2 } # caf\u{e9}\r\n".as_bytes(), &[]).1.is_empty());
}

#[test]
fn values_that_no_output_needs_are_warned_about() {
    let text = "program p {\n  input x: f32[a]\n  input z: f32[q]\n  y = neg(z)\n  output x\n}\n";
    let (file, found) = parse_file(text, &[]);
    assert_eq!(file.programs().len(), 1);
    let told: Vec<&str> = found.warnings().iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        told,
        ["no output needs `z`, so it is not computed", "no output needs `y`, so it is not computed"]
    );
}
