//! A document as text and blocks. What is read is written back the same.

use std::path::{Path, PathBuf};

/// A document.
pub struct Document {
    path: PathBuf,
    pub parts: Vec<Part>,
}

/// A part of a document.
pub enum Part {
    /// Lines between blocks, with their ends.
    Text(String),
    Block(Block),
}

/// Lines between fences, or between `<!-- table: NAME -->` and `<!-- end -->`.
pub struct Block {
    /// The line of its opening fence, from 1.
    pub line: usize,
    /// What stands behind the opening fence.
    pub info: String,
    /// The lines, with their ends.
    pub body: String,
    fences: (String, &'static str),
}

impl Document {
    pub fn read(path: &Path) -> Document {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut parts = Vec::new();
        let mut lines = text.split_inclusive('\n').enumerate();
        let mut between = String::new();
        while let Some((number, line)) = lines.next() {
            let Some((info, close)) = opening(line) else {
                between.push_str(line);
                continue;
            };
            parts.push(Part::Text(std::mem::take(&mut between)));
            let body = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim_end() != close);
            let body = body.collect();
            parts.push(Part::Block(Block { line: number + 1, info, body, fences: (line.into(), close) }));
        }
        parts.push(Part::Text(between));
        Document { path: path.into(), parts }
    }

    pub fn text(&self) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Block(block) => format!("{}{}{}\n", block.fences.0, block.body, block.fences.1),
        };
        self.parts.iter().map(part).collect()
    }

    pub fn write(&self) {
        std::fs::write(&self.path, self.text()).expect("documents can be written");
    }
}

/// What stands behind an opening fence, and what closes it.
fn opening(line: &str) -> Option<(String, &'static str)> {
    let line = line.trim_end();
    if let Some(info) = line.strip_prefix("```") {
        return Some((info.into(), "```"));
    }
    let table = line.strip_prefix("<!-- table:")?.strip_suffix("-->")?;
    Some((format!("table: {}", table.trim()), "<!-- end -->"))
}

#[test]
fn documents_are_written_as_they_were_read() {
    for name in ["README.md", "docs/language.md", "docs/tour.md"] {
        let path = crate::root().join(name);
        assert_eq!(Document::read(&path).text(), std::fs::read_to_string(path).expect("a document"));
    }
}
