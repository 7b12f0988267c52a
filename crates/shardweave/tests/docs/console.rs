//! Commands as a reader would type them, in a folder of their own.

use std::io::{Read, pipe};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A folder with the files of a document, and the status of the last command.
pub struct Console {
    folder: TempDir,
    root: std::path::PathBuf,
    status: i32,
}

impl Console {
    /// The folder has `examples/`, as the project has.
    pub fn new(root: &Path) -> Console {
        let folder = tempfile::tempdir().expect("tests can write to the folder for temporary files");
        let examples = folder.path().join("examples");
        std::fs::create_dir(&examples).expect("a new folder");
        for entry in std::fs::read_dir(root.join("examples")).expect("the project has examples") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), examples.join(entry.file_name())).expect("tests can write");
        }
        Console { folder, root: root.into(), status: 0 }
    }

    pub fn save(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("tests can write");
    }

    /// A session: each command with what it really prints.
    pub fn session(&mut self, body: &str) -> Result<String, String> {
        let mut said = String::new();
        let mut lines = body.lines();
        while let Some(line) = lines.next() {
            let Some(first) = line.strip_prefix("$ ") else { continue };
            said.push_str(&format!("{line}\n"));
            let mut command = first.to_string();
            while let Some(begun) = command.strip_suffix('\\') {
                let next = lines.next().ok_or("the last line of a command ends in `\\`")?;
                said.push_str(&format!("{next}\n"));
                command = begun.to_string() + next;
            }
            said.push_str(&self.run(&command)?);
        }
        Ok(said)
    }

    fn run(&mut self, command: &str) -> Result<String, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match &words[..] {
            ["echo", "$?"] => Ok(format!("{}\n", self.status)),
            ["shardweave", args @ ..] => {
                let (mut reader, writer) = pipe().map_err(|error| error.to_string())?;
                let mut command = Command::new(env!("CARGO_BIN_EXE_shardweave"));
                command.args(args).current_dir(self.folder.path());
                command.stdout(writer.try_clone().map_err(|error| error.to_string())?).stderr(writer);
                let mut child = command.spawn().map_err(|error| error.to_string())?;
                drop(command); // it has the writing ends
                let mut said = String::new();
                reader.read_to_string(&mut said).map_err(|error| error.to_string())?;
                let status = child.wait().map_err(|error| error.to_string())?;
                self.status = status.code().ok_or("the command was killed")?;
                Ok(said.lines().map(|line| format!("{}\n", line.trim_end())).collect())
            }
            _ => Err(format!("`{command}` is no command that documents may have")),
        }
    }

    /// Commands with which one starts: of cargo, and without output.
    pub fn all_succeed(&mut self, body: &str) -> Result<(), String> {
        for line in body.lines().filter(|line| !line.is_empty()) {
            let line = line.split(" #").next().unwrap_or(line).trim_end();
            if let Some(args) = line.strip_prefix("cargo run --release -- ") {
                let said = self.run(&format!("shardweave {args}"))?;
                if self.status != 0 {
                    return Err(format!("`{line}` ends with {}\n{said}", self.status));
                }
            } else if let Some(task) = line.strip_prefix("cargo xtask ") {
                let tasks = std::fs::read_to_string(self.root.join("xtask/src/main.rs")).expect("the tasks");
                if !tasks.contains(&format!("\"{task}\" =>")) {
                    return Err(format!("there is no task `{task}`"));
                }
            } else if let Some(path) = line.strip_prefix("cargo install --path ") {
                if !self.root.join(path).join("Cargo.toml").is_file() {
                    return Err(format!("there is no package in `{path}`"));
                }
            } else {
                return Err(format!("`{line}` is no command that documents may have"));
            }
        }
        Ok(())
    }
}

/// A text without what differs from run to run: numbers before `ms` and `%`, numbers like `1.5e-7`, and how wide
/// the columns are that hold them.
pub fn comparable(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let is_digit = |c: char| c.is_ascii_digit();
        let number = leading(&rest[start..], |c| is_digit(c) || c == '.');
        let behind = &rest[start + number.len()..];
        let exponent = behind.strip_prefix('e').map(|power| power.strip_prefix('-').unwrap_or(power));
        plain.push_str(&rest[..start]);
        let (kept, after) = match exponent.filter(|power| power.starts_with(is_digit)) {
            Some(power) => ("#", &power[leading(power, is_digit).len()..]),
            None if behind.starts_with(" ms") || behind.starts_with('%') => ("#", behind),
            None => (number, behind),
        };
        plain.push_str(kept);
        rest = after;
    }
    plain.push_str(rest);
    let mut last = ' ';
    plain.retain(|c| {
        let repeats = c == last && matches!(c, ' ' | '─');
        last = c;
        !repeats
    });
    plain
}

/// The longest beginning of which every character is accepted.
fn leading(text: &str, accept: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !accept(c)).unwrap_or(text.len())]
}

#[test]
fn only_times_errors_and_widths_are_left_out() {
    assert_eq!(
        comparable("in 1.234 ms  30%,  3 bytes, 1.5e-7, 0.000e0, eps=1e-5"),
        "in # ms #%, 3 bytes, #, #, eps=#"
    );
    assert_eq!(comparable("4 B, 2.0 us, 5 elements"), "4 B, 2.0 us, 5 elements");
}
