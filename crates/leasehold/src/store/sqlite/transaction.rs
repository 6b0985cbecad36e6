//! One write transaction: the era as it found it, and what the calls in it make of it.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Params, Row, named_params};

use super::connect::complete;
use super::draft::Draft;
use super::era::{EraRow, Witnesses, has_forgotten, integer, nonce_bits};
use super::failure::Stop;
use super::files::Identity;
use super::notes;
use crate::lease::{MemberId, Nonce, Pool};

/// A write transaction in which calls of several callers share a commit.
///
/// Invariant: it holds the file's lock only between its own statements; dropped without a commit, it rolls back.
#[derive(Debug)]
pub(super) struct Transaction<'c> {
    connection: &'c Connection,
    state: State,
    draft: Draft,
    noting: bool,
    /// Whether rows may be changed that no note is about.
    lifted: bool,
    /// A number that changes when another connection has written to the file.
    version: i64,
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
    /// What is noted now.
    pub(super) draft: Draft,
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
    /// Begins, and freezes the store if it has forgotten something. What is noted in the file is what `draft` says, or is
    /// settled if that cannot be known; `noting` says whether more may be noted.
    pub(super) fn begin(
        connection: &'c Connection,
        real: &Identity,
        witnesses: &Witnesses,
        (draft, noting): (Draft, bool),
    ) -> Result<Self, Stop> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let found = EraRow::read(connection).and_then(|era| Ok((era, data_version(connection)?)));
        let (era, version) = found.inspect_err(|_| roll_back(connection))?;
        let state = State { era, stepped: false, news: BTreeSet::new(), era_is_new: false };
        let mut transaction =
            Self { connection, state, draft, noting, lifted: false, version, committed: false };
        transaction.notice(real, witnesses)?;
        if transaction.state.era_is_new || !transaction.draft.is_of(version) {
            transaction.settle_file()?;
        }
        Ok(transaction)
    }

    /// Whether claims may be noted. A frozen store judges everything by its rows.
    pub(super) fn takes_notes(&self) -> bool {
        self.noting && !self.era().frozen
    }

    pub(super) fn draft(&self) -> &Draft {
        &self.draft
    }

    pub(super) fn draft_mut(&mut self) -> &mut Draft {
        &mut self.draft
    }

    /// Makes rows of what is noted: whoever decides by rows, or changes them, does so after this.
    pub(super) fn settle(&mut self) -> Result<(), Stop> {
        if self.draft.is_settled() {
            // What is known of rows may be out of date after whatever comes now.
            self.draft = Draft::settled(self.version);
            return Ok(());
        }
        notes::settle(self, self.draft.sum())?;
        self.draft = Draft::settled(self.version);
        Ok(())
    }

    /// The same for whoever decides by the row of one session and by leases whose rows name it, and changes nothing else: only
    /// if a note is about it.
    pub(super) fn settle_for(&mut self, id: &MemberId) -> Result<(), Stop> {
        if self.draft.has(id) {
            return self.settle();
        }
        if !self.draft.is_settled() && !self.lifted {
            self.run("INSERT INTO lifted (one) VALUES (1)", [])?;
            self.lifted = true;
        }
        Ok(())
    }

    /// The same where it is not known what the notes in the file are.
    fn settle_file(&mut self) -> Result<(), Stop> {
        if notes::any(self.connection)? {
            notes::settle(self, &notes::read(self)?)?;
        }
        self.draft = Draft::settled(self.version);
        Ok(())
    }

    fn note(&mut self) -> Result<(), Stop> {
        match self.draft.take_fresh() {
            Some(notes) => notes::add(self, &notes),
            None => Ok(()),
        }
    }

    fn notice(&mut self, real: &Identity, witnesses: &Witnesses) -> Result<(), Stop> {
        let forgotten = has_forgotten(self.era(), real, witnesses, |nonce| self.had(nonce))?;
        for known in witnesses.iter().flatten() {
            if forgotten {
                self.state.era.seq = self.state.era.seq.max(known.seq);
                // Whoever lived through it is over here, and that is no news to be noticed again.
                self.run(include_str!("past_add.sql"), named_params! {":nonce": nonce_bits(known.nonce)})?;
            }
            if (forgotten || self.era().frozen) && self.era().ttl_max_ms < known.ttl_max_ms {
                // Whoever thaws must wait for everybody that anybody remembers.
                self.raise_ttl_max(known.ttl_max_ms);
                self.step();
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

    /// Runs one call so that its failure leaves nothing behind and the others in the batch go on. For a transaction in which nothing
    /// is noted: what is known of notes would not be set back.
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
    pub(super) fn version(&self) -> i64 {
        self.version
    }

    /// Whether SQLite still has the transaction: some failures roll it back as a whole.
    pub(super) fn is_open(&self) -> bool {
        !self.connection.is_autocommit()
    }

    pub(super) fn commit(mut self) -> Result<Committed, Stop> {
        self.note()?;
        if self.lifted {
            self.run("DELETE FROM lifted", [])?;
        }
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
        Ok(Committed { draft: std::mem::take(&mut self.draft), era, news, era_is_new })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.committed {
            roll_back(self.connection);
        }
    }
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

fn roll_back(connection: &Connection) {
    if !connection.is_autocommit() {
        // A rollback that fails leaves a connection that refuses everything; the writer opens another.
        let _ = connection.execute_batch("ROLLBACK");
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::era::Remembered;
    use super::super::failure::Failure;
    use super::*;

    fn real() -> Identity {
        Identity::from_text("1:1".to_owned())
    }

    /// Writes the first era.
    fn begin_file(connection: &Connection) {
        connection.execute_batch(include_str!("schema.sql")).expect("the schema is good");
        complete(connection).expect("the schema is good");
        let era =
            EraRow { identity: real(), nonce: Nonce(1), frozen: false, token_base: 0, ttl_max_ms: 0, seq: 1 };
        era.create(connection).expect("the first era");
    }

    /// A file of our own with its first era.
    pub(in super::super) fn file() -> Connection {
        let connection = Connection::open_in_memory().expect("memory");
        begin_file(&connection);
        connection
    }

    pub(in super::super) fn begin(connection: &Connection) -> Transaction<'_> {
        let begun = Transaction::begin(connection, &real(), &[None; 2], (Draft::default(), true));
        begun.expect("nobody else is here")
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
    fn each_era_that_a_file_never_had_freezes_it_once_whoever_knows_of_it() {
        let connection = file();
        let known = |nonce| Some(Remembered { nonce, seq: 9, ttl_max_ms: 0 });
        let era_for = |witnesses| {
            let begun = Transaction::begin(&connection, &real(), &witnesses, (Draft::default(), true));
            begun.expect("nobody else is here").commit().expect("committed").era
        };
        let (mine, others) = (Nonce(7), Nonce(8));
        let first = era_for([known(mine), None]);
        assert!(first.frozen && first.nonce != Nonce(1));
        assert_eq!(era_for([known(mine), None]), first);
        let second = era_for([known(mine), known(others)]);
        assert!(second.nonce != first.nonce, "that it is frozen does not mean that this was noticed");
        for nonce in [Nonce(1), mine, others, first.nonce, second.nonce] {
            assert_eq!(era_for([known(nonce), None]), second);
            assert_eq!(era_for([None, known(nonce)]), second);
        }
    }

    #[test]
    fn what_another_connection_commits_is_seen_and_what_is_committed_here_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Connection::open(directory.path().join("store")).expect("a file");
        let (here, there) = (open(), open());
        begin_file(&here);
        let commit = |connection: &Connection| {
            let mut txn = begin(connection);
            txn.step();
            txn.commit().expect("committed");
        };
        let others = || begin(&here).version();
        let alone = others();
        commit(&here);
        assert_eq!(others(), alone);
        commit(&there);
        assert_ne!(others(), alone);
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
