//! Edits of an input: of its bytes, its words and numbers, and its lines.
//!
//! ```text
//!  an input of the corpus ──▶ one to eight edits ──▶ a new input
//!  another one            ──▶ gives words, pieces and lines
//! ```

use super::random::Random;
use std::ops::Range;

/// No input becomes longer than this.
const MOST_BYTES: usize = 1 << 17;

/// Numbers at which something ends: types, limits, exactness.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "8",
    "16",
    "64",
    "255",
    "1000",
    "65536",
    "1000000",
    "2147483647",
    "4294967296",
    "9007199254740993",
    "1099511627776",
    "1152921504606846976",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999999999999",
    "-1",
    "0.5",
    "1e999",
    "nan",
];

/// Bytes that mean something in one of the formats.
const MARKS: &[u8] = b"(){}[],:=/\"'->#%\n\t .019abx\x00\x80\xff\xc3\xa9\\";

/// What is done to an input, given another one.
type Edit = fn(&mut Random, &mut Vec<u8>, &[u8]);

/// All edits. Those that leave most inputs well formed stand more than once.
const EDITS: &[Edit] = &[
    replace_byte,
    insert_mark,
    drop_range,
    copy_range,
    insert_of_other,
    truncate,
    replace_word,
    replace_word,
    replace_word,
    replace_word_by_other,
    replace_word_by_other,
    replace_number,
    replace_number,
    replace_number,
    swap_words,
    drop_word,
    drop_line,
    repeat_line,
    swap_lines,
    insert_line_of_other,
    insert_line_of_other,
    repeat_often,
];

/// A new input, made of one and maybe pieces of another.
pub fn mutated(random: &mut Random, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let rounds = 1 << random.below(4);
    for _ in 0..rounds {
        let edit = EDITS[random.below(EDITS.len())];
        edit(random, &mut bytes, other);
    }
    bytes.truncate(MOST_BYTES);
    bytes
}

/// A stretch of at most `most` bytes.
fn range(random: &mut Random, of: &[u8], most: usize) -> Range<usize> {
    let start = random.below(of.len() + 1);
    let end = start + random.below(most.min(of.len() - start) + 1);
    start..end
}

#[expect(clippy::ptr_arg, reason = "one of the edits")]
fn replace_byte(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    let at = random.below(bytes.len());
    let new = random.bits() as u8;
    if let Some(byte) = bytes.get_mut(at) {
        *byte = new;
    }
}

fn insert_mark(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    let at = random.below(bytes.len() + 1);
    bytes.insert(at, MARKS[random.below(MARKS.len())]);
}

fn drop_range(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    let range = range(random, bytes, 40);
    bytes.drain(range);
}

fn copy_range(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    let piece = bytes[range(random, bytes, 60)].to_vec();
    let at = random.below(bytes.len() + 1);
    bytes.splice(at..at, piece);
}

fn insert_of_other(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let piece = other[range(random, other, 60)].to_vec();
    let at = random.below(bytes.len() + 1);
    bytes.splice(at..at, piece);
}

fn truncate(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    if random.below(4) == 0 {
        bytes.truncate(random.below(bytes.len() + 1));
    }
}

/// The words of a text: names and numbers, and every other byte by itself; spaces and newlines are none.
fn words(bytes: &[u8]) -> Vec<Range<usize>> {
    let in_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    let mut words = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|&&byte| in_word(byte)).count().max(1);
        if !bytes[at].is_ascii_whitespace() {
            words.push(at..at + length);
        }
        at += length;
    }
    words
}

fn a_word(random: &mut Random, bytes: &[u8]) -> Option<Range<usize>> {
    let words = words(bytes);
    random.pick(&words).cloned()
}

fn replace_word(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    if let (Some(at), Some(from)) = (a_word(random, bytes), a_word(random, bytes)) {
        let new = bytes[from].to_vec();
        bytes.splice(at, new);
    }
}

fn replace_word_by_other(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    if let (Some(at), Some(from)) = (a_word(random, bytes), a_word(random, other)) {
        bytes.splice(at, other[from].to_vec());
    }
}

/// The number that a word is, or that it ends in: names of the forms are letters and a number.
fn number(bytes: &[u8], word: Range<usize>) -> Option<Range<usize>> {
    let text = &bytes[word.clone()];
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let start = if text[0].is_ascii_digit() { word.start } else { word.end - digits };
    (start < word.end).then_some(start..word.end)
}

fn replace_number(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    let numbers: Vec<Range<usize>> =
        words(bytes).into_iter().filter_map(|word| number(bytes, word)).collect();
    if let Some(at) = random.pick(&numbers).cloned() {
        // The small ones more often: with them a program is still planned and run.
        let few = if random.below(2) == 0 { 7 } else { NUMBERS.len() };
        let new = NUMBERS[random.below(few)];
        bytes.splice(at, new.bytes());
    }
}

fn swap_words(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    if let (Some(a), Some(b)) = (a_word(random, bytes), a_word(random, bytes)) {
        let (first, second) = if a.start < b.start { (a, b) } else { (b, a) };
        if first.end <= second.start {
            let (one, two) = (bytes[first.clone()].to_vec(), bytes[second.clone()].to_vec());
            bytes.splice(second, one);
            bytes.splice(first, two);
        }
    }
}

fn drop_word(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    if let Some(at) = a_word(random, bytes) {
        bytes.drain(at);
    }
}

/// Changes the lines of a text.
fn with_lines(bytes: &mut Vec<u8>, change: impl FnOnce(&mut Vec<&[u8]>)) {
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    change(&mut lines);
    *bytes = lines.join(&b'\n');
}

fn drop_line(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    with_lines(bytes, |lines| {
        lines.remove(random.below(lines.len()));
    });
}

fn repeat_line(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    with_lines(bytes, |lines| {
        let line = lines[random.below(lines.len())];
        lines.insert(random.below(lines.len() + 1), line);
    });
}

fn swap_lines(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    with_lines(bytes, |lines| {
        let (one, other) = (random.below(lines.len()), random.below(lines.len()));
        lines.swap(one, other);
    });
}

fn insert_line_of_other(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let others: Vec<&[u8]> = other.split(|&byte| byte == b'\n').collect();
    let line = others[random.below(others.len())];
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    lines.insert(random.below(lines.len() + 1), line);
    *bytes = lines.join(&b'\n');
}

/// Now and then something is repeated so often that it is deep, or long.
fn repeat_often(random: &mut Random, bytes: &mut Vec<u8>, _: &[u8]) {
    if random.below(8) == 0 && !bytes.is_empty() {
        let piece = bytes[range(random, bytes, 12)].to_vec();
        let times = (1 << random.below(16)).min(MOST_BYTES / piece.len().max(1));
        let at = random.below(bytes.len() + 1);
        bytes.splice(at..at, piece.repeat(times));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_works_on_every_length_and_the_same_seed_gives_the_same() {
        for input in [&b""[..], b"a", b"\n", b"ab 12\n(c) 3\n\xff"] {
            for seed in 0..2000 {
                let first = mutated(&mut Random::new(seed), input, b"x = 7\ny");
                assert_eq!(first, mutated(&mut Random::new(seed), input, b"x = 7\ny"));
                assert!(first.len() <= MOST_BYTES);
            }
        }
    }

    #[test]
    fn words_are_names_numbers_and_single_marks() {
        let text = b"y0 = f(1.5, \xffz)";
        let found: Vec<&[u8]> = words(text).into_iter().map(|word| &text[word]).collect();
        assert_eq!(found, [&b"y0"[..], b"=", b"f", b"(", b"1.5", b",", b"\xff", b"z", b")"]);
    }
}
