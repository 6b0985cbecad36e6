//! The relay of one sink: reads the ledger behind the row it came to, publishes, and writes down how far it has come.
//!
//! Invariant: a row is published only after every earlier event of its pool was confirmed or goes out before it in the same
//! call, and the position moves only after the confirmation. So whoever relays, and however many, each event arrives, and
//! events of a resource arrive for the first time in their order. A second relay of the same sink, or the same one after a
//! failure, can only repeat what was sent; compare-and-set on the position keeps two that run at once from going on side by side.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{SelectAll, StreamExt};
use leasehold::clock;
use leasehold::lease::{Nonce, Pool};
use leasehold::store::{Cursor, Hints, Mark, MarkKind, Marked, Store, StoreError, Version};
use serde::Deserialize;
use tokio::time::sleep;

use super::position::{Position, Track};
use super::sink::{Event, EventSink, SinkError, Tenants};
use crate::own::server_pool;

/// How many rows are read, and at most published, at once.
const BATCH: usize = 256;
/// Without a hint the ledger is read this often.
const PERIOD: Duration = Duration::from_secs(1);
/// A row follows the change that gives the hint.
const SETTLE: Duration = Duration::from_millis(50);
/// How long nothing is tried after a failure: at first, and at most.
const BACK_OFF: Duration = Duration::from_millis(250);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);
/// How many rows that wait are counted, in steps of a page.
const PAGE: usize = 1_000;
const PAGES_MAX: usize = 50;

/// Carries the events of every pool to one sink.
#[derive(Debug)]
pub struct Relay {
    store: Arc<dyn Store>,
    name: String,
    sink: Arc<dyn EventSink>,
    tracks: BTreeMap<Pool, Track>,
    tenants: Tenants,
    era: Option<Nonce>,
    cursor: Cursor,
    hints: Wake,
}

/// Hints of all pools.
#[derive(Default)]
struct Wake(SelectAll<Hints>);

impl std::fmt::Debug for Wake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wake({})", self.0.len())
    }
}

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error("another relay of this sink was faster")]
    Overtaken,
}

impl Relay {
    /// A relay that begins where the last one with this name was.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, name: &str, sink: Arc<dyn EventSink>) -> Self {
        let (tracks, tenants, hints) = (BTreeMap::new(), Tenants::default(), Wake::default());
        Self { store, name: name.to_owned(), sink, tracks, tenants, era: None, cursor: Cursor::START, hints }
    }

    /// Relays until it is dropped. That may be at any moment.
    pub async fn run(&mut self) {
        let mut back_off = BACK_OFF;
        loop {
            let began = clock::now();
            match self.pass().await {
                Ok(()) => {
                    back_off = BACK_OFF;
                    self.gauge(0);
                    // Many pools are read less often rather than all the time.
                    self.wait(PERIOD.max(clock::now().since(began) * 4)).await;
                }
                Err(stop) => {
                    self.begin_anew(&stop);
                    if !matches!(stop, Stop::Overtaken) {
                        metrics::counter!("leasehold_events_retries_total", "sink" => self.name.clone())
                            .increment(1);
                        tracing::warn!(sink = %self.name, error = %stop, "events wait; they are sent again");
                        self.count_waiting().await;
                    }
                    sleep(back_off).await;
                    back_off = (back_off * 2).min(BACK_OFF_MAX);
                }
            }
        }
    }

    /// Delivers everything that there is.
    async fn pass(&mut self) -> Result<(), Stop> {
        self.look().await?;
        let mut behind: Vec<Pool> = self.tracks.keys().cloned().collect();
        // One batch of each in turn: no pool keeps the others waiting.
        while !behind.is_empty() {
            let mut more = Vec::new();
            for pool in behind {
                if self.deliver(&pool).await? {
                    more.push(pool);
                }
            }
            behind = more;
        }
        Ok(())
    }

    /// Reads positions, tenants and which pools there are.
    async fn look(&mut self) -> Result<(), Stop> {
        let mut changed = self.store.marks(&server_pool(), self.cursor).await?;
        if self.era.is_some_and(|era| era != changed.era.nonce) && self.cursor != Cursor::START {
            changed = self.store.marks(&server_pool(), Cursor::START).await?;
        }
        (self.era, self.cursor) = (Some(changed.era.nonce), changed.cursor);
        for mark in &changed.items {
            self.take_in(mark);
        }
        for pool in self.store.pools().await? {
            if !pool.as_str().starts_with('_') && !self.tracks.contains_key(&pool) {
                // A pool can be gone before its last events are: it is remembered from now on.
                let track = Track::at(Position::default(), Version(0));
                let version = self.keep(&pool, track.version, &track.position).await?;
                self.hints.0.push(self.store.changes(&pool));
                self.tracks.insert(pool, Track { version, ..track });
            }
        }
        Ok(())
    }

    fn take_in(&mut self, mark: &Mark) {
        #[derive(Deserialize)]
        struct OfTenant {
            tenant: Option<String>,
        }

        let value = mark.value.as_deref();
        if mark.kind == MarkKind::Key {
            let key: Option<OfTenant> = value.and_then(|value| serde_json::from_str(value).ok());
            key.and_then(|key| key.tenant).iter().for_each(|tenant| self.tenants.insert(tenant));
        }
        let pool = mark.subject.split_once(':').filter(|(sink, _)| *sink == self.name);
        let Some(pool) = pool.and_then(|(_, pool)| Pool::new(pool).ok()) else { return };
        if mark.kind != MarkKind::Relay || self.tracks.get(&pool).is_some_and(|at| at.version == mark.version)
        {
            return;
        }
        let position = value.and_then(Position::parse).unwrap_or_else(|| {
            tracing::warn!(sink = %self.name, %pool, "where the relay was is not known; the ledger is sent from its beginning");
            Position::default()
        });
        if self.tracks.insert(pool.clone(), Track::at(position, mark.version)).is_none() {
            self.hints.0.push(self.store.changes(&pool));
        }
    }

    /// Delivers one batch of a pool. Answers whether there is more.
    async fn deliver(&mut self, pool: &Pool) -> Result<bool, Stop> {
        let Some(mut track) = self.tracks.get(pool).copied() else { return Ok(false) };
        // From the last row that was seen on, by which it is known whether rows behind it were dropped.
        let rows = self.store.ledger(pool, None, track.seen.saturating_sub(1), BATCH + 1).await?;
        let numbers: Vec<u64> = rows.iter().map(|(row, _)| *row).collect();
        let lost = track.lost(&numbers);
        let new = || numbers.iter().copied().filter(|row| *row > track.seen);
        let (first, last, count) = (new().next(), new().next_back(), new().count());
        if lost > 0 {
            self.say_lost(pool, track.seen, first, lost);
        }
        let (Some(first), Some(last)) = (first, last) else {
            if lost > 0 {
                // Nothing that was delivered is left: the next row is the first again.
                track.position = Position::default();
                track.version = self.keep(pool, track.version, &track.position).await?;
                track.seen = 0;
            }
            track.whole = true;
            self.tracks.insert(pool.clone(), track);
            return Ok(false);
        };
        let events: Vec<Event> = rows
            .iter()
            .filter(|(row, _)| *row > track.seen)
            .filter_map(|(row, entry)| Event::of(pool, *row, entry, &self.tenants))
            .collect();
        if !events.is_empty() {
            track.version = self.send(pool, &track, first, last, &events).await?;
            track.position = Position::done(last);
        }
        track.seen = last;
        track.whole = count < BATCH;
        self.tracks.insert(pool.clone(), track);
        Ok(count >= BATCH)
    }

    /// Publishes rows `first` to `last` and writes down that they are done with. Answers the position's version.
    async fn send(
        &mut self,
        pool: &Pool,
        track: &Track,
        first: u64,
        last: u64,
        events: &[Event],
    ) -> Result<Version, Stop> {
        let Position { next, sent, .. } = track.position;
        let mut version = track.version;
        // One that is sent again was announced before.
        if next != Some(first) || sent.is_none_or(|sent| sent < last) {
            let announced =
                Position { row: track.seen, next: Some(first), sent: Some(last.max(sent.unwrap_or(0))) };
            version = self.keep(pool, version, &announced).await?;
            self.tracks.insert(pool.clone(), Track { position: announced, version, ..*track });
        }
        self.sink.publish(events).await?;
        let version = self.keep(pool, version, &Position::done(last)).await?;
        let delivered = metrics::counter!("leasehold_events_delivered_total", "sink" => self.name.clone());
        delivered.increment(events.len() as u64);
        Ok(version)
    }

    async fn keep(&mut self, pool: &Pool, version: Version, position: &Position) -> Result<Version, Stop> {
        let (subject, text) = (format!("{}:{pool}", self.name), position.text());
        let own = server_pool();
        match self.store.set_mark(&own, MarkKind::Relay, &subject, Some(&text), version).await? {
            Marked::Set(version) => Ok(version),
            Marked::Conflict(_) => Err(Stop::Overtaken),
        }
    }

    /// After a failure rows may have been dropped before they are read again. Where the position is not certain, it is read.
    fn begin_anew(&mut self, stop: &Stop) {
        match stop {
            Stop::Sink(_) => self.tracks.values_mut().for_each(|track| track.whole = false),
            Stop::Store(_) | Stop::Overtaken => {
                self.tracks.clear();
                self.hints.0.clear();
                self.cursor = Cursor::START;
            }
        }
    }

    fn say_lost(&self, pool: &Pool, row: u64, first: Option<u64>, lost: u64) {
        metrics::counter!("leasehold_events_lost_total", "sink" => self.name.clone()).increment(lost);
        tracing::error!(
            sink = %self.name, %pool, after_row = row, next_row = first, at_most = lost,
            "rows were dropped from the ledger before their events were delivered: the sink was away for too long; \
             its receivers should read the present state anew"
        );
    }

    fn gauge(&self, rows: usize) {
        metrics::gauge!("leasehold_events_lag_rows", "sink" => self.name.clone()).set(rows as f64);
    }

    /// Counts what waits, up to a bound.
    async fn count_waiting(&mut self) {
        let (mut waiting, mut pages) = (0, 0);
        for (pool, track) in &self.tracks {
            let mut after = track.seen;
            while pages < PAGES_MAX {
                pages += 1;
                let Ok(rows) = self.store.ledger(pool, None, after, PAGE).await else { return };
                waiting += rows.len();
                after = rows.last().map_or(after, |(row, _)| *row);
                if rows.len() < PAGE {
                    break;
                }
            }
        }
        self.gauge(waiting);
    }

    /// Waits for a hint, or for a while.
    async fn wait(&mut self, period: Duration) {
        let hints = &mut self.hints.0;
        let listening = !hints.is_empty();
        tokio::select! {
            _ = hints.next(), if listening => {
                sleep(SETTLE).await;
                // Those that came meanwhile say the same.
                while hints.next().now_or_never().flatten().is_some() {}
            }
            () = sleep(period) => {}
        }
    }
}
