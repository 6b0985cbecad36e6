//! What is noted and not in the rows yet, as the writer knows it, and the two calls that are judged by it.
//!
//! Invariant: it is what the notes in the file come to, and is used only while nobody else has written to the file since.
//! Whatever it does not know for sure is left to the rows.

use super::failure::Stop;
use super::notes::{Note, Sum};
use super::sessions::{Opening, json, parse, session};
use super::transaction::Transaction;
use crate::lease::{MemberId, Pool, ResourceId, TOKEN_MAX, Term, Token};
use crate::store::{Answer, Claimed, Wanted};

/// How many things are noted before they are settled, so that whoever settles them does not take long.
const NOTES_MAX: usize = 4096;

/// What is noted.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// What others have written to the file is another version of it.
    version: Option<i64>,
    /// How many notes are in the file.
    noted: usize,
    /// What is to be noted with the next commit, and how many things that is.
    fresh: String,
    count: usize,
    /// What all of them come to.
    sum: Sum,
}

impl Draft {
    /// What is known right after everything was settled in this version of the file.
    pub(super) fn settled(version: i64) -> Self {
        Self { version: Some(version), ..Self::default() }
    }

    /// Whether it is what the file says that has this version.
    pub(super) fn is_of(&self, version: i64) -> bool {
        self.version == Some(version)
    }

    /// Whether there is nothing to settle.
    pub(super) fn is_settled(&self) -> bool {
        self.noted == 0 && self.count == 0
    }

    /// Whether it is in the notes that this session is there.
    pub(super) fn has(&self, id: &MemberId) -> bool {
        self.sum.pool_of(id).is_some()
    }

    /// Whether it is time to settle.
    pub(super) fn is_full(&self) -> bool {
        self.noted >= NOTES_MAX
    }

    /// What all notes come to.
    pub(super) fn sum(&self) -> &Sum {
        &self.sum
    }

    /// What is to be noted, as a JSON list. Nothing if nothing is; it counts as noted from here on.
    pub(super) fn take_fresh(&mut self) -> Option<String> {
        self.noted += std::mem::take(&mut self.count);
        let mut notes = std::mem::take(&mut self.fresh);
        (!notes.is_empty()).then(|| {
            notes.push(']');
            notes
        })
    }

    fn add(&mut self, note: Note) -> Result<(), Stop> {
        self.fresh.push(if self.count == 0 { '[' } else { ',' });
        self.fresh.push_str(&json(&note)?);
        self.count += 1;
        self.sum.add(note);
        Ok(())
    }
}

/// Claims by a note. `None` if the rows have to be asked: then nothing was done.
pub(super) fn claim(
    txn: &mut Transaction<'_>,
    open: &Opening,
    wanted: &Wanted,
) -> Result<Option<Answer<Claimed>>, Stop> {
    if !txn.takes_notes() || txn.draft().has(&open.id) || session(txn, &open.id)?.is_some() {
        return Ok(None);
    }
    let (pool, resource) = (&open.pool, &wanted.resource);
    let token = match txn.draft().sum.lease(pool, resource) {
        Some(lease) => match &lease.holder {
            Some(by) => {
                return Ok(Some(Answer::Done(Claimed::Held { by: by.clone(), token: lease.token })));
            }
            None => lease.token,
        },
        None => match unheld(txn, pool, resource)? {
            Some(token) => token,
            None => return Ok(None),
        },
    };
    let token = Token(token.0.max(wanted.floor.0).max(txn.era().token_base) + 1);
    if token.0 > TOKEN_MAX {
        return Ok(None);
    }
    let (id, pool, resource) = (open.id.clone(), pool.clone(), resource.clone());
    let (profile, ttl_ms, seq) = (open.profile.clone(), open.ttl_ms, txn.step());
    txn.raise_ttl_max(ttl_ms);
    txn.tell(&pool);
    let term = Term { resource: resource.clone(), token };
    txn.draft_mut().add(Note::Claimed { id, pool, resource, token, ttl_ms, profile, seq })?;
    Ok(Some(Answer::Done(Claimed::Granted { era: txn.era().nonce, term })))
}

/// The last token of a lease that nobody holds by its row.
fn unheld(txn: &Transaction<'_>, pool: &Pool, resource: &ResourceId) -> Result<Option<Token>, Stop> {
    let params = rusqlite::named_params! {":pool": pool.as_str(), ":resource": resource.as_str()};
    let row = txn.row(include_str!("held.sql"), params, |row| {
        let holder: Option<String> = row.get(0)?;
        Ok((holder.map(parse::<MemberId>).transpose()?, Token(row.get(1)?)))
    })?;
    Ok(match row {
        None => Some(Token(0)),
        Some((None, token)) => Some(token),
        Some((Some(_), _)) => None,
    })
}

/// Retires a session by a note. `false` if it is not among those: then nothing was done.
pub(super) fn retire(txn: &mut Transaction<'_>, id: &MemberId) -> Result<bool, Stop> {
    if !txn.takes_notes() {
        return Ok(false);
    }
    let Some(pool) = txn.draft().sum.pool_of(id).cloned() else { return Ok(false) };
    txn.tell(&pool);
    let seq = txn.step();
    txn.draft_mut().add(Note::Retired { id: id.clone(), seq })?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::sessions;
    use super::super::transaction::tests::{begin, file};
    use super::*;
    use crate::store::conformance::member;

    fn note() -> Note {
        Note::Retired { id: MemberId::generate(), seq: 1 }
    }

    fn granted(txn: &mut Transaction<'_>, name: &str) -> MemberId {
        let open = Opening::of(&member::session("one")).expect("it is JSON");
        let claimed = claim(txn, &open, &member::wanted(name)).expect("claimed");
        assert!(matches!(claimed, Some(Answer::Done(Claimed::Granted { .. }))), "{claimed:?}");
        open.id
    }

    fn count(txn: &Transaction<'_>, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        txn.row(&sql, [], |row| row.get(0)).expect("read").expect("a number")
    }

    #[test]
    fn there_is_something_to_settle_as_soon_as_anything_is_to_be_noted() {
        let mut draft = Draft::settled(1);
        assert!(draft.is_settled());
        draft.add(note()).expect("added");
        assert!(!draft.is_settled(), "it is not in the file yet");
        assert!(draft.take_fresh().is_some_and(|notes| notes.starts_with('[') && notes.ends_with(']')));
        assert!(!draft.is_settled(), "it is in the file");
        assert_eq!(draft.take_fresh(), None);
    }

    #[test]
    fn no_more_is_noted_than_is_settled_soon() {
        let mut draft = Draft::settled(1);
        let mut commit = |notes: usize| {
            (0..notes).for_each(|_| draft.add(note()).expect("added"));
            draft.take_fresh();
            draft.is_full()
        };
        assert!(!commit(NOTES_MAX - 1));
        assert!(commit(1));
    }

    #[test]
    fn what_is_noted_becomes_rows_for_whoever_shares_the_commit() {
        let connection = file();
        let mut txn = begin(&connection);
        let one = granted(&mut txn, "a");
        assert!(session(&txn, &one).expect("read").is_none(), "it is only noted");
        txn.settle().expect("settled");
        assert!(session(&txn, &one).expect("read").is_some());
        txn.commit().expect("committed");
        let txn = begin(&connection);
        assert_eq!((count(&txn, "notes"), count(&txn, "leases")), (0, 1));
    }

    #[test]
    fn many_who_have_rows_share_a_commit_with_what_is_noted() {
        let connection = file();
        let members = ["two", "three"].map(|name| Opening::of(&member::session(name)).expect("it is JSON"));
        let mut txn = begin(&connection);
        for open in &members {
            let opened = sessions::open(&mut txn, open).expect("opened");
            assert!(matches!(opened, Answer::Done(_)), "{opened:?}");
        }
        granted(&mut txn, "a");
        for open in &members {
            txn.settle_for(&open.id).expect("nothing is noted of it");
            assert!(sessions::close(&mut txn, &open.id).expect("closed"));
        }
        assert!(!txn.commit().expect("committed").draft.is_settled(), "it is noted still");
        let txn = begin(&connection);
        assert_eq!((count(&txn, "lifted"), count(&txn, "leases"), count(&txn, "sessions")), (0, 1, 3));
    }
}
