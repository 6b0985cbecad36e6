//! The era: one unbroken memory of the file, and how a break in it is noticed.

use rusqlite::{Connection, Row, named_params};

use super::files::Identity;
use crate::lease::Nonce;
use crate::store::Era;

/// The era's record as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EraRow {
    pub(super) identity: Identity,
    pub(super) nonce: Nonce,
    pub(super) frozen: bool,
    pub(super) token_base: u64,
    pub(super) ttl_max_ms: u64,
    pub(super) seq: u64,
}

impl EraRow {
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached(include_str!("era.sql"))?.query_row([], Self::from_row)
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            identity: Identity::from_text(row.get(0)?),
            nonce: nonce_of(row.get(1)?),
            frozen: row.get(2)?,
            token_base: row.get(3)?,
            ttl_max_ms: row.get(4)?,
            seq: row.get(5)?,
        })
    }

    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(include_str!("era_write.sql"))?;
        statement.execute(named_params! {
            ":identity": self.identity.as_str(),
            ":nonce": nonce_bits(self.nonce),
            ":frozen": self.frozen,
            ":token_base": integer(self.token_base),
            ":ttl_max_ms": integer(self.ttl_max_ms),
            ":seq": integer(self.seq),
        })?;
        Ok(())
    }

    /// Writes the first era of a file.
    pub(super) fn create(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare(include_str!("era_create.sql"))?;
        statement.execute(named_params! {
            ":identity": self.identity.as_str(),
            ":nonce": nonce_bits(self.nonce),
            ":frozen": self.frozen,
            ":token_base": integer(self.token_base),
            ":ttl_max_ms": integer(self.ttl_max_ms),
            ":seq": integer(self.seq),
        })?;
        Ok(())
    }

    /// The era as readers see it.
    pub(super) fn shown(&self) -> Era {
        let ttl_max = std::time::Duration::from_millis(self.ttl_max_ms);
        Era { nonce: self.nonce, frozen: self.frozen, ttl_max }
    }
}

/// What a handle remembers of the file from its own calls, or what was left written beside it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remembered {
    pub(super) nonce: Nonce,
    pub(super) seq: u64,
    pub(super) ttl_max_ms: u64,
}

impl Remembered {
    /// The same, or as far as `other` had come in the same era.
    pub(super) fn at_least(self, other: Option<Self>) -> Self {
        let other = other.filter(|other| other.nonce == self.nonce).unwrap_or(self);
        Self {
            nonce: self.nonce,
            seq: self.seq.max(other.seq),
            ttl_max_ms: self.ttl_max_ms.max(other.ttl_max_ms),
        }
    }

    pub(super) fn of(era: &EraRow) -> Self {
        Self { nonce: era.nonce, seq: era.seq, ttl_max_ms: era.ttl_max_ms }
    }

    /// Whether a reader can take `era` as what follows from what it remembers. Where it cannot, that need not
    /// mean that something was forgotten: a writer judges it.
    pub(super) fn leads_to(&self, era: &EraRow) -> bool {
        self.nonce == era.nonce && self.seq <= era.seq
    }
}

/// What is known of the file from elsewhere: what this handle remembers, and what it found written beside the file when it
/// came to it.
pub(super) type Witnesses = [Option<Remembered>; 2];

/// Whether the file has forgotten something: it is another file than it says it is, it was set back, or it never
/// had an era that somebody lived through. `had` tells whether it did.
///
/// That it is frozen does not mean that somebody noticed: it may be the copy of a file that was frozen, and its era over.
/// Whoever freezes a file tells it of the era that it missed, so each is missed once.
pub(super) fn has_forgotten(
    era: &EraRow,
    real: &Identity,
    witnesses: &Witnesses,
    had: impl Fn(Nonce) -> rusqlite::Result<bool>,
) -> rusqlite::Result<bool> {
    if era.identity != *real {
        return Ok(true);
    }
    for known in witnesses.iter().flatten() {
        let misses = if known.nonce == era.nonce { era.seq < known.seq } else { !had(known.nonce)? };
        if misses {
            return Ok(true);
        }
    }
    Ok(false)
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

    fn era(nonce: u64, seq: u64, frozen: bool) -> EraRow {
        let identity = Identity::from_text("1:1".to_owned());
        EraRow { identity, nonce: Nonce(nonce), frozen, token_base: 0, ttl_max_ms: 0, seq }
    }

    fn judge(found: &EraRow, real: &str, mine: Option<(u64, u64)>, had: bool) -> bool {
        let mine = mine.map(|(nonce, seq)| Remembered { nonce: Nonce(nonce), seq, ttl_max_ms: 0 });
        let real = Identity::from_text(real.to_owned());
        let judged = [[mine, None], [None, mine]].map(|witnesses| {
            has_forgotten(found, &real, &witnesses, |_| Ok(had)).expect("judging cannot fail")
        });
        assert_eq!(judged[0], judged[1], "whoever it is that knows it");
        judged[0]
    }

    // proves R003
    #[test]
    fn a_file_has_forgotten_if_it_is_another_was_set_back_or_never_had_my_era() {
        assert!(judge(&era(1, 9, false), "1:2", None, true), "another file");
        assert!(judge(&era(1, 8, false), "1:1", Some((1, 9)), true), "set back");
        assert!(judge(&era(2, 99, false), "1:1", Some((1, 9)), false), "never had my era");
        assert!(judge(&era(2, 99, true), "1:1", Some((1, 9)), false), "frozen when it was copied");
    }

    #[test]
    fn a_reader_goes_on_from_what_it_remembers_of_the_same_era_only() {
        let mine = Remembered { nonce: Nonce(1), seq: 9, ttl_max_ms: 0 };
        assert!(mine.leads_to(&era(1, 9, false)) && mine.leads_to(&era(1, 10, true)));
        assert!(!mine.leads_to(&era(1, 8, false)), "set back");
        assert!(!mine.leads_to(&era(2, 10, false)), "another era");
    }

    #[test]
    fn a_file_that_went_on_without_me_has_not_forgotten() {
        assert!(!judge(&era(1, 9, false), "1:1", None, false), "I am new here");
        assert!(!judge(&era(1, 9, false), "1:1", Some((1, 9)), true), "nothing happened");
        assert!(!judge(&era(2, 3, false), "1:1", Some((1, 9)), true), "it was frozen and thawed");
        assert!(!judge(&era(2, 3, true), "1:1", Some((1, 9)), true), "somebody else froze it already");
    }
}
