//! One write transaction: the era as it found it, and what the calls in it make of it.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Params, Row, named_params};

use super::connect::complete;
use super::era::{EraRow, Remembered, has_forgotten, integer, nonce_bits};
use super::failure::Stop;
use super::files::Identity;
use crate::lease::{Nonce, Pool};

/// A write transaction in which calls of several callers share a commit.
///
/// Invariant: it holds the file's lock only between its own statements; dropped without a commit, it rolls back.
#[derive(Debug)]
pub(super) struct Transaction<'c> {
    connection: &'c Connection,
    state: State,
    committed: bool,
}

/// What a call that fails must not leave behind in memory.
#[derive(Debug, Clone)]
struct State {
    era: EraRow,
    stepped: bool,
    news: BTreeSet<Pool>,
    era_is_new: bool,
}

/// What a transaction did.
#[derive(Debug)]
pub(super) struct Committed {
    pub(super) era: EraRow,
    /// The pools with something worth a hint.
    pub(super) news: BTreeSet<Pool>,
    /// The era began, or thawed: that concerns every pool.
    pub(super) era_is_new: bool,
}

/// How a caller's era stands to the store's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Present,
    /// The store had it: the caller slept through a thaw.
    Past,
    /// The store never had it: the store has forgotten.
    Unknown,
}

impl<'c> Transaction<'c> {
    /// Begins, and freezes the store if it has forgotten something.
    pub(super) fn begin(
        connection: &'c Connection,
        real: &Identity,
        remembered: Option<Remembered>,
    ) -> Result<Self, Stop> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let era = EraRow::read(connection).inspect_err(|_| roll_back(connection))?;
        let state = State { era, stepped: false, news: BTreeSet::new(), era_is_new: false };
        let mut transaction = Self { connection, state, committed: false };
        transaction.notice(real, remembered)?;
        Ok(transaction)
    }

    fn notice(&mut self, real: &Identity, remembered: Option<Remembered>) -> Result<(), Stop> {
        let forgotten = has_forgotten(self.era(), real, remembered.as_ref(), |nonce| self.had(nonce))?;
        if let Some(mine) = remembered {
            if forgotten {
                self.state.era.seq = self.state.era.seq.max(mine.seq);
            }
            if (forgotten || self.era().frozen) && self.era().ttl_max_ms < mine.ttl_max_ms {
                // Whoever thaws must wait for everybody that anybody remembers.
                self.raise_ttl_max(mine.ttl_max_ms);
                self.step();
            }
            if mine.nonce != self.era().nonce && (forgotten || self.era().frozen) && !self.had(mine.nonce)? {
                self.step();
                self.run(include_str!("past_add.sql"), named_params! {":nonce": nonce_bits(mine.nonce)})?;
            }
        }
        if forgotten {
            // What was put in the file's place may be from before something was added to it.
            complete(self.connection)?;
            self.state.era.identity = real.clone();
            self.freeze()?;
        }
        Ok(())
    }

    /// The era as it stands in this transaction.
    pub(super) fn era(&self) -> &EraRow {
        &self.state.era
    }

    /// The number under which this transaction's changes are found by readers.
    pub(super) fn step(&mut self) -> i64 {
        if !self.state.stepped {
            self.state.stepped = true;
            self.state.era.seq += 1;
        }
        integer(self.state.era.seq)
    }

    /// Says that a pool changed in a way worth a hint.
    pub(super) fn tell(&mut self, pool: &Pool) {
        self.state.news.insert(pool.clone());
    }

    /// Begins a new era in which nothing is granted or ended until it is thawed.
    pub(super) fn freeze(&mut self) -> Result<Nonce, Stop> {
        self.step();
        let over = nonce_bits(self.state.era.nonce);
        self.run(include_str!("past_add.sql"), named_params! {":nonce": over})?;
        self.state.era.nonce = Nonce::generate();
        self.state.era.frozen = true;
        self.state.era_is_new = true;
        tracing::warn!(nonce = %self.state.era.nonce, "the store may have forgotten something; it is frozen");
        Ok(self.state.era.nonce)
    }

    /// Goes on in the same era, with tokens above every one that may have been forgotten.
    pub(super) fn thaw(&mut self, token_base: u64) {
        self.step();
        self.state.era.frozen = false;
        self.state.era.token_base = self.state.era.token_base.max(token_base);
        self.state.era_is_new = true;
    }

    pub(super) fn raise_ttl_max(&mut self, ttl_ms: u64) {
        self.state.era.ttl_max_ms = self.state.era.ttl_max_ms.max(ttl_ms);
    }

    pub(super) fn standing(&self, era: Nonce) -> Result<Standing, Stop> {
        Ok(match era {
            era if era == self.era().nonce => Standing::Present,
            era if self.had(era)? => Standing::Past,
            _ => Standing::Unknown,
        })
    }

    fn had(&self, nonce: Nonce) -> rusqlite::Result<bool> {
        let mut statement = self.connection.prepare_cached(include_str!("past.sql"))?;
        statement.query_row(named_params! {":nonce": nonce_bits(nonce)}, |row| row.get(0))
    }

    /// Runs a statement and says how many rows it changed.
    pub(super) fn run(&self, sql: &str, params: impl Params) -> Result<usize, Stop> {
        Ok(self.connection.prepare_cached(sql)?.execute(params)?)
    }

    /// The one row a statement gives back, if there is one.
    pub(super) fn row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Stop> {
        Ok(self.connection.prepare_cached(sql)?.query_row(params, read).optional()?)
    }

    /// All rows a statement gives back.
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Stop> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, read)?.collect::<Result<_, _>>()?;
        Ok(rows)
    }

    /// Runs one call so that its failure leaves nothing behind and the others in the batch go on.
    pub(super) fn attempt(&mut self, call: impl FnOnce(&mut Self) -> Result<(), Stop>) -> Result<(), Stop> {
        self.run("SAVEPOINT call", [])?;
        let before = self.state.clone();
        let outcome = call(self);
        if outcome.is_err() && self.is_open() {
            self.state = before;
            self.run("ROLLBACK TO call", [])?;
        }
        if self.is_open() {
            self.run("RELEASE call", [])?;
        }
        outcome
    }

    /// A number that changes when another connection has written to the file.
    pub(super) fn others(&self) -> Result<i64, Stop> {
        Ok(self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
    }

    /// Whether SQLite still has the transaction: some failures roll it back as a whole.
    pub(super) fn is_open(&self) -> bool {
        !self.connection.is_autocommit()
    }

    pub(super) fn commit(mut self) -> Result<Committed, Stop> {
        if self.state.stepped {
            self.state.era.write(self.connection)?;
        }
        for pool in &self.state.news {
            let seq = integer(self.state.era.seq);
            self.run(include_str!("news.sql"), named_params! {":pool": pool.as_str(), ":seq": seq})?;
        }
        self.run("COMMIT", [])?;
        self.committed = true;
        let State { era, news, era_is_new, .. } = self.state.clone();
        Ok(Committed { era, news, era_is_new })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.committed {
            roll_back(self.connection);
        }
    }
}

fn roll_back(connection: &Connection) {
    if !connection.is_autocommit() {
        // A rollback that fails leaves a connection that refuses everything; the writer opens another.
        let _ = connection.execute_batch("ROLLBACK");
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure::Failure;
    use super::*;

    fn real() -> Identity {
        Identity::from_text("1:1".to_owned())
    }

    /// A file of our own with its first era.
    fn file() -> Connection {
        let connection = Connection::open_in_memory().expect("memory");
        connection.execute_batch(include_str!("schema.sql")).expect("the schema is good");
        let era =
            EraRow { identity: real(), nonce: Nonce(1), frozen: false, token_base: 0, ttl_max_ms: 0, seq: 1 };
        era.create(&connection).expect("the first era");
        connection
    }

    fn begin(connection: &Connection) -> Transaction<'_> {
        Transaction::begin(connection, &real(), None).expect("nobody else is here")
    }

    #[test]
    fn what_is_dropped_without_a_commit_is_rolled_back() {
        let connection = file();
        let mut dropped = begin(&connection);
        assert_eq!(dropped.step(), 2);
        dropped.state.era.write(&connection).expect("written");
        drop(dropped);
        assert!(connection.is_autocommit(), "the lock is free");
        assert_eq!(EraRow::read(&connection).expect("an era").seq, 1);
    }

    #[test]
    fn what_is_committed_stays() {
        let connection = file();
        let mut kept = begin(&connection);
        kept.step();
        assert_eq!(kept.commit().expect("committed").era.seq, 2);
        assert!(connection.is_autocommit(), "the lock is free");
        assert_eq!(EraRow::read(&connection).expect("an era").seq, 2);
    }

    #[test]
    fn a_failure_that_ends_the_whole_transaction_is_told_as_it_is() {
        let connection = file();
        let mut broken = begin(&connection);
        let outcome = broken.attempt(|txn| {
            txn.run("ROLLBACK", [])?;
            Err(Failure::misconfigured("as planned").into())
        });
        assert!(matches!(outcome, Err(Stop::Refused(_))), "{outcome:?}");
        assert!(!broken.is_open());
    }
}
