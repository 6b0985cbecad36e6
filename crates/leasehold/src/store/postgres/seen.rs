//! What a handle remembers of the store from its own calls.
//!
//! Invariant: what is sent with a call was true before the call was sent, so a server that answers with less has forgotten.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::lanes::Param;
use crate::lease::Nonce;
use crate::store::Cursor;

/// How many snapshots are kept for readers to come back with. A cursor whose snapshot is gone gives more, never less.
const SNAPSHOTS_MAX: usize = 1024;
/// How many bits of a cursor tell snapshots apart that have the same lowest transaction.
const SLOT_BITS: u32 = 20;

/// How far a store had come in an era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remembered {
    pub(super) nonce: Nonce,
    /// The position in the write-ahead log.
    pub(super) place: i64,
    pub(super) ttl_max_ms: i64,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    era: Mutex<Option<Remembered>>,
    snapshots: Mutex<Snapshots>,
}

#[derive(Debug, Default)]
struct Snapshots {
    kept: VecDeque<(Cursor, String)>,
    slot: u64,
}

impl Seen {
    /// Keeps what was just answered; what is older in the same era says nothing new.
    pub(super) fn remember(&self, new: Remembered) {
        let mut era = self.era.lock().unwrap_or_else(PoisonError::into_inner);
        *era = Some(match *era {
            Some(old) if old.nonce == new.nonce => Remembered {
                nonce: new.nonce,
                place: old.place.max(new.place),
                ttl_max_ms: old.ttl_max_ms.max(new.ttl_max_ms),
            },
            // Whoever thaws waits for the longest TTL that anybody remembers, of an older era too.
            Some(old) => Remembered { ttl_max_ms: old.ttl_max_ms.max(new.ttl_max_ms), ..new },
            None => new,
        });
    }

    /// What is sent with every call. The last number says that this handle announces what its calls change.
    pub(super) fn param(&self) -> Param {
        let era = *self.era.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |number: fn(Remembered) -> i64| era.map(number);
        Param::Ints(vec![
            of(|era| nonce_bits(era.nonce)),
            of(|era| era.place),
            of(|era| era.ttl_max_ms),
            Some(1),
        ])
    }

    /// Where a reader of this snapshot stands. A snapshot in which nobody was in the middle of anything is told by its
    /// lowest transaction alone; the others are kept.
    pub(super) fn cursor(&self, snapshot: &str) -> Cursor {
        let mut parts = snapshot.splitn(3, ':');
        let lowest: u64 = parts.next().and_then(|lowest| lowest.parse().ok()).unwrap_or(0);
        let running = parts.nth(1).is_some_and(|running| !running.is_empty());
        if !running {
            return Cursor(lowest << SLOT_BITS);
        }
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        // Zero stands for a snapshot that was not kept.
        snapshots.slot = snapshots.slot % ((1 << SLOT_BITS) - 1) + 1;
        let cursor = Cursor(lowest << SLOT_BITS | snapshots.slot);
        if snapshots.kept.len() >= SNAPSHOTS_MAX {
            snapshots.kept.pop_front();
        }
        snapshots.kept.push_back((cursor, snapshot.to_owned()));
        cursor
    }

    /// The lowest transaction that a cursor has not seen the end of, and its snapshot if it was kept.
    pub(super) fn since(&self, cursor: Cursor) -> [Param; 2] {
        let snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = snapshots.kept.iter().rev().find(|(known, _)| *known == cursor);
        let lowest = i64::try_from(cursor.0 >> SLOT_BITS).unwrap_or(i64::MAX);
        [Param::Int(lowest), Param::Text(kept.map(|(_, snapshot)| snapshot.clone()))]
    }
}

/// Nonces are compared for equality only, so their bits are kept as they are.
pub(super) fn nonce_bits(nonce: Nonce) -> i64 {
    nonce.0 as i64
}

pub(super) fn nonce_of(bits: i64) -> Nonce {
    Nonce(bits as u64)
}

/// Numbers that are compared by size stop at the largest that a column holds.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nonce: u64, place: i64, ttl_max_ms: i64) -> Remembered {
        Remembered { nonce: Nonce(nonce), place, ttl_max_ms }
    }

    fn sent(seen: &Seen) -> Vec<Option<i64>> {
        match seen.param() {
            Param::Ints(numbers) => numbers,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_that_was_overtaken_does_not_make_a_handle_forget() {
        let seen = Seen::default();
        assert_eq!(sent(&seen), [None, None, None, Some(1)], "it announces what it changes");
        seen.remember(at(1, 9, 30));
        seen.remember(at(1, 5, 40));
        assert_eq!(sent(&seen), [1, 9, 40, 1].map(Some));
        seen.remember(at(2, 3, 10));
        assert_eq!(sent(&seen), [2, 3, 40, 1].map(Some), "another era has positions of its own");
    }

    #[test]
    fn a_cursor_finds_its_own_snapshot_or_the_lowest_transaction() {
        let seen = Seen::default();
        let quiet = seen.cursor("70:70:");
        let busy = seen.cursor("70:80:70,75");
        let busier = seen.cursor("70:90:70,85");
        assert!(busy != busier && quiet != busy);
        let since = |cursor| match seen.since(cursor) {
            [Param::Int(lowest), Param::Text(known)] => (lowest, known),
            other => panic!("{other:?}"),
        };
        assert_eq!(since(quiet), (70, None));
        assert_eq!(since(busy), (70, Some("70:80:70,75".to_owned())));
        for _ in 0..SNAPSHOTS_MAX {
            let _ = seen.cursor("71:90:71");
        }
        assert_eq!(since(busier), (70, None), "forgotten: the reader gets more");
        assert_eq!(since(Cursor::START), (0, None));
    }
}
