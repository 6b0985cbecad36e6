//! Notes: what claims and their ends came to, one row for a commit, before it is in the rows of sessions and leases.
//!
//! A lease over HTTP has a session of its own, which often lives for moments. Written into its rows, with all their indexes,
//! each would cost more than everything else about it, and be gone again before anybody looked.
//!
//! # Invariants
//!
//! 1. *The truth is the rows with the notes applied in their order.* Whoever decides by the rows, or reads them for others,
//!    settles first: the notes become rows, and are gone, in one transaction.
//! 2. *No row of a session or lease that a note is about changes.* The file itself sees to that, by triggers, also where a
//!    program writes to it that knows of no notes: it cannot change any row while there is one.
//! 3. *A session is noted only if it has no row, a lease only if its row names no holder.* So a call that is only about one
//!    session that has a row, and about leases whose rows name it, needs no notes and disturbs none. And what a
//!    [guard](crate::store::Guard) says of an earlier term is false before a later one is granted.
//! 4. *A session that was claimed and retired between two settlings leaves nothing.* Nobody can have read that it was there.

use std::collections::HashMap;

use rusqlite::named_params;
use serde::{Deserialize, Serialize};

use super::era::integer;
use super::failure::{Failure, Stop};
use super::transaction::Transaction;
use crate::lease::{MemberId, Pool, ResourceId, Token};
use crate::store::claim;

/// One thing that was done, under the number at which readers find it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Note {
    /// A session was opened with the one lease that it has.
    Claimed {
        id: MemberId,
        pool: Pool,
        resource: ResourceId,
        token: Token,
        ttl_ms: u64,
        /// As the session's row has it.
        profile: String,
        seq: i64,
    },
    /// A session that is in an earlier note is over, and its lease is free.
    Retired { id: MemberId, seq: i64 },
}

/// What notes come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    /// Who is there.
    sessions: HashMap<MemberId, Opened>,
    /// What has changed hands.
    leases: HashMap<Pool, HashMap<ResourceId, Changed>>,
}

/// A session, under the number at which readers find it.
#[derive(Debug, PartialEq, Eq)]
struct Opened {
    pool: Pool,
    resource: ResourceId,
    ttl_ms: u64,
    profile: String,
    seq: i64,
}

/// A lease, under the number at which readers find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) token: Token,
    pub(super) holder: Option<MemberId>,
    ttl_ms: u64,
    seq: i64,
}

impl Sum {
    fn of(notes: impl IntoIterator<Item = Note>) -> Self {
        let mut sum = Self::default();
        notes.into_iter().for_each(|note| sum.add(note));
        sum
    }

    /// One note more.
    pub(super) fn add(&mut self, note: Note) {
        match note {
            Note::Claimed { id, pool, resource, token, ttl_ms, profile, seq } => {
                let lease = Changed { token, holder: Some(id.clone()), ttl_ms, seq };
                match self.leases.get_mut(&pool) {
                    Some(leases) => leases.insert(resource.clone(), lease),
                    None => self.leases.entry(pool.clone()).or_default().insert(resource.clone(), lease),
                };
                self.sessions.insert(id, Opened { pool, resource, ttl_ms, profile, seq });
            }
            Note::Retired { id, seq } => {
                let Some(Opened { pool, resource, .. }) = self.sessions.remove(&id) else { return };
                let leases = self.leases.get_mut(&pool);
                if let Some(lease) = leases.and_then(|leases| leases.get_mut(&resource)) {
                    lease.holder = None;
                    lease.seq = seq;
                }
            }
        }
    }

    /// The pool of a session that is there.
    pub(super) fn pool_of(&self, id: &MemberId) -> Option<&Pool> {
        self.sessions.get(id).map(|session| &session.pool)
    }

    /// A lease that has changed hands.
    pub(super) fn lease(&self, pool: &Pool, resource: &ResourceId) -> Option<&Changed> {
        self.leases.get(pool)?.get(resource)
    }
}

/// Whether anything is noted, as a connection sees the file.
pub(super) fn any(connection: &rusqlite::Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached(include_str!("noted.sql"))?.query_row([], |row| row.get(0))
}

/// Adds notes to the file, as a JSON list.
pub(super) fn add(txn: &Transaction<'_>, notes: &str) -> Result<(), Stop> {
    txn.run(include_str!("note.sql"), named_params! {":content": notes})?;
    Ok(())
}

/// What all notes in the file come to.
pub(super) fn read(txn: &Transaction<'_>) -> Result<Sum, Stop> {
    let contents = txn.rows(include_str!("notes.sql"), [], |row| row.get::<_, String>(0))?;
    let mut notes: Vec<Note> = Vec::new();
    for content in contents {
        let read: Vec<Note> = serde_json::from_str(&content).map_err(|error| {
            Failure::misconfigured(format!("a note in the file cannot be read: {error}; restore a backup"))
        })?;
        notes.extend(read);
    }
    Ok(Sum::of(notes))
}

/// Makes rows of all notes, which come to this.
pub(super) fn settle(txn: &Transaction<'_>, sum: &Sum) -> Result<(), Stop> {
    txn.run("DELETE FROM notes", [])?;
    for (id, session) in &sum.sessions {
        let params = named_params! {
            ":id": id.as_str(),
            ":pool": session.pool.as_str(),
            ":ttl_ms": integer(session.ttl_ms),
            ":beat": integer(claim::BEAT.0),
            ":profile": session.profile,
            ":seq": session.seq,
        };
        txn.run(include_str!("open.sql"), params)?;
    }
    for (pool, leases) in &sum.leases {
        for (resource, lease) in leases {
            let params = named_params! {
                ":pool": pool.as_str(),
                ":resource": resource.as_str(),
                ":token": integer(lease.token.0),
                ":holder": lease.holder.as_ref().map(MemberId::as_str),
                ":ttl_ms": integer(lease.ttl_ms),
                ":seq": lease.seq,
            };
            txn.run(include_str!("settle_lease.sql"), params)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(id: &MemberId, resource: &str, token: u64, seq: i64) -> Note {
        Note::Claimed {
            id: id.clone(),
            pool: "work".parse().expect("an id"),
            resource: resource.parse().expect("an id"),
            token: Token(token),
            ttl_ms: 30_000,
            profile: "{}".to_owned(),
            seq,
        }
    }

    fn lease(sum: &Sum, resource: &str) -> (u64, Option<MemberId>, i64) {
        let at: (Pool, ResourceId) = ("work".parse().expect("an id"), resource.parse().expect("an id"));
        let lease = sum.lease(&at.0, &at.1).expect("it has changed hands");
        (lease.token.0, lease.holder.clone(), lease.seq)
    }

    #[test]
    fn whoever_came_and_went_leaves_only_its_token() {
        let (one, two) = (MemberId::generate(), MemberId::generate());
        let sum = Sum::of([
            claimed(&one, "a", 7, 11),
            claimed(&two, "b", 1, 11),
            Note::Retired { id: one.clone(), seq: 12 },
        ]);
        assert_eq!(sum.sessions.keys().collect::<Vec<_>>(), [&two]);
        assert_eq!(lease(&sum, "a"), (7, None, 12));
        assert_eq!(lease(&sum, "b"), (1, Some(two), 11));
    }

    #[test]
    fn the_last_to_claim_a_resource_has_it_whoever_else_goes() {
        let (one, two) = (MemberId::generate(), MemberId::generate());
        let sum = Sum::of([
            claimed(&one, "a", 7, 11),
            Note::Retired { id: one, seq: 12 },
            claimed(&two, "a", 8, 13),
            Note::Retired { id: MemberId::generate(), seq: 14 },
        ]);
        assert_eq!(lease(&sum, "a"), (8, Some(two.clone()), 13));
        assert_eq!(sum.sessions.keys().collect::<Vec<_>>(), [&two]);
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let notes = vec![
            claimed(&MemberId::generate(), "a", 7, 11),
            Note::Retired { id: MemberId::generate(), seq: 12 },
        ];
        let text = serde_json::to_string(&notes).expect("it is JSON");
        assert_eq!(serde_json::from_str::<Vec<Note>>(&text).expect("it can be read"), notes);
    }
}
