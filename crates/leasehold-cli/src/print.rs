//! What goes to standard output: JSON, or lines in columns. A reader that goes away is no error.
//!
//! What others have written into the store never tells a terminal what to do: see [`visible`].

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;

use crate::failure::{Failure, code};

/// Writes text for people, with nothing in it that a terminal would obey.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    as_it_is(&visible(text))
}

/// The text with every control character but the end of a line, and every one that changes the direction of what
/// follows, written out.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| (c.is_control() && c != '\n') || is_of_direction(c);
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match u32::from(c) {
            _ if !is_hidden(c) => shown.push(c),
            code @ ..=0xff => shown += &format!("\\x{code:02x}"),
            code => shown += &format!("\\u{{{code:x}}}"),
        }
    }
    Cow::Owned(shown)
}

fn is_of_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes what a program is to read; a closed pipe ends the program, quietly.
pub(crate) fn as_it_is(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::nobody_reads()),
        Err(error) => Err(Failure::new(code::SYSTEM, format!("cannot write to standard output: {error}"))),
    }
}

/// Writes one value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string_pretty(value).map_err(|e| Failure::system("cannot print", &e))?;
    as_it_is(&format!("{line}\n"))
}

/// Writes values as JSON, one a line.
pub(crate) fn json_lines(values: impl Iterator<Item = impl Serialize>) -> Result<(), Failure> {
    let mut lines = String::new();
    for value in values {
        lines += &serde_json::to_string(&value).map_err(|error| Failure::system("cannot print", &error))?;
        lines.push('\n');
    }
    as_it_is(&lines)
}

/// Wall time for people, to the millisecond.
pub(crate) fn time(wall_nanos: u64) -> String {
    let nanos = i128::from(wall_nanos);
    jiff::Timestamp::from_nanosecond(nanos).map_or_else(|_| nanos.to_string(), |at| format!("{at:.3}"))
}

/// Lines in columns, as wide as they need to be, headings first. Nothing is cut.
pub(crate) fn columns(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    std::iter::once(line(&headings)).chain(rows.iter().map(|row| line(row))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(visible("\u{1b}[2Ja\tb\r\u{7f}\nc"), "\\x1b[2Ja\\x09b\\x0d\\x7f\nc");
        assert_eq!(visible("\u{9b}31m\u{85}"), "\\x9b31m\\x85");
        assert_eq!(visible("\u{202e}gpj.exe\u{2066}\u{200f}"), "\\u{202e}gpj.exe\\u{2066}\\u{200f}");
        assert!(matches!(visible("Köln, 東京: ok\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "bb".to_owned()], vec!["ccc".to_owned(), String::new()]];
        assert_eq!(columns(&["X", "Y"], &rows), "X    Y\na    bb\nccc\n");
    }
}
