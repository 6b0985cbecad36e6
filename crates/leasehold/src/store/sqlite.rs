//! The embedded store: one SQLite file shared by the processes of one host.
//!
//! Three threads serve a handle. The *writer* owns the one connection that writes and lets callers that come
//! together share a commit; the *reader* answers from snapshots; the *watch* turns other processes' commits
//! into hints. Asynchronous callers send them closures and wait; whoever stops waiting does not stop the call.
//!
//! # What is durable
//!
//! What decides ownership is on the disk when it is answered. Heartbeats and ledger rows are not waited for: they
//! survive the death of every process, and when the machine dies its members die with it.
//!
//! # When the file forgets
//!
//! A file can be deleted, replaced, or overwritten by an older copy while members hold what it said. Every
//! transaction compares the path with the file that is open, the file's recorded identity with its real one, the
//! counter in the file with the highest this handle has seen, and the eras that the file had with the one this handle
//! lived through; what does not fit freezes the store. A new file begins frozen unless nobody is here who can remember
//! another.

mod checkup;
mod company;
mod connect;
mod draft;
mod era;
mod failure;
mod files;
mod leases;
mod ledger;
mod notes;
mod queue;
mod reader;
mod registry;
mod sessions;
mod transaction;
mod watch;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::oneshot;

use self::era::{EraRow, Remembered};
use self::failure::{Failure, Stop};
use self::files::Identity;
use self::ledger::LINES_MAX;
use self::queue::Queue;
use self::reader::{About, Question};
use self::sessions::Opening;
use self::transaction::Transaction;
use self::watch::Watch;
use self::writer::{Class, Ground, Work, Writer};
use super::{
    Acquired, Answer, Capabilities, Changed, Checkup, Claimed, Cursor, EndSilent, Freed, Grade, Guard, Hints,
    LeaseRecord, LeaseStore, OpenSession, Profile, Pulse, Reasserted, Release, Released, Revoked,
    SessionRecord, StoreError, Thawed, Wanted,
};
use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term};

/// The most items one call may carry: the file's lock is not held for longer than that takes.
const ITEMS_MAX: usize = 256;

/// A store in a SQLite file. Dropping it ends its threads, after what was sent to them.
#[derive(Debug)]
pub struct SqliteStore {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What the handle and its threads share.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    writes: Queue<Work>,
    reads: Queue<Question>,
    watch: Watch,
    remembered: Mutex<Option<Remembered>>,
    standing_on: Mutex<Option<Identity>>,
    /// How many readers wait until everything is settled.
    waiting_to_read: AtomicUsize,
    /// How many rows the ledger keeps.
    rows_max: AtomicU64,
}

impl SqliteStore {
    /// Opens the store at `path` and creates it if there is none.
    ///
    /// # Errors
    /// *Misconfigured* where the path cannot be used: it is a directory or lies in none, it is read-only, it is
    /// not a database, not ours, or was written by a newer version. *Unavailable* where trying again may help.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let path = std::path::absolute(path).map_err(|error| Failure::of_io(path, &error))?;
        let (reply, answer) = oneshot::channel();
        // The file system may be slow, and waiting for another process takes a while.
        let opening = move || {
            let _ = reply.send(Self::start(path));
        };
        std::thread::Builder::new().name("leasehold-open".to_owned()).spawn(opening).map_err(no_thread)?;
        answer
            .await
            .unwrap_or_else(|_| Err(Failure::unavailable("the store could not be opened")))
            .map_err(StoreError::from)
    }

    fn start(path: PathBuf) -> Result<Self, Failure> {
        let shared = Arc::new(Shared {
            path,
            writes: Queue::default(),
            reads: Queue::default(),
            watch: Watch::default(),
            remembered: Mutex::default(),
            standing_on: Mutex::default(),
            waiting_to_read: AtomicUsize::new(0),
            rows_max: AtomicU64::new(LINES_MAX),
        });
        let writer = Writer::attach(Arc::clone(&shared))?;
        // Dropped on the way out if a thread cannot be started: that stops those that were.
        let mut store = Self { shared, threads: Vec::new() };
        store.spawn("leasehold-write", move |_| writer.serve())?;
        store.spawn("leasehold-read", |shared| reader::serve(&shared))?;
        store.spawn("leasehold-watch", |shared| watch::serve(&shared))?;
        Ok(store)
    }

    fn spawn(&mut self, name: &str, serve: impl FnOnce(Arc<Shared>) + Send + 'static) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || serve(shared));
        self.threads.push(thread.map_err(no_thread)?);
        Ok(())
    }

    /// Has the writer run a call and waits for its commit.
    async fn write<T: Send + 'static>(
        &self,
        how: (Class, Ground),
        call: impl FnMut(&mut Transaction<'_>) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = self.shared.send(how, call)?.await;
        Ok(answer.unwrap_or_else(|_| Err(self.shared.stopped()))?)
    }

    /// Has the reader answer a question.
    async fn read<T: Send + 'static>(
        &self,
        about: About,
        question: impl FnOnce(&Connection, &EraRow) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = self.shared.ask(about, question)?.await;
        Ok(answer.unwrap_or_else(|_| Err(self.shared.stopped()))?)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.shared.watch.close();
        self.shared.reads.close();
        // The writer goes last: the others may be waiting for it.
        let writer = (!self.threads.is_empty()).then(|| self.threads.remove(0));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.shared.writes.close();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

impl Shared {
    fn remembered(&self) -> Option<Remembered> {
        *self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what was just read or written; what is older in the same era says nothing new.
    fn remember(&self, new: Remembered) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if !remembered.is_some_and(|old| old.nonce == new.nonce && old.seq > new.seq) {
            *remembered = Some(new);
        }
    }

    fn standing_on(&self) -> Option<Identity> {
        self.standing_on.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn stand_on(&self, identity: &Identity) {
        *self.standing_on.lock().unwrap_or_else(PoisonError::into_inner) = Some(identity.clone());
    }

    fn stopped(&self) -> Failure {
        Failure::unavailable(format!("the store on {} has stopped", self.path.display()))
    }

    fn overrun(&self) -> Failure {
        let shown = self.path.display();
        Failure::unavailable(format!("the store on {shown} has stopped or has too many calls waiting"))
    }
}

fn no_thread(error: std::io::Error) -> Failure {
    Failure::unavailable(format!("cannot start a thread for the store: {error}"))
}

/// How a call of so many items is treated.
fn class_of(items: usize) -> Class {
    if items > 1 { Class::Bulk } else { Class::Durable }
}

fn within_limit(items: usize) -> Result<(), StoreError> {
    if items <= ITEMS_MAX {
        return Ok(());
    }
    Err(StoreError::misconfigured(format!("a call carries {items} items; at most {ITEMS_MAX} are allowed")))
}

#[async_trait]
impl LeaseStore for SqliteStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { batch_max: ITEMS_MAX, pushes_changes: true, grade: Grade::DurableOnOneNode }
    }

    fn show_as(&self, _: &Pool, _: &ResourceId, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn guard(&self, holder: &OpenSession, term: &Term) -> Option<Guard> {
        Some(Guard::of_row("leases", "", holder, term))
    }

    async fn checkup(&self) -> Result<Checkup, StoreError> {
        let path = self.shared.path.clone();
        self.read(About::Aside, move |connection, _| checkup::look_over(connection, &path)).await
    }

    async fn open(&self, session: &OpenSession) -> Result<Answer<Nonce>, StoreError> {
        let session = Opening::of(session)?;
        self.write((Class::Durable, Ground::Rows), move |txn| sessions::open(txn, &session)).await
    }

    async fn beat(&self, session: &MemberId, pulse: Pulse) -> Result<Answer<Vec<Term>>, StoreError> {
        let id = session.clone();
        self.write((Class::Beat, Ground::Own(id.clone())), move |txn| sessions::beat(txn, &id, pulse)).await
    }

    async fn describe(
        &self,
        session: &MemberId,
        pulse: Pulse,
        profile: &Profile,
    ) -> Result<Answer<()>, StoreError> {
        let (id, profile) = (session.clone(), profile.clone());
        self.write((Class::Lazy, Ground::Rows), move |txn| sessions::describe(txn, &id, pulse, &profile))
            .await
    }

    async fn close(&self, session: &MemberId) -> Result<(), StoreError> {
        let id = session.clone();
        self.write((Class::Durable, Ground::Own(id.clone())), move |txn| sessions::close(txn, &id).map(drop))
            .await
    }

    async fn retire(&self, session: &MemberId) -> Result<(), StoreError> {
        let id = session.clone();
        self.write((Class::Durable, Ground::Notes), move |txn| sessions::retire(txn, &id)).await
    }

    async fn end_silent(
        &self,
        session: &MemberId,
        heard: BeatNumber,
        era: Nonce,
    ) -> Result<EndSilent, StoreError> {
        let id = session.clone();
        self.write((Class::Durable, Ground::Rows), move |txn| sessions::end_silent(txn, &id, heard, era))
            .await
    }

    async fn acquire(
        &self,
        session: &MemberId,
        pulse: Pulse,
        wanted: &[Wanted],
    ) -> Result<Answer<Vec<Acquired>>, StoreError> {
        within_limit(wanted.len())?;
        let (id, wanted) = (session.clone(), wanted.to_vec());
        self.write((class_of(wanted.len()), Ground::Rows), move |txn| {
            leases::acquire(txn, &id, pulse, &wanted)
        })
        .await
    }

    async fn claim(&self, session: &OpenSession, wanted: &Wanted) -> Result<Answer<Claimed>, StoreError> {
        let (session, wanted) = (Opening::of(session)?, wanted.clone());
        self.write((Class::Durable, Ground::Notes), move |txn| leases::claim(txn, &session, &wanted)).await
    }

    async fn release(
        &self,
        session: &MemberId,
        pulse: Pulse,
        terms: &[Release],
    ) -> Result<Answer<Vec<Released>>, StoreError> {
        within_limit(terms.len())?;
        let (id, terms) = (session.clone(), terms.to_vec());
        self.write((class_of(terms.len()), Ground::Rows), move |txn| leases::release(txn, &id, pulse, &terms))
            .await
    }

    async fn revoke(&self, pool: &Pool, term: &Term) -> Result<Revoked, StoreError> {
        let (pool, term) = (pool.clone(), term.clone());
        self.write((Class::Durable, Ground::Rows), move |txn| leases::revoke(txn, &pool, &term)).await
    }

    async fn free_revoked(&self, pool: &Pool, term: &Term, era: Nonce) -> Result<Freed, StoreError> {
        let (pool, term) = (pool.clone(), term.clone());
        self.write((Class::Durable, Ground::Rows), move |txn| leases::free_revoked(txn, &pool, &term, era))
            .await
    }

    async fn free_orphan(
        &self,
        pool: &Pool,
        holder: &MemberId,
        term: &Term,
        era: Nonce,
    ) -> Result<Freed, StoreError> {
        let (pool, holder, term) = (pool.clone(), holder.clone(), term.clone());
        self.write((Class::Durable, Ground::Rows), move |txn| {
            leases::free_orphan(txn, &pool, &holder, &term, era)
        })
        .await
    }

    async fn reassert(
        &self,
        session: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
        let (session, terms) = (session.clone(), terms.to_vec());
        self.write((Class::Bulk, Ground::Rows), move |txn| sessions::reassert(txn, &session, pulse, &terms))
            .await
    }

    async fn thaw(&self, nonce: Nonce) -> Result<Thawed, StoreError> {
        self.write((Class::Durable, Ground::Rows), move |txn| sessions::thaw(txn, nonce)).await
    }

    async fn collect(&self, session: &MemberId) -> Result<(), StoreError> {
        let id = session.clone();
        self.write((Class::Durable, Ground::Own(id.clone())), move |txn| sessions::collect(txn, &id)).await
    }

    async fn sessions(&self, pool: &Pool, since: Cursor) -> Result<Changed<SessionRecord>, StoreError> {
        let pool = pool.clone();
        self.read(About::Rows, move |connection, era| reader::sessions(connection, era, &pool, since)).await
    }

    async fn leases(&self, pool: &Pool, since: Cursor) -> Result<Changed<LeaseRecord>, StoreError> {
        let pool = pool.clone();
        self.read(About::Rows, move |connection, era| reader::leases(connection, era, &pool, since)).await
    }

    async fn pools(&self) -> Result<Vec<Pool>, StoreError> {
        self.read(About::Rows, |connection, _| reader::pools(connection)).await
    }

    fn changes(&self, pool: &Pool) -> Hints {
        self.shared.watch.listen(pool)
    }
}
