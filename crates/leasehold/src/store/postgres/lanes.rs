//! The connections of a handle, by what they carry.
//!
//! Heartbeats, other writes and reads have lanes of their own, so that none waits behind another kind. A lane has a few
//! connections, made when they are first needed or asked for, made anew when they are lost.
//!
//! Invariant: every question ends within its lane's limit. One that does not is given up together with its connection, so
//! that the next one does not wait behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::address::Address;
use super::connect::{Link, within};
use super::failure::Failure;
use crate::clock::{self, Clock, Moment, SystemClock};

/// The pause after a connection could not be made, and the longest it grows to.
const PAUSE_MIN: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A value that goes into a statement.
#[derive(Debug, Clone)]
pub(super) enum Param {
    Text(Option<String>),
    Int(i64),
    NoInt,
    Flag(bool),
    Texts(Vec<Option<String>>),
    Ints(Vec<Option<i64>>),
}

impl Param {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(Some(text.into()))
    }

    fn bound(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(text) => (text, Type::TEXT),
            Self::Int(number) => (number, Type::INT8),
            Self::NoInt => (&None::<i64>, Type::INT8),
            Self::Flag(flag) => (flag, Type::BOOL),
            Self::Texts(texts) => (texts, Type::TEXT_ARRAY),
            Self::Ints(numbers) => (numbers, Type::INT8_ARRAY),
        }
    }
}

/// A few connections that carry the same kind of call.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    limit: Duration,
}

#[derive(Debug, Default)]
struct Lane {
    slot: Mutex<Slot>,
    busy: AtomicUsize,
}

#[derive(Default)]
struct Slot {
    link: Option<Arc<Link>>,
    failures: u32,
    not_before: Moment,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("connected", &self.link.is_some()).finish_non_exhaustive()
    }
}

/// Counts a question as long as it is under way.
struct Busy<'l>(&'l AtomicUsize);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lanes {
    pub(super) fn new(count: usize, limit: Duration) -> Self {
        Self { lanes: (0..count.max(1)).map(|_| Lane::default()).collect(), limit }
    }

    /// Asks one statement that answers one row. Nothing is prepared on the server, so a pooler may pass each statement to
    /// another connection.
    pub(super) async fn ask(&self, address: &Address, sql: &str, params: &[Param]) -> Result<Row, Failure> {
        let lane = self.pick();
        lane.busy.fetch_add(1, Ordering::Relaxed);
        let _busy = Busy(&lane.busy);
        let mut used = None;
        let answer = within(self.limit, address, async {
            let link = used.insert(lane.link(address).await?);
            let bound: Vec<_> = params.iter().map(Param::bound).collect();
            let row = link.client.query_typed_one(sql, &bound).await;
            row.map_err(|error| Failure::of(&link.place, error))
        });
        let answer = answer.await;
        if let (Err(failure), Some(link)) = (&answer, &used)
            && (failure.is_timeout() || failure.ends_link())
        {
            if failure.is_timeout() {
                link.give_up(address);
            }
            lane.drop_link(link).await;
        }
        answer
    }

    /// Makes every connection, for those who could not wait for it later. What fails is tried again when it is needed.
    pub(super) async fn connect(&self, address: &Address) {
        for lane in &self.lanes {
            let _ = lane.link(address).await;
        }
    }

    /// The first that is idle, or the least busy.
    fn pick(&self) -> &Lane {
        let busy = |lane: &&Lane| lane.busy.load(Ordering::Relaxed);
        self.lanes.iter().min_by_key(busy).unwrap_or(&self.lanes[0])
    }
}

impl Lane {
    /// The lane's connection, made anew if it was lost.
    async fn link(&self, address: &Address) -> Result<Arc<Link>, Failure> {
        let mut slot = self.slot.lock().await;
        if let Some(link) = slot.link.as_ref().filter(|link| !link.client.is_closed()) {
            return Ok(Arc::clone(link));
        }
        slot.link = None;
        SystemClock.sleep_until(slot.not_before).await;
        match Link::open(address, None).await {
            Ok(link) => {
                let link = Arc::new(link);
                *slot = Slot { link: Some(Arc::clone(&link)), ..Slot::default() };
                Ok(link)
            }
            Err(failure) => {
                let pause = PAUSE_MIN.saturating_mul(1 << slot.failures.min(6)).min(PAUSE_MAX);
                slot.failures = slot.failures.saturating_add(1);
                slot.not_before = clock::now().after(pause);
                Err(failure)
            }
        }
    }

    /// Has the next question make a new connection.
    async fn drop_link(&self, link: &Arc<Link>) {
        let mut slot = self.slot.lock().await;
        if slot.link.as_ref().is_some_and(|present| Arc::ptr_eq(present, link)) {
            slot.link = None;
        }
    }
}
