//! How far a relay has come in a pool, and how that is kept.

use leasehold::store::Version;
use serde::{Deserialize, Serialize};

/// How far a sink's relay has come in a pool's ledger. Kept as a mark, written by compare-and-set.
///
/// Invariant: every event up to `row` was confirmed by the sink. No event behind `sent` was ever given to it: `sent` is on the
/// disk before the first of them goes out. As that is written behind the rows themselves, a store that loses its last writes
/// when the power fails does not lose a row that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Position {
    /// The last row that is done with.
    pub(super) row: u64,
    /// The first row that is not, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<u64>,
    /// The last row that may have been sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sent: Option<u64>,
}

impl Position {
    /// Everything up to `row` is done with.
    pub(super) fn done(row: u64) -> Self {
        Self { row, next: None, sent: None }
    }

    /// Reads what was kept.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// What is kept.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What a relay knows of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Track {
    /// As it is kept.
    pub(super) position: Position,
    /// Of the mark that keeps it.
    pub(super) version: Version,
    /// The last row that was looked at: behind `position.row` only where all between are no events.
    pub(super) seen: u64,
    /// Whether the ledger ended at `seen` when it was last read, and nothing failed since: rows that are gone then were
    /// delivered.
    pub(super) whole: bool,
}

impl Track {
    pub(super) fn at(position: Position, version: Version) -> Self {
        Self { position, version, seen: position.row, whole: false }
    }

    /// How many row numbers were dropped from the ledger undelivered, at most; `rows` are those from `seen` on. Numbers are
    /// shared by all pools in some stores, so that not every number was a row of this one.
    pub(super) fn lost(&self, rows: &[u64]) -> u64 {
        let first = rows.iter().copied().find(|row| *row > self.seen);
        let gap = |expected: u64| first.map_or(1, |first| first.saturating_sub(expected)).max(1);
        match self.position.next {
            _ if self.whole => 0,
            Some(next) if first != Some(next) => gap(next),
            // The row that was last done with is still there, so that none behind it was dropped.
            None if self.seen > 0 && rows.first() != Some(&self.seen) => gap(self.seen + 1),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(row: u64, next: Option<u64>) -> Track {
        Track::at(Position { row, next, sent: next }, Version(1))
    }

    #[test]
    fn rows_that_are_gone_are_noticed() {
        assert_eq!(track(0, None).lost(&[]), 0);
        assert_eq!(track(0, None).lost(&[7]), 0);
        assert_eq!(track(5, None).lost(&[5]), 0);
        assert_eq!(track(5, None).lost(&[5, 9]), 0);
        assert_eq!(track(5, None).lost(&[9]), 3);
        assert_eq!(track(5, None).lost(&[]), 1);
        assert_eq!(track(5, Some(9)).lost(&[9, 10]), 0);
        assert_eq!(track(5, Some(9)).lost(&[11]), 2);
        assert_eq!(track(0, Some(1)).lost(&[4]), 3);
    }

    #[test]
    fn rows_that_were_delivered_may_go() {
        let whole = Track { whole: true, ..track(5, None) };
        assert_eq!(whole.lost(&[9]), 0);
    }

    #[test]
    fn a_position_is_read_back() {
        for position in [Position::done(7), Position { row: 1, next: Some(2), sent: Some(3) }] {
            assert_eq!(Position::parse(&position.text()), Some(position));
        }
        assert_eq!(Position::done(7).text(), r#"{"row":7}"#);
    }
}
