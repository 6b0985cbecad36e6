//! Hints: in process with every commit, across processes by watching the file.
//!
//! A hint says no more than "read again". Beats and ledger rows give none: who listens for beats reads anyway.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::watch;

use super::Shared;
use super::era::EraRow;
use super::reader::Eye;
use super::sessions::parse;
use crate::lease::{Nonce, Pool};
use crate::store::{Hint, Hints};

/// How often the file is looked at while somebody listens.
const PERIOD: Duration = Duration::from_millis(10);

/// Who listens to which pool.
#[derive(Debug, Default)]
pub(super) struct Watch {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pools: HashMap<Pool, Listeners>,
    closed: bool,
}

#[derive(Debug)]
struct Listeners {
    hints: watch::Sender<u64>,
    /// The `seq` of the newest change they were told of.
    told: u64,
}

impl Watch {
    /// The hints of a pool from now on.
    pub(super) fn listen(&self, pool: &Pool) -> Hints {
        let mut state = self.lock();
        if state.closed {
            return Box::pin(PoolHints::of(watch::channel(0).1));
        }
        let listeners = state
            .pools
            .entry(pool.clone())
            .or_insert_with(|| Listeners { hints: watch::channel(0).0, told: 0 });
        let hints = listeners.hints.subscribe();
        drop(state);
        self.wake.notify_all();
        Box::pin(PoolHints::of(hints))
    }

    /// Some pools changed under `seq`.
    pub(super) fn tell(&self, pools: &BTreeSet<Pool>, seq: u64) {
        let mut state = self.lock();
        for pool in pools {
            if let Some(listeners) = state.pools.get_mut(pool).filter(|listeners| listeners.told < seq) {
                listeners.told = seq;
                listeners.hints.send_modify(|count| *count += 1);
            }
        }
    }

    /// Something changed that concerns every pool.
    pub(super) fn tell_everybody(&self) {
        for listeners in self.lock().pools.values_mut() {
            // In a new era numbers may begin anew.
            listeners.told = 0;
            listeners.hints.send_modify(|count| *count += 1);
        }
    }

    /// Ends all hints and the watching.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.pools.clear();
        drop(state);
        self.wake.notify_all();
    }

    /// Waits a period, or longer if nobody listens; `false` once it is over.
    fn rest(&self) -> bool {
        let mut state = self.lock();
        if !state.closed {
            state = self.wake.wait_timeout(state, PERIOD).unwrap_or_else(PoisonError::into_inner).0;
        }
        loop {
            state.pools.retain(|_, listeners| listeners.hints.receiver_count() > 0);
            if state.closed || !state.pools.is_empty() {
                return !state.closed;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at the file while anybody listens.
pub(super) fn serve(shared: &Arc<Shared>) {
    let mut sight: Option<Sight> = None;
    while shared.watch.rest() {
        let still = sight.take().filter(|sight| sight.eye.is_current(shared));
        // What cannot be seen now is looked for again next time: a hint may be late.
        sight = match still {
            Some(mut seen) => seen.look(shared).is_ok().then_some(seen),
            None => Sight::open(shared),
        };
    }
}

/// What the file looked like last time.
struct Sight {
    eye: Eye,
    data_version: i64,
    era: Option<(Nonce, bool)>,
}

impl Sight {
    fn open(shared: &Shared) -> Option<Self> {
        shared.nudge().ok()?;
        let eye = Eye::open(shared).ok()?;
        let mut sight = Self { eye, data_version: -1, era: None };
        sight.look(shared).is_ok().then_some(sight)
    }

    fn look(&mut self, shared: &Shared) -> rusqlite::Result<()> {
        let connection = &self.eye.connection;
        let version = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if version == self.data_version {
            return Ok(());
        }
        let era = EraRow::read(connection)?;
        let seen = Some((era.nonce, era.frozen));
        if self.era != seen {
            shared.watch.tell_everybody();
        }
        let mut statement = connection.prepare_cached("SELECT pool, seq FROM news")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            shared.watch.tell(&BTreeSet::from([parse(row.get(0)?)?]), row.get(1)?);
        }
        self.data_version = version;
        self.era = seen;
        Ok(())
    }
}

type Next = Pin<Box<dyn Future<Output = Option<watch::Receiver<u64>>> + Send>>;

/// The hints of one pool; those that come while nobody looks are merged.
struct PoolHints {
    next: Next,
}

impl PoolHints {
    fn of(mut hints: watch::Receiver<u64>) -> Self {
        Self { next: Box::pin(async move { hints.changed().await.ok().map(|()| hints) }) }
    }
}

impl Stream for PoolHints {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        match self.next.as_mut().poll(context) {
            Poll::Ready(Some(hints)) => {
                *self = Self::of(hints);
                Poll::Ready(Some(Hint::Changed))
            }
            Poll::Ready(None) => {
                // A stream that has ended may be asked again.
                self.next = Box::pin(std::future::ready(None));
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
