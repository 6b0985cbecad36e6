//! Text for people: lines and tables with tones, written as wide and as colourful as whoever reads can see them. Pure.
//!
//! What others wrote is made visible as it is taken in, so every escape that is written is one of ours.

use super::visible;

/// How words are meant. On a terminal it is a colour; the words say the same without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Strong,
    Good,
    Warn,
    Bad,
}

impl Tone {
    /// Words in this tone.
    pub(crate) fn of(self, text: impl AsRef<str>) -> Span {
        Span { tone: self, text: visible(text.as_ref()).into_owned() }
    }

    /// What begins it on a terminal.
    fn begins(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\u{1b}[1m",
            Self::Good => "\u{1b}[32m",
            Self::Warn => "\u{1b}[33m",
            Self::Bad => "\u{1b}[1;31m",
        }
    }
}

/// Words in one tone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Span {
    tone: Tone,
    text: String,
}

impl Span {
    fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn write(&self, colour: bool, into: &mut String) {
        let begins = if colour && !self.text.is_empty() { self.tone.begins() } else { "" };
        into.push_str(begins);
        into.push_str(&self.text);
        if !begins.is_empty() {
            into.push_str("\u{1b}[0m");
        }
    }
}

impl From<String> for Span {
    fn from(text: String) -> Self {
        Tone::Plain.of(text)
    }
}

impl From<&str> for Span {
    fn from(text: &str) -> Self {
        Tone::Plain.of(text)
    }
}

/// Who reads: how wide the terminal is, if it is one, and whether it shows colours.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reader {
    pub(crate) width: Option<usize>,
    pub(crate) colour: bool,
}

#[derive(Debug, Clone)]
enum Part {
    /// A line; what does not fit goes on below, this far in.
    Line {
        hang: usize,
        spans: Vec<Span>,
    },
    Table {
        headings: Vec<Span>,
        rows: Vec<Vec<Span>>,
    },
}

/// Lines and tables, in the order in which they are read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sheet(Vec<Part>);

impl Sheet {
    /// Adds plain lines.
    pub(crate) fn text(&mut self, text: &str) {
        for line in text.lines() {
            let indent = line.chars().take_while(|c| *c == ' ').count();
            self.line(indent + 2, [line]);
        }
    }

    /// Adds a line of several tones.
    pub(crate) fn line<S: Into<Span>>(&mut self, hang: usize, spans: impl IntoIterator<Item = S>) {
        self.0.push(Part::Line { hang, spans: spans.into_iter().map(Into::into).collect() });
    }

    /// Adds lines in columns. Nothing is cut: where there is no room for all of them side by side, they stand one below the other.
    pub(crate) fn table<S: Into<Span>>(&mut self, headings: &[&str], rows: impl IntoIterator<Item = Vec<S>>) {
        let headings = headings.iter().map(|heading| Tone::Strong.of(heading)).collect();
        let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect();
        self.0.push(Part::Table { headings, rows });
    }

    /// Adds another sheet below.
    pub(crate) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// All of it, for this reader.
    pub(crate) fn written(&self, reader: Reader) -> String {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Line { hang, spans } => line(spans, *hang, reader, &mut text),
                Part::Table { headings, rows } => table(headings, rows, reader, &mut text),
            }
        }
        text
    }
}

/// Breaks between words where the reader's terminal would break within them.
fn line(spans: &[Span], hang: usize, reader: Reader, text: &mut String) {
    let width = reader.width.unwrap_or(usize::MAX);
    if spans.iter().map(Span::width).sum::<usize>() <= width {
        spans.iter().for_each(|span| span.write(reader.colour, text));
        text.push('\n');
        return;
    }
    let hang = hang.min(width / 2);
    let mut at = 0;
    for span in spans {
        if at + span.width() <= width {
            span.write(reader.colour, text);
            at += span.width();
            continue;
        }
        // What stands between two words goes with the second of them.
        let mut rest = span.text.as_str();
        while !rest.is_empty() {
            let gap = rest.len() - rest.trim_start_matches(' ').len();
            let end = rest[gap..].find(' ').map_or(rest.len(), |end| gap + end);
            let (piece, after) = rest.split_at(end);
            let piece = Span { tone: span.tone, text: piece.to_owned() };
            if at + piece.width() > width && at > hang && gap > 0 {
                text.push('\n');
                text.push_str(&" ".repeat(hang));
                let word = Span { tone: span.tone, text: piece.text[gap..].to_owned() };
                word.write(reader.colour, text);
                at = hang + word.width();
            } else {
                piece.write(reader.colour, text);
                at += piece.width();
            }
            rest = after;
        }
    }
    text.push('\n');
}

fn table(headings: &[Span], rows: &[Vec<Span>], reader: Reader, text: &mut String) {
    let mut widths: Vec<usize> = headings.iter().map(Span::width).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let between = 2 * widths.len().saturating_sub(1);
    let is_wider = |width| widths.iter().sum::<usize>() + between > width;
    if !rows.is_empty() && reader.width.is_some_and(is_wider) {
        return blocks(headings, rows, reader, text);
    }
    for cells in std::iter::once(headings).chain(rows.iter().map(Vec::as_slice)) {
        let last = cells.iter().rposition(|cell| !cell.text.is_empty());
        for (at, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            cell.write(reader.colour, text);
            if last.is_some_and(|last| at < last) {
                text.push_str(&" ".repeat(width - cell.width() + 2));
            }
        }
        text.push('\n');
    }
}

/// A block for each row, with the headings in front.
fn blocks(headings: &[Span], rows: &[Vec<Span>], reader: Reader, text: &mut String) {
    let width = headings.iter().map(Span::width).max().unwrap_or_default();
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        for (heading, cell) in headings.iter().zip(row).filter(|(_, cell)| !cell.text.is_empty()) {
            let gap = " ".repeat(width - heading.width() + 2);
            line(&[heading.clone(), Span::from(gap), cell.clone()], width + 2, reader, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mut sheet = Sheet::default();
        sheet.line(6, [Tone::Good.of("good  "), Span::from("all is as well as it can be")]);
        sheet.table(
            &["X", "WORD"],
            [vec![Span::from("a"), Tone::Bad.of("nobody")], vec!["ccc".into(), "".into()]],
        );
        sheet
    }

    #[test]
    fn without_a_terminal_nothing_is_broken_and_nothing_coloured() {
        assert_eq!(
            sheet().written(Reader::default()),
            "good  all is as well as it can be\nX    WORD\na    nobody\nccc\n"
        );
    }

    #[test]
    fn a_narrow_reader_gets_whole_words_and_one_block_for_each_row() {
        let narrow = Reader { width: Some(20), colour: false };
        assert_eq!(
            sheet().written(narrow),
            "good  all is as well\n      as it can be\nX    WORD\na    nobody\nccc\n"
        );
        let tiny = Reader { width: Some(8), colour: false };
        let blocks = sheet().written(tiny);
        assert!(blocks.ends_with("X     a\nWORD  nobody\n\nX     ccc\n"), "{blocks}");
    }

    #[test]
    fn colours_are_ours_only() {
        let colour = Reader { width: None, colour: true };
        let mut sheet = sheet();
        sheet.text("\u{1b}[31mred");
        let written = sheet.written(colour);
        assert!(written.starts_with("\u{1b}[32mgood  \u{1b}[0mall is"), "{written:?}");
        assert!(written.contains("a    \u{1b}[1;31mnobody\u{1b}[0m\n"), "{written:?}");
        assert!(written.ends_with("\n\\x1b[31mred\n"), "{written:?}");
    }
}
