//! Server-sent events, as much of them as hints need.
//!
//! Invariant: what is kept of an unfinished line is bounded, whatever the other side sends.

/// The longest line that is taken.
const LINE_MAX: usize = 64 * 1024;

/// Reads events out of pieces that end anywhere.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    /// A `\r` ended the last line; a `\n` right behind it belongs to it.
    after_return: bool,
    name: Option<String>,
}

/// A line was longer than any that a server of ours sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

impl Events {
    /// Takes a piece in and gives the names of the events that it completed.
    pub(super) fn take_in(&mut self, piece: &[u8]) -> Result<Vec<String>, TooLong> {
        let mut complete = Vec::new();
        for byte in piece {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => complete.extend(self.end_of_line()),
                _ if self.line.len() == LINE_MAX => return Err(TooLong),
                byte => self.line.push(*byte),
            }
        }
        Ok(complete)
    }

    fn end_of_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.name.take();
        }
        // A line that begins with a colon is a remark; ids and data say nothing to us.
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        if field == "event" {
            self.name = Some(value.strip_prefix(' ').unwrap_or(value).to_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b": hello\n\nevent: changed\nid: 1\ndata:\n\r\n:\r\revent:doubted\r\nid: 2\r\n\r\nid: 3\n\nevent: changed\n";

    #[test]
    fn events_are_read_whatever_the_pieces() {
        for size in 1..STREAM.len() {
            let mut events = Events::default();
            let read: Vec<String> =
                STREAM.chunks(size).flat_map(|piece| events.take_in(piece).unwrap()).collect();
            assert_eq!(read, ["changed", "doubted"], "in pieces of {size}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut events = Events::default();
        assert_eq!(events.take_in(&vec![b'x'; LINE_MAX]), Ok(Vec::new()));
        assert_eq!(events.take_in(b"x"), Err(TooLong));
    }
}
