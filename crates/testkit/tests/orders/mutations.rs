//! What can be wrong with a host program, as edits of its text, at every place.
//!
//! What the verifier proves is that a program is safe: nothing races, nothing is read before it is
//! written, nobody waits for ever. A mutation that only drops, repeats or moves instructions, or puts
//! buffers elsewhere, must then leave the outputs as they were ([`Meaning::Same`]). One that makes an
//! instruction work on something else can be a safe program of another meaning.

use std::collections::BTreeSet;

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
    /// All edits of the kind that these lines allow.
    pub edits: fn(&[&str]) -> Vec<Edit>,
}

/// One edit of the lines of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
    Drop(usize),
    Repeat(usize),
    /// A line is taken out, and put in before what is then the other one.
    Move(usize, usize),
    Replace(usize, String),
}

impl Edit {
    /// The text after the edit.
    pub fn of(&self, lines: &[&str]) -> String {
        let mut lines = lines.to_vec();
        match self {
            Edit::Drop(at) => drop(lines.remove(*at)),
            Edit::Repeat(at) => lines.insert(*at, lines[*at]),
            Edit::Move(from, to) => {
                let line = lines.remove(*from);
                lines.insert(*to, line);
            }
            Edit::Replace(at, line) => lines[*at] = line,
        }
        lines.join("\n")
    }
}

const fn same(name: &'static str, edits: fn(&[&str]) -> Vec<Edit>) -> Mutation {
    Mutation { name, meaning: Meaning::Same, edits }
}

const fn other(name: &'static str, edits: fn(&[&str]) -> Vec<Edit>) -> Mutation {
    Mutation { name, meaning: Meaning::Other, edits }
}

/// All of them.
pub fn mutations() -> impl Iterator<Item = &'static Mutation> {
    REORDERED.iter().chain(REWRITTEN)
}

/// Those that leave every instruction as it is, but for when it runs.
pub const REORDERED: &[Mutation] = &[
    same("drop an alloc", |lines| drops(lines, ": alloc ")),
    same("drop a free", |lines| drops(lines, ": free ")),
    same("drop a record", |lines| drops(lines, ": record ")),
    same("drop a wait", |lines| drops(lines, ": wait ")),
    same("drop a move or a computation", |lines| drops(lines, " <- ")),
    same("repeat an alloc or a free", |lines| {
        marked(lines, &[": alloc ", ": free "]).map(Edit::Repeat).collect()
    }),
    same("free earlier", |lines| moves(lines, ": free ", Way::Up)),
    same("alloc later", |lines| moves(lines, ": alloc ", Way::Down)),
    same("wait later", |lines| moves(lines, ": wait ", Way::Down)),
    same("record earlier", |lines| moves(lines, ": record ", Way::Up)),
    same("a move or a computation earlier", |lines| moves(lines, " <- ", Way::Up)),
    same("a move or a computation later", |lines| moves(lines, " <- ", Way::Down)),
    same("an action on another stream", |lines| words(lines, &[":"], |word| numbered(word, 's'), &STREAMS)),
    same("another event", |lines| {
        words(lines, &[": record ", ": wait "], |word| numbered(word, 'e'), &EVENTS)
    }),
    same("a wait that looks back further or less", |lines| after(lines, " back ", &["0", "1", "2", "3"])),
];

/// Those that change what stands in a line.
const REWRITTEN: &[Mutation] = &[
    same("a buffer elsewhere", |lines| after(lines, "offset ", &OFFSETS)),
    same("another number of slots", |lines| after(lines, "slots ", &["0", "1", "2", "3"])),
    same("a buffer of another length", |lines| after(lines, "bytes ", &BYTES)),
    same("a smaller arena", |lines| after(lines, "arena ", &BYTES)),
    same("fewer or more devices", |lines| after(lines, "devices ", &["1", "2", "3", "9"])),
    same("another group", |lines| after(lines, " group ", &["1", "2", "3", "4", "8"])),
    same("other axes of a move", |lines| {
        let of_move = |edit: &Edit| matches!(edit, Edit::Replace(at, _) if lines[*at].contains(" group "));
        after(lines, " over ", &["tp", "dp", "dp, tp", "cp"]).into_iter().filter(of_move).collect()
    }),
    same("a move that says it is a copy", |lines| words(lines, &[" over "], is_kind, &["copy"])),
    same("a loan of another buffer, one more or one less", loans),
    other("a move's ends swapped", swapped_ends),
    other("a mesh with other axes or devices", |lines| {
        words(lines, &["  mesh "], |word| word.parse::<u64>().is_ok(), &["1", "2", "3", "4"])
    }),
    other("a view of another buffer", |lines| after(lines, "view of ", &BUFFERS)),
    other("another role", |lines| words(lines, &[", offset "], |word| ROLES.contains(&word), &ROLES)),
    other("a loop of another length", |lines| after(lines, "loop i0 < ", &["0", "1", "2", "3", "5", "7"])),
    other("another buffer", |lines| {
        words(lines, &[" <- ", ": alloc ", ": free "], |word| numbered(word, 'b'), &BUFFERS)
    }),
    other("another input or output", |lines| {
        words(lines, &["input ", "output "], |word| numbered(word, 'b'), &BUFFERS)
    }),
    other("another layout of a buffer", |lines| layouts(lines, " at ", ", ")),
    other("another layout of a computation", |lines| layouts(lines, ") over ", " on ")),
    other("another element type", |lines| types(lines, &["f64", "f16", "i32"])),
];

const STREAMS: [&str; 3] = ["s0", "s1", "s2"];
const EVENTS: [&str; 3] = ["e0", "e1", "e2"];
const OFFSETS: [&str; 9] = ["0", "32", "64", "128", "192", "256", "320", "384", "512"];
const BYTES: [&str; 5] = ["0", "63", "64", "128", "256"];
const ROLES: [&str; 5] = ["argument", "constant", "state", "temporary", "result"];
const BUFFERS: [&str; 8] = ["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"];

/// Whether a word is an id with that letter.
fn numbered(word: &str, letter: char) -> bool {
    let number = word.strip_prefix(letter);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_kind(word: &str) -> bool {
    ["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "permute", "send_recv", "redistribute"]
        .contains(&word)
}

fn is_action(line: &str) -> bool {
    numbered(line.trim().split(':').next().unwrap_or_default(), 's')
}

/// The numbers of the lines that have one of the marks.
fn marked<'a>(lines: &'a [&'a str], marks: &'a [&'a str]) -> impl Iterator<Item = usize> + 'a {
    (0..lines.len()).filter(move |&at| marks.iter().any(|mark| lines[at].contains(mark)))
}

fn drops(lines: &[&str], mark: &str) -> Vec<Edit> {
    marked(lines, &[mark]).map(Edit::Drop).collect()
}

/// Where a line goes.
#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
}

/// Each line with the mark to every place before or after it among the actions, in and out of loops.
fn moves(lines: &[&str], mark: &str, way: Way) -> Vec<Edit> {
    let first = lines.iter().position(|line| is_action(line)).unwrap_or(0);
    let last = lines.iter().rposition(|line| is_action(line)).unwrap_or(0);
    let to = |at| match way {
        Way::Up => first..at,
        Way::Down => at + 1..last + 1,
    };
    marked(lines, &[mark]).flat_map(|at| to(at).map(move |place| Edit::Move(at, place))).collect()
}

/// The words of a line with where they start: names and numbers.
fn words_of(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = line.char_indices().filter(move |&(i, c)| in_word(c) && !line[..i].ends_with(in_word));
    starts.map(move |(start, _)| (start, line[start..].split(|c| !in_word(c)).next().unwrap_or_default()))
}

/// Each word that `fits`, in each line with one of the marks, as each of the new words, and of those that
/// stand elsewhere in such lines.
fn words(lines: &[&str], marks: &[&str], fits: fn(&str) -> bool, new: &[&str]) -> Vec<Edit> {
    let found = marked(lines, marks).flat_map(|at| words_of(lines[at])).map(|(_, word)| word);
    let known: BTreeSet<&str> = found.filter(|word| fits(word)).chain(new.iter().copied()).collect();
    let mut edits = Vec::new();
    for at in marked(lines, marks) {
        let line = lines[at];
        for (start, word) in words_of(line).filter(|(_, word)| fits(word)) {
            for new in known.iter().filter(|new| **new != word) {
                edits.push(Edit::Replace(at, spliced(line, start, word.len(), new)));
            }
        }
    }
    edits
}

fn spliced(line: &str, start: usize, length: usize, new: &str) -> String {
    format!("{}{new}{}", &line[..start], &line[start + length..])
}

/// The word after a mark as each of the new ones, and of those after the mark in other lines.
fn after(lines: &[&str], mark: &str, new: &[&str]) -> Vec<Edit> {
    let place = |at: usize| {
        let start = lines[at].find(mark).expect("the line has the mark") + mark.len();
        let rest = &lines[at][start..];
        (start, &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())])
    };
    let marks = [mark];
    let found = marked(lines, &marks).map(|at| place(at).1);
    let known: BTreeSet<&str> = found.chain(new.iter().copied()).collect();
    let edits = marked(lines, &marks).flat_map(|at| {
        let (start, word) = place(at);
        let others = known.iter().filter(move |new| **new != word);
        others.map(move |new| Edit::Replace(at, spliced(lines[at], start, word.len(), new)))
    });
    edits.collect()
}

/// The element type of each buffer as each of the new ones.
fn types(lines: &[&str], new: &[&str]) -> Vec<Edit> {
    let marks = [", offset "];
    let edits = marked(lines, &marks).filter_map(|at| {
        let start = lines[at].find(": ")? + 2;
        let length = lines[at][start..].find('[')?;
        Some(new.iter().map(move |new| Edit::Replace(at, spliced(lines[at], start, length, new))))
    });
    edits.flatten().collect()
}

/// Each temporary lent by each of the buffers, and each that is lent by none.
fn loans(lines: &[&str]) -> Vec<Edit> {
    let marks = [", temporary, "];
    let edits = marked(lines, &marks).flat_map(|at| {
        let (kept, lender) = lines[at].split_once(", lent by ").unwrap_or((lines[at], ""));
        let others = BUFFERS.into_iter().filter(move |by| *by != lender);
        let none = (!lender.is_empty()).then(|| Edit::Replace(at, kept.into()));
        none.into_iter().chain(others.map(move |by| Edit::Replace(at, format!("{kept}, lent by {by}"))))
    });
    edits.collect()
}

/// What was sent is received, and the other way round.
fn swapped_ends(lines: &[&str]) -> Vec<Edit> {
    let marks = [" group ", "<- copy "];
    let edits = marked(lines, &marks).filter_map(|at| {
        let mut ends = words_of(lines[at]).filter(|(_, word)| numbered(word, 'b'));
        let ((first, target), (second, source)) = (ends.next()?, ends.next()?);
        let line = spliced(lines[at], second, source.len(), target);
        Some(Edit::Replace(at, spliced(&line, first, target.len(), source)))
    });
    edits.collect()
}

/// The layout after a mark as each of the other layouts of the program.
fn layouts(lines: &[&str], mark: &str, end: &str) -> Vec<Edit> {
    let known = lines.iter().filter_map(|line| line.split_once(" at ")?.1.split(" on ").next());
    let known: BTreeSet<&str> = known.chain(["replicated"]).collect();
    let marks = [mark];
    let edits = marked(lines, &marks).filter(|&at| lines[at].contains(end)).filter_map(|at| {
        let start = lines[at].find(mark)? + mark.len();
        let layout = &lines[at][start..start + lines[at][start..].find(" on ")?];
        let others = known.iter().filter(move |new| **new != layout);
        Some(others.map(move |new| Edit::Replace(at, spliced(lines[at], start, layout.len(), new))))
    });
    edits.flatten().collect()
}
