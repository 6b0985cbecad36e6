//! Rows of the ledger for those who have no member to write them.
//!
//! Invariant: rows go to the store in the order in which they were written here, and a row waits until the store has taken
//! it: events that leave the control plane are read from there.

use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::Clock;
use leasehold::ledger::{Entry, Event};
use leasehold::store::Store;
use leasehold::{MemberId, MemberName, Pool};
use tokio::sync::{mpsc, oneshot};

/// How many rows may wait for the store; more are dropped and counted.
const WAITING_MAX: usize = 65_536;
/// How many rows go into one call, and how long they are gathered for it while nobody waits for them.
const BATCH_MAX: usize = 256;
const GATHER: Duration = Duration::from_millis(10);
/// How long the store is left alone after it did not take rows.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the last rows may take when the server stops.
const FLUSH_MAX: Duration = Duration::from_secs(3);

/// Where rows are written.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    boot: Arc<str>,
    clock: Arc<dyn Clock>,
    waiting: mpsc::Sender<Message>,
}

#[derive(Debug)]
enum Message {
    Row(Pool, Box<Entry>),
    /// Says so when everything before it is in the store.
    Flush(oneshot::Sender<()>),
}

impl Rows {
    /// Rows that go to this store. The task ends with the last handle.
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let (waiting, rows) = mpsc::channel(WAITING_MAX);
        tokio::spawn(keep(store, Arc::clone(&clock), rows));
        Self { boot: clock.boot().into(), clock, waiting }
    }

    /// A row about this session, to be completed.
    pub(crate) fn row(&self, member: &MemberId, name: &MemberName, event: Event) -> Entry {
        Entry {
            wall_nanos: self.clock.wall_nanos(),
            at: self.clock.now(),
            boot: self.boot.as_ref().to_owned(),
            number: None,
            member: member.clone(),
            name: name.clone(),
            event,
            resource: None,
            token: None,
            trusted_until: None,
            ttl_ms: None,
            reason: None,
            error: None,
            other: None,
            detail: None,
        }
    }

    /// Writes a row.
    pub(crate) fn write(&self, pool: &Pool, entry: Entry) {
        entry.log(pool);
        if self.waiting.try_send(Message::Row(pool.clone(), Box::new(entry))).is_err() {
            metrics::counter!("leasehold_ledger_rows_dropped_total").increment(1);
            tracing::error!(pool = pool.as_str(), "the ledger is too far behind; a row was dropped");
        }
    }

    /// Waits until everything written so far is in the store, for a while.
    pub(crate) async fn flush(&self) {
        let _ = tokio::time::timeout(FLUSH_MAX, self.taken()).await;
    }

    /// Waits until everything written so far is in the store. Those who wait at the same time share a call.
    pub(crate) async fn taken(&self) {
        let (done, flushed) = oneshot::channel();
        if self.waiting.send(Message::Flush(done)).await.is_ok() {
            let _ = flushed.await;
        }
    }
}

async fn keep(store: Arc<dyn Store>, clock: Arc<dyn Clock>, mut waiting: mpsc::Receiver<Message>) {
    let mut messages = Vec::with_capacity(BATCH_MAX);
    while waiting.recv_many(&mut messages, BATCH_MAX).await > 0 {
        gather(&*clock, &mut waiting, &mut messages).await;
        let mut of: Option<Pool> = None;
        let (mut rows, mut waiting_for): (Vec<Entry>, Vec<oneshot::Sender<()>>) = Default::default();
        for message in messages.drain(..) {
            match message {
                Message::Row(pool, row) => {
                    if of.as_ref() != Some(&pool) {
                        append(&*store, &*clock, of.as_ref(), &mut rows).await;
                        of = Some(pool);
                    }
                    rows.push(*row);
                }
                Message::Flush(done) => waiting_for.push(done),
            }
        }
        append(&*store, &*clock, of.as_ref(), &mut rows).await;
        for done in waiting_for {
            let _ = done.send(());
        }
    }
}

/// Lets more rows come, until they fill a call, their time is up, or somebody waits for them.
async fn gather(clock: &dyn Clock, waiting: &mut mpsc::Receiver<Message>, messages: &mut Vec<Message>) {
    let is_flush = |message: &Message| matches!(message, Message::Flush(_));
    let mut wanted = messages.iter().any(is_flush);
    let mut time_is_up = clock.sleep(GATHER);
    while !wanted && messages.len() < BATCH_MAX {
        let message = tokio::select! {
            () = &mut time_is_up => None,
            message = waiting.recv() => message,
        };
        let Some(message) = message else { return };
        wanted = is_flush(&message);
        messages.push(message);
    }
}

/// Asks until the store has taken the rows.
async fn append(store: &dyn Store, clock: &dyn Clock, pool: Option<&Pool>, rows: &mut Vec<Entry>) {
    let Some(pool) = pool.filter(|_| !rows.is_empty()) else { return };
    while let Err(error) = store.append(pool, rows).await {
        tracing::warn!(%error, rows = rows.len(), "the store did not take rows of the ledger; they are kept");
        clock.sleep(PAUSE).await;
    }
    rows.clear();
}
