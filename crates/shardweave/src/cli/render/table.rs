//! Tables for people: at most 100 columns wide, long sentences wrapped in their cell.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// How wide a table may be.
const WIDTH: u16 = 100;

/// Only a line under the header: what is read is the text.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A column: its title, and whether it holds numbers.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    Text(&'static str),
    Number(&'static str),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Column::Text(title) | Column::Number(title) => title,
        }
    }
}

/// A table with a bold header, each line ending in a newline.
pub fn table<const N: usize>(columns: [Column; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.set_header(columns.map(Column::title));
    table.add_rows(rows.into_iter().map(|row| row.map(|cell| clipped(&cell))));
    for (column, drawn) in columns.iter().zip(table.column_iter_mut()) {
        if let Column::Number(_) = column {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    let drawn = table.trim_fmt();
    let mut below_header = false;
    let lines = drawn.lines().map(|line| {
        below_header |= line.starts_with('─');
        if below_header { format!("{line}\n") } else { format!("{}\n", bold(line)) }
    });
    lines.collect()
}

/// A cell of a table: a longer text than this says no more.
const LONGEST_CELL: usize = 1000;

fn clipped(text: &str) -> String {
    match text.char_indices().nth(LONGEST_CELL) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A sentence in lines that are no wider than a table; what follows the first is set in as far as `lead`
/// is long.
pub fn wrapped(lead: &str, sentence: &str) -> String {
    let indent = lead.chars().count();
    let (mut text, mut column) = (lead.to_owned(), indent);
    for (place, word) in sentence.split_whitespace().enumerate() {
        let width = word.chars().count();
        if place > 0 && column + 1 + width > usize::from(WIDTH) {
            text.push_str(&format!("\n{:indent$}", ""));
            column = indent;
        } else if place > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text + "\n"
}

/// Bold where the stream is a terminal.
pub fn bold(text: &str) -> String {
    format!("\x1b[1m{text}\x1b[0m")
}

/// `512 B`, `1.5 KiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let power = count.ilog2() / 10; // 1..=6, as a u64 has 64 bits
    let value = count as f64 / (1_u64 << (10 * power)) as f64;
    format!("{value:.1} {}", UNITS[power as usize - 1])
}

/// `12.5 us`; times beyond any use with an exponent.
pub fn microseconds(time: f64) -> String {
    if time.abs() < 1e9 { format!("{time:.1} us") } else { format!("{time:.1e} us") }
}

/// `b = 2, s = 128`; `scalar` for no dims.
pub fn dims(dims: &[(String, u64)]) -> String {
    if dims.is_empty() {
        return "scalar".into();
    }
    let each: Vec<String> = dims.iter().map(|(name, size)| format!("{name}={size}")).collect();
    each.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_never_wider_than_its_limit() {
        let long = "a sentence that goes on and on, and on, ".repeat(10) + &"without_any_blank".repeat(20);
        let drawn = table(
            [Column::Text("value"), Column::Number("bytes"), Column::Text("why")],
            [["x".into(), "1".into(), long.clone()], [long.clone(), "2".into(), long]],
        );
        for line in anstream::adapter::strip_str(&drawn).to_string().lines() {
            assert!(line.chars().count() <= usize::from(WIDTH), "{line}");
        }
    }

    #[test]
    fn a_sentence_is_broken_between_words_and_set_in() {
        let sentence = "word ".repeat(50);
        let told = wrapped("note: ", &sentence);
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= usize::from(WIDTH)), "{told}");
        assert!(lines[0].starts_with("note: word") && lines[1].starts_with("      word"), "{told}");
        assert_eq!(told.matches("word").count(), 50);
        assert_eq!(wrapped("note: ", ""), "note: \n");
    }

    #[test]
    fn bytes_have_a_unit_that_fits() {
        assert_eq!(
            [0, 1023, 1024, 1536, 1 << 30].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 GiB"]
        );
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }
}
