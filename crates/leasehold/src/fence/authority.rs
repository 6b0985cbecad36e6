//! Who says which term of a resource is the newest.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;

use crate::clock::{Clock, Moment, SystemClock};
use crate::lease::{Nonce, Pool, ResourceId, Token};
use crate::store::{Cursor, Hints, LeaseRecord, MarkKind, Marked, Store, StoreError, Version};

/// How often everything is read again, to find what changes lost.
const WHOLE_EVERY: Duration = Duration::from_secs(60);
/// How often a floor is set again that somebody else was faster with.
const TRIES_MAX: usize = 4;

/// The newest term of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// The resource.
    pub resource: ResourceId,
    /// The newest token that was granted.
    pub token: Token,
    /// How long a holder of it is waited for, where that is known.
    pub ttl: Option<Duration>,
}

/// Who says which terms of a pool are the newest.
#[async_trait]
pub trait Authority: fmt::Debug + Send + Sync + 'static {
    /// Every resource whose newest term changed since the last answer, or more; all of them in the first one. A resource that
    /// was never named was never granted. What is answered was true at some moment after the call.
    ///
    /// # Errors
    /// The answer is unknown, or not to be relied on at the moment.
    async fn newest(&self) -> Result<Vec<Newest>, StoreError>;

    /// Says that a fence knows a token which the authority has forgotten: whatever is granted from now on is above it.
    ///
    /// # Errors
    /// Whether that was taken in is unknown.
    async fn raise(&self, resource: &ResourceId, floor: Token) -> Result<(), StoreError>;

    /// Hints that something changed.
    fn changes(&self) -> Hints;
}

/// A pool in a store: the store that has the leases itself, or the one behind a Leasehold server.
#[derive(Debug)]
pub struct PoolAuthority {
    store: Arc<dyn Store>,
    pool: Pool,
    clock: Arc<dyn Clock>,
    place: Mutex<Place>,
}

/// How far the leases have been read.
#[derive(Debug)]
struct Place {
    cursor: Cursor,
    era: Option<Nonce>,
    whole_at: Moment,
}

impl PoolAuthority {
    /// Asks the store about a pool.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, pool: Pool) -> Self {
        let place = Place { cursor: Cursor::START, era: None, whole_at: Moment::default() };
        Self { store, pool, clock: Arc::new(SystemClock), place: Mutex::new(place) }
    }
}

#[async_trait]
impl Authority for PoolAuthority {
    async fn newest(&self) -> Result<Vec<Newest>, StoreError> {
        let mut place = self.place.lock().await;
        let now = self.clock.now();
        if now.since(place.whole_at) > WHOLE_EVERY {
            place.cursor = Cursor::START;
        }
        let mut read = self.store.leases(&self.pool, place.cursor).await?;
        // Another memory than before, or less of it: what changed since then says nothing.
        let is_another = place.era.is_some_and(|era| era != read.era.nonce) || read.cursor < place.cursor;
        if is_another && place.cursor != Cursor::START {
            read = self.store.leases(&self.pool, Cursor::START).await?;
            place.cursor = Cursor::START;
        }
        place.era = Some(read.era.nonce);
        // A store that may have forgotten cannot say what is newest.
        if read.era.frozen {
            place.cursor = Cursor::START;
            return Err(StoreError::unavailable(
                "the store may have forgotten something and is frozen; it says what is true in a moment",
            ));
        }
        if place.cursor == Cursor::START {
            place.whole_at = now;
        }
        place.cursor = read.cursor;
        let newest = |lease: LeaseRecord| Newest {
            ttl: lease.holder.is_some().then_some(lease.ttl),
            resource: lease.resource,
            token: lease.token,
        };
        Ok(read.items.into_iter().map(newest).collect())
    }

    async fn raise(&self, resource: &ResourceId, floor: Token) -> Result<(), StoreError> {
        for _ in 0..TRIES_MAX {
            let marks = self.store.marks(&self.pool, Cursor::START).await?.items;
            let is_it =
                |mark: &crate::store::Mark| mark.kind == MarkKind::Floor && mark.subject == resource.as_str();
            let before = marks.into_iter().find(is_it);
            let known = before.as_ref().and_then(|mark| mark.value.as_ref()?.parse().ok());
            if known >= Some(floor) {
                return Ok(());
            }
            let expected = before.map_or(Version(0), |mark| mark.version);
            let value = floor.to_string();
            let set =
                self.store.set_mark(&self.pool, MarkKind::Floor, resource.as_str(), Some(&value), expected);
            if let Marked::Set(_) = set.await? {
                return Ok(());
            }
        }
        Err(StoreError::unavailable("others keep setting the same floor at the same time"))
    }

    fn changes(&self) -> Hints {
        self.store.changes(&self.pool)
    }
}
