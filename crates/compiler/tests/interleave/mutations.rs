//! What can be wrong with a host program, as edits of its text: each is applied at every place.
//!
//! What the verifier proves is that a program is safe: nothing races, nothing is read before it is
//! written, nobody waits for ever. A mutation that only drops, repeats or moves instructions, or puts
//! buffers elsewhere, must then leave the outputs as they were ([`Meaning::Same`]). One that makes an
//! instruction work on something else can be a safe program of another meaning.

/// Whether a mutant that is accepted has the outputs of the program it was made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    Same,
    Other,
}

/// One kind of mutation.
pub struct Mutation {
    pub name: &'static str,
    pub meaning: Meaning,
    /// All programs that it makes of one.
    pub mutants: fn(&str) -> Vec<String>,
}

const fn same(name: &'static str, mutants: fn(&str) -> Vec<String>) -> Mutation {
    Mutation { name, meaning: Meaning::Same, mutants }
}

const fn other(name: &'static str, mutants: fn(&str) -> Vec<String>) -> Mutation {
    Mutation { name, meaning: Meaning::Other, mutants }
}

/// All of them.
pub const MUTATIONS: &[Mutation] = &[
    same("drop an alloc", |text| drop_lines(text, ": alloc ")),
    same("drop a free", |text| drop_lines(text, ": free ")),
    same("drop a record", |text| drop_lines(text, ": record ")),
    same("drop a wait", |text| drop_lines(text, ": wait ")),
    same("drop a move or a computation", |text| drop_lines(text, " <- ")),
    same("repeat an alloc or a free", |text| repeat_lines(text, &[": alloc ", ": free "])),
    same("free earlier", |text| move_lines(text, ": free ", Way::Up)),
    same("alloc later", |text| move_lines(text, ": alloc ", Way::Down)),
    same("wait later", |text| move_lines(text, ": wait ", Way::Down)),
    same("record earlier", |text| move_lines(text, ": record ", Way::Up)),
    same("a move or a computation earlier", |text| move_lines(text, " <- ", Way::Up)),
    same("a move or a computation later", |text| move_lines(text, " <- ", Way::Down)),
    same("an action on another stream", |text| replace_words(text, &[":"], is_stream, &STREAMS)),
    same("a wait that looks back further or less", |text| {
        replace_after(text, " back ", &["0", "1", "2", "3"])
    }),
    same("another number of slots", |text| replace_after(text, "slots ", &["0", "1", "2", "3"])),
    same("another event", |text| replace_words(text, &[": record ", ": wait "], is_event, &EVENTS)),
    same("a buffer elsewhere", |text| replace_after(text, "offset ", &OFFSETS)),
    same("a buffer of another length", |text| replace_after(text, "bytes ", &BYTES)),
    same("a smaller arena", |text| replace_after(text, "arena ", &BYTES)),
    same("fewer or more devices", |text| replace_after(text, "devices ", &["1", "2", "3", "9"])),
    same("another group", |text| replace_after(text, " group ", &["1", "2", "3", "4", "8"])),
    same("other axes of a move", |text| replace_after(text, " over ", &["tp", "dp", "dp, tp", "cp"])),
    same("a move that says it is a copy", |text| replace_words(text, &[" over "], is_kind, &["copy"])),
    other("another role", |text| replace_words(text, &[", offset "], is_role, &ROLES)),
    other("a loop of another length", |text| {
        replace_after(text, "loop i0 < ", &["0", "1", "2", "3", "5", "7"])
    }),
    other("another buffer", |text| {
        replace_words(text, &[" <- ", ": alloc ", ": free "], is_buffer, &BUFFERS)
    }),
    other("another input or output", |text| replace_words(text, &["input ", "output "], is_buffer, &BUFFERS)),
    other("another layout of a buffer", |text| layouts(text, " at ", ", ")),
    other("another layout of a computation", |text| layouts(text, ") over ", " on ")),
    other("another element type", |text| replace_after(text, ": f32", &["f64", "f16", "i32"])),
];

const STREAMS: [&str; 3] = ["s0", "s1", "s2"];
const EVENTS: [&str; 3] = ["e0", "e1", "e2"];
const OFFSETS: [&str; 9] = ["0", "32", "64", "128", "192", "256", "320", "384", "512"];
const BYTES: [&str; 5] = ["0", "63", "64", "128", "256"];
const ROLES: [&str; 4] = ["argument", "temporary", "result", "state"];
const BUFFERS: [&str; 8] = ["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"];

fn is_numbered(word: &str, letter: char) -> bool {
    let number = word.strip_prefix(letter);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_stream(word: &str) -> bool {
    is_numbered(word, 's')
}

fn is_event(word: &str) -> bool {
    is_numbered(word, 'e')
}

fn is_buffer(word: &str) -> bool {
    is_numbered(word, 'b')
}

fn is_role(word: &str) -> bool {
    ["argument", "constant", "state", "temporary", "result"].contains(&word)
}

fn is_kind(word: &str) -> bool {
    ["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "permute", "send_recv", "redistribute"]
        .contains(&word)
}

/// The lines, and the numbers of those that have one of the marks.
fn lines<'a>(text: &'a str, marks: &[&str]) -> (Vec<&'a str>, Vec<usize>) {
    let lines: Vec<&str> = text.lines().collect();
    let marked = (0..lines.len()).filter(|&at| marks.iter().any(|mark| lines[at].contains(mark))).collect();
    (lines, marked)
}

fn drop_lines(text: &str, mark: &str) -> Vec<String> {
    let (lines, marked) = lines(text, &[mark]);
    marked.into_iter().map(|at| [&lines[..at], &lines[at + 1..]].concat().join("\n")).collect()
}

fn repeat_lines(text: &str, marks: &[&str]) -> Vec<String> {
    let (lines, marked) = lines(text, marks);
    marked.into_iter().map(|at| [&lines[..=at], &lines[at..]].concat().join("\n")).collect()
}

/// Where a line goes.
#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
}

/// Each line with the mark to every place before or after it among the actions, in and out of loops.
fn move_lines(text: &str, mark: &str, way: Way) -> Vec<String> {
    let (lines, marked) = lines(text, &[mark]);
    let is_action = |line: &str| is_stream(line.trim().split(':').next().unwrap_or_default());
    let first = lines.iter().position(|line| is_action(line)).unwrap_or(0);
    let last = lines.iter().rposition(|line| is_action(line)).unwrap_or(0);
    let mut moved = Vec::new();
    for at in marked {
        let places = match way {
            Way::Up => first..at,
            Way::Down => at + 1..last + 1,
        };
        for place in places {
            let mut lines = lines.clone();
            let line = lines.remove(at);
            lines.insert(place, line);
            moved.push(lines.join("\n"));
        }
    }
    moved
}

/// Each word that `fits`, in each line with one of the marks, as each of the new words.
fn replace_words(text: &str, marks: &[&str], fits: fn(&str) -> bool, new: &[&str]) -> Vec<String> {
    let (lines, marked) = lines(text, marks);
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut replaced = Vec::new();
    for at in marked {
        let line = lines[at];
        let starts = line.char_indices().filter(|&(i, c)| in_word(c) && !line[..i].ends_with(in_word));
        for (start, _) in starts {
            let word = line[start..].split(|c| !in_word(c)).next().unwrap_or_default();
            for new in new.iter().filter(|new| fits(word) && **new != word) {
                let line = format!("{}{new}{}", &line[..start], &line[start + word.len()..]);
                replaced.push(with_line(&lines, at, &line));
            }
        }
    }
    replaced
}

/// What follows a mark, up to the next mark of punctuation, as each of the new texts.
fn replace_after(text: &str, mark: &str, new: &[&str]) -> Vec<String> {
    let (lines, marked) = lines(text, &[mark]);
    let mut replaced = Vec::new();
    for at in marked {
        let (before, after) = lines[at].split_once(mark).expect("the line has the mark");
        let end = after.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(after.len());
        // A mark that ends in a type names what is replaced itself.
        let kept = mark.trim_end_matches("f32");
        for new in new {
            replaced.push(with_line(&lines, at, &format!("{before}{kept}{new}{}", &after[end..])));
        }
    }
    replaced
}

/// The layout after a mark as each of the other layouts of the program.
fn layouts(text: &str, mark: &str, end: &str) -> Vec<String> {
    let (lines, marked) = lines(text, &[mark]);
    let layout = |line: &str| {
        let start = line.find(mark)? + mark.len();
        let length = line[start..].find(" on ")?;
        Some((start, start + length))
    };
    let known =
        lines.iter().filter_map(|line| line.find(" at ").and_then(|at| line[at + 4..].split(" on ").next()));
    let mut known: Vec<&str> = known.chain(["replicated"]).collect();
    known.sort_unstable();
    known.dedup();
    let mut replaced = Vec::new();
    for at in marked.into_iter().filter(|&at| lines[at].contains(end)) {
        let Some((from, to)) = layout(lines[at]) else { continue };
        for new in known.iter().filter(|new| **new != &lines[at][from..to]) {
            replaced.push(with_line(&lines, at, &format!("{}{new}{}", &lines[at][..from], &lines[at][to..])));
        }
    }
    replaced
}

fn with_line(lines: &[&str], at: usize, line: &str) -> String {
    let mut lines = lines.to_vec();
    lines[at] = line;
    lines.join("\n")
}
