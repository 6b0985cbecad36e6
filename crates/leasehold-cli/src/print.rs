//! What goes to standard output: JSON, or lines in columns. A reader that goes away is no error.
//!
//! What others have written into the store never tells a terminal what to do: see [`visible`].

mod sheet;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

pub(crate) use self::sheet::{Reader, Sheet, Span, Tone};
use crate::failure::{Failure, code};

/// Writes text for people, with nothing in it that a terminal would obey.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut lines = Sheet::default();
    lines.text(text);
    sheet(&lines)
}

/// Writes lines and tables for people, as wide as their terminal is.
pub(crate) fn sheet(sheet: &Sheet) -> Result<(), Failure> {
    let width =
        terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)).filter(|width| *width > 0);
    let is_terminal = io::stdout().is_terminal();
    as_it_is(
        &sheet.written(Reader { width: width.filter(|_| is_terminal), colour: shows_colours(&io::stdout()) }),
    )
}

/// Whether this is a terminal on which colours are wanted: see no-color.org.
pub(crate) fn shows_colours(stream: &impl IsTerminal) -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !unwanted && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
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
}
