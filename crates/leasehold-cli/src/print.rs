//! What goes to standard output: JSON, or lines in columns. A reader that goes away is no error.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::{Failure, code};

/// Writes text; a closed pipe ends the program, quietly.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
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
    text(&format!("{line}\n"))
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
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "bb".to_owned()], vec!["ccc".to_owned(), String::new()]];
        assert_eq!(columns(&["X", "Y"], &rows), "X    Y\na    bb\nccc\n");
    }
}
