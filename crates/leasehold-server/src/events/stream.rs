//! Events of one pool as server-sent events, for whoever stays connected.
//!
//! Each carries the number of its row as its id. A client that comes back says the last one it has seen, and goes on behind it:
//! without a gap and without a repetition. If rows were dropped from the ledger in between, it is told so first.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse;
use futures_core::Stream;
use futures_util::stream::{self, StreamExt};
use leasehold::lease::{Pool, ResourceId};
use leasehold::store::{Hints, Store, StoreError};
use tokio::time::{sleep, timeout};

use super::sink::{Event, Tenants};

/// How many rows are read at once.
const BATCH: usize = 256;
/// Without a hint the ledger is read this often.
const PERIOD: Duration = Duration::from_secs(1);
/// A row follows the change that gives the hint.
const SETTLE: Duration = Duration::from_millis(50);
/// How often something is sent where nothing happens.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What a client asks for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The pool.
    pub pool: Pool,
    /// Only events of this resource.
    pub resource: Option<ResourceId>,
    /// Where it begins.
    pub from: Begin,
    /// Which pools are whose.
    pub tenants: Tenants,
}

/// The events, for as long as the client listens. Where the store is away they come later.
pub fn events(
    store: Arc<dyn Store>,
    asked: Asked,
) -> sse::Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    let hints = store.changes(&asked.pool);
    let (after, check) = match asked.from {
        Begin::After(row) => (row, false),
        Begin::Seen(row) => (row, row > 0),
    };
    let follower = Follower { store, after, asked, hints, waiting: VecDeque::new(), check };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await;
        Some((Ok(event), follower))
    });
    sse::Sse::new(events).keep_alive(sse::KeepAlive::new().interval(KEEP_ALIVE))
}

struct Follower {
    store: Arc<dyn Store>,
    asked: Asked,
    after: u64,
    hints: Hints,
    waiting: VecDeque<Event>,
    /// Whether it is still to be found out if rows behind `after` were dropped.
    check: bool,
}

impl Follower {
    async fn next(&mut self) -> sse::Event {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return said(&event);
            }
            match self.read().await {
                Ok(Some(gap)) => return gap,
                Ok(None) if !self.waiting.is_empty() => {}
                Ok(None) => self.wait().await,
                Err(error) => {
                    tracing::debug!(%error, pool = %self.asked.pool, "a stream of events waits for the store");
                    sleep(PERIOD).await;
                }
            }
        }
    }

    /// Reads on. Answers what is to be said about rows that are gone.
    async fn read(&mut self) -> Result<Option<sse::Event>, StoreError> {
        if self.check {
            let there = self.store.ledger(&self.asked.pool, None, self.after - 1, 1).await?;
            self.check = false;
            let first = there.first().map(|(row, _)| *row);
            if first != Some(self.after) {
                let data = serde_json::json!({ "after": self.after, "next": first });
                return Ok(Some(sse::Event::default().event("gap").data(data.to_string())));
            }
        }
        let Asked { pool, resource, tenants, .. } = &self.asked;
        loop {
            let rows = self.store.ledger(pool, resource.as_ref(), self.after, BATCH).await?;
            let events = rows.iter().filter_map(|(row, entry)| Event::of(pool, *row, entry, tenants));
            self.waiting.extend(events);
            self.after = rows.last().map_or(self.after, |(row, _)| *row);
            if !self.waiting.is_empty() || rows.len() < BATCH {
                return Ok(None);
            }
        }
    }

    async fn wait(&mut self) {
        match timeout(PERIOD, self.hints.next()).await {
            Ok(Some(_)) => sleep(SETTLE).await,
            // Hints end with the store only; what is left is to look now and then.
            Ok(None) => sleep(PERIOD).await,
            Err(_) => {}
        }
    }
}

fn said(event: &Event) -> sse::Event {
    let data = String::from_utf8(event.json()).unwrap_or_default();
    sse::Event::default().id(event.row.to_string()).data(data)
}

/// Where a client begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Behind any row number; 0 is the beginning of what the ledger keeps.
    After(u64),
    /// Behind a row that the client was sent earlier.
    Seen(u64),
}

impl Begin {
    /// Behind the last row that the client has seen, if it says so, else where it asks to begin.
    ///
    /// # Errors
    /// What it has seen is no number.
    pub fn of(last_event_id: Option<&str>, after: Option<u64>) -> Result<Self, std::num::ParseIntError> {
        match last_event_id.map(str::trim).filter(|id| !id.is_empty()) {
            Some(id) => id.parse().map(Self::Seen),
            None => Ok(Self::After(after.unwrap_or(0))),
        }
    }
}
