//! Events of one pool as server-sent events, for whoever stays connected.
//!
//! Each carries the number of its row as its id. A client that comes back says the last one it has seen, and goes on behind it:
//! without a gap and without a repetition. If rows were dropped from the ledger in between, it is told so first.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse;
use futures_core::Stream;
use futures_util::stream::{self, StreamExt};
use leasehold::lease::{Pool, ResourceId};
use leasehold::ledger::Entry;
use leasehold::store::{Hints, Store, StoreError};
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use utoipa::IntoParams;

use super::sink::{Event, Tenants};
use crate::access::Identity;
use crate::app::App;
use crate::problem::{Answer, Problem, ProblemBody};
use crate::rest::Query;

/// How many rows are read at once.
const BATCH: usize = 256;
/// Without a hint the ledger is read this often.
const PERIOD: Duration = Duration::from_secs(1);
/// A row follows the change that gives the hint.
const SETTLE: Duration = Duration::from_millis(50);
/// How often something is sent where nothing happens.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Events of this pool.
    pool: String,
    /// Only events of this resource.
    resource: Option<String>,
    /// Only rows behind this one; without it from the oldest that the ledger has.
    after: Option<u64>,
}

/// Events of a pool, as they happen
///
/// Server-sent events without end. Each has the number of its row as its `id` and the event as JSON in `data`. A client that
/// comes back with `Last-Event-ID` goes on where it was; if rows were dropped meanwhile, an event `gap` comes first.
#[utoipa::path(get, path = "/api/v1/events", operation_id = "follow_events", tag = "events", params(Which), responses(
    (status = 200, description = "the events", content_type = "text/event-stream"),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "too many streams are open, or the store does not answer", body = ProblemBody),
))]
pub(crate) async fn follow(
    State(app): State<App>,
    identity: Identity,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Answer<sse::Sse<impl Stream<Item = Result<sse::Event, Infallible>>>> {
    let pool = identity.pool(&which.pool)?;
    let resource = which.resource.map(ResourceId::new).transpose();
    let resource = resource.map_err(|error| Problem::invalid(error.to_string()))?;
    let begin = Begin::asked(&headers, which.after)?;
    let mut tenants = Tenants::default();
    // What the caller calls otherwise than the store is a tenant's.
    if let Some(tenant) = pool.as_str().strip_suffix(&format!(".{}", which.pool)) {
        tenants.insert(tenant);
    }
    stream(&app, &identity, pool, resource, tenants, begin, Box::new(|_| true))
}

/// Which events somebody wants.
pub(crate) type Wanted = Box<dyn Fn(&Event) -> bool + Send + Sync>;

/// The events of a pool that are wanted, as they happen.
pub(crate) fn stream(
    app: &App,
    identity: &Identity,
    pool: Pool,
    resource: Option<ResourceId>,
    tenants: Tenants,
    begin: Begin,
    wanted: Wanted,
) -> Answer<sse::Sse<impl Stream<Item = Result<sse::Event, Infallible>> + use<>>> {
    let (after, check) = match begin {
        Begin::After(row) => (row, false),
        Begin::Seen(row) => (row, row > 0),
    };
    let (store, hints) = (Arc::clone(app.store()), app.store().changes(&pool));
    let waiting = VecDeque::new();
    let follower = Follower { store, pool, resource, tenants, after, hints, waiting, check, wanted };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await;
        Some((Ok(event), follower))
    });
    let events = events.take_until(Box::pin(app.stream_permit(identity)?.ended()));
    Ok(sse::Sse::new(events).keep_alive(sse::KeepAlive::new().interval(KEEP_ALIVE)))
}

struct Follower {
    store: Arc<dyn Store>,
    pool: Pool,
    resource: Option<ResourceId>,
    tenants: Tenants,
    after: u64,
    hints: Hints,
    waiting: VecDeque<Event>,
    /// Whether it is still to be found out if rows behind `after` were dropped.
    check: bool,
    wanted: Wanted,
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
                    tracing::debug!(%error, pool = %self.pool, "a stream of events waits for the store");
                    sleep(PERIOD).await;
                }
            }
        }
    }

    /// Reads on. Answers what is to be said about rows that are gone.
    async fn read(&mut self) -> Result<Option<sse::Event>, StoreError> {
        if self.check {
            let there = self.store.ledger(&self.pool, None, self.after - 1, 1).await?;
            self.check = false;
            let first = there.first().map(|(row, _)| *row);
            if first != Some(self.after) {
                // Nothing of what the client has seen is left, or it saw another ledger: what there is, is new.
                let seen = self.after;
                self.after = first.map_or(0, |_| seen);
                let data = serde_json::json!({ "after": seen, "next": first });
                return Ok(Some(sse::Event::default().event("gap").data(data.to_string())));
            }
        }
        loop {
            let rows = self.store.ledger(&self.pool, self.resource.as_ref(), self.after, BATCH).await?;
            let event = |(row, entry): &(u64, Entry)| Event::of(&self.pool, *row, entry, &self.tenants);
            self.waiting.extend(rows.iter().filter_map(event).filter(|event| (self.wanted)(event)));
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
pub(crate) enum Begin {
    /// Behind any row number; 0 is the beginning of what the ledger keeps.
    After(u64),
    /// Behind a row that the client was sent earlier.
    Seen(u64),
}

impl Begin {
    /// Where a request asks to begin.
    pub(crate) fn asked(headers: &HeaderMap, after: Option<u64>) -> Answer<Self> {
        let seen = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?"));
        Self::of(seen, after).map_err(|_| {
            Problem::invalid("Last-Event-ID is not the number of a row; leave it out to begin anew")
        })
    }

    /// Behind the last row that the client has seen, if it says so, else where it asks to begin.
    fn of(last_event_id: Option<&str>, after: Option<u64>) -> Result<Self, std::num::ParseIntError> {
        match last_event_id.map(str::trim).filter(|id| !id.is_empty()) {
            Some(id) => id.parse().map(Self::Seen),
            None => Ok(Self::After(after.unwrap_or(0))),
        }
    }
}
