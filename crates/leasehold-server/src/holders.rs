//! The leases of those who have no member: documents of REST.
//!
//! Every such lease has a session of its own, kept by the control plane: a renewal raises its beat, a release closes it, and
//! the control plane listens. Any replica can do any of that, because all of it is in the store.
//!
//! # Invariants
//!
//! 1. *A confirmed renewal was heard.* The beat is raised above one that was read after the request had come. So whoever
//!    counts silence counts it from a moment after the holder sent the request, whichever replica served it.
//! 2. *The server is patient.* A client counts its trust from the answer, not from the request, and its clock may be slow. The
//!    session's TTL is the client's, a tenth more, and the longest that an answer may take.
//! 3. *A session is a term.* It holds one resource once. To close it can free nothing that was granted later, however late
//!    the word to do so arrives.
//! 4. *After a freeze* the control plane says what a holder holds only while nobody can have been granted it since: less than
//!    the session's TTL after a read that showed the beat before its last.

mod attend;
mod desk;
mod holder;
mod kept;
mod leases;
mod listen;
mod outage;
mod proof;
mod revoke;
mod verdict;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use leasehold::clock::{Clock, SystemClock};
use leasehold::store::{SERVER_POOL, Store, StoreError};
use leasehold::{MemberId, MemberName, Pool};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) use self::desk::{Desk, Known};
pub(crate) use self::holder::{Holder, KEY, RESERVED, RESOURCE, label_of};
pub(crate) use self::leases::{Caller, Claim, Lost, Renewal, Standing};
use self::outage::Outage;
use crate::cameras::is_of_cameras;
use crate::ledger::Rows;
use crate::settings::Limits;

/// How often the store is asked which pools there are.
const POOLS_EVERY: Duration = Duration::from_secs(2);
/// The most pools that are listened to.
const POOLS_MAX: usize = 10_000;

/// Wall time as RFC 3339, for people.
pub(crate) fn wall_time(nanos: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or_default();
    format!("{time:.3}")
}

/// The desks of all pools.
#[derive(Debug)]
pub(crate) struct Holders {
    shared: Arc<Shared>,
    finding: JoinHandle<()>,
    attending: JoinHandle<()>,
}

/// What all desks share.
#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    rows: Rows,
    limits: Limits,
    /// Who writes what this replica itself finds.
    me: MemberId,
    name: MemberName,
    outage: Arc<Outage>,
    desks: RwLock<HashMap<Pool, Staffed>>,
    stop: watch::Sender<bool>,
}

#[derive(Debug)]
struct Staffed {
    desk: Arc<Desk>,
    listening: Option<JoinHandle<()>>,
}

impl Holders {
    /// Listens to every pool that the store knows. Leases of cameras are kept for `grace` from the beginning of an absence on.
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        name: MemberName,
        limits: Limits,
        grace: Duration,
    ) -> Result<Self, StoreError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let shared = Arc::new(Shared {
            rows: Rows::new(Arc::clone(&store), Arc::clone(&clock)),
            store,
            clock,
            limits,
            me: MemberId::generate_for(&name),
            name,
            outage: Arc::new(Outage::new(grace)),
            desks: RwLock::default(),
            stop: watch::Sender::new(false),
        });
        shared.find().await?;
        let finding = tokio::spawn(find_always(Arc::clone(&shared)));
        // Before anybody is answered, so that what is renewed from now on was renewed after the absence.
        shared.attend().await;
        let attending = tokio::spawn(attend_always(Arc::clone(&shared)));
        Ok(Self { shared, finding, attending })
    }

    /// The desk of a pool that may be new.
    pub(crate) fn desk(&self, pool: &Pool) -> Option<Arc<Desk>> {
        self.known(pool).or_else(|| self.shared.staff(pool))
    }

    /// The desk of a pool if there is anything in it.
    pub(crate) async fn desk_if_known(&self, pool: &Pool) -> Result<Option<Arc<Desk>>, StoreError> {
        if let Some(desk) = self.known(pool) {
            return Ok(Some(desk));
        }
        self.shared.find().await?;
        Ok(self.known(pool))
    }

    /// Makes sure that every pool of the store has a desk.
    pub(crate) async fn find(&self) -> Result<(), StoreError> {
        self.shared.find().await
    }

    /// The desks of all pools.
    pub(crate) fn desks(&self) -> Vec<Arc<Desk>> {
        let desks = self.shared.desks.read().unwrap_or_else(PoisonError::into_inner);
        desks.values().map(|staffed| Arc::clone(&staffed.desk)).collect()
    }

    /// The desk of a pool that this replica has heard of.
    pub(crate) fn known(&self, pool: &Pool) -> Option<Arc<Desk>> {
        let desks = self.shared.desks.read().unwrap_or_else(PoisonError::into_inner);
        desks.get(pool).map(|staffed| Arc::clone(&staffed.desk))
    }

    /// Stops listening, leaves word of every silence, and writes the last rows of the ledger.
    pub(crate) async fn stop(&self) {
        self.finding.abort();
        self.attending.abort();
        self.shared.stop.send_replace(true);
        let listening: Vec<JoinHandle<()>> = {
            let mut desks = self.shared.desks.write().unwrap_or_else(PoisonError::into_inner);
            desks.values_mut().filter_map(|staffed| staffed.listening.take()).collect()
        };
        for listening in listening {
            let _ = listening.await;
        }
        self.shared.rows.flush().await;
    }

    /// Stops listening at once.
    pub(crate) fn abandon(&self) {
        self.finding.abort();
        self.attending.abort();
        self.shared.stop.send_replace(true);
    }
}

impl Shared {
    /// Makes sure that every pool of the store has a desk.
    async fn find(self: &Arc<Self>) -> Result<(), StoreError> {
        for pool in self.store.pools().await? {
            if pool.as_str() != SERVER_POOL {
                self.staff(&pool);
            }
        }
        Ok(())
    }

    /// Gives a sign of life, where there are cameras whose leases depend on it.
    async fn attend(&self) {
        let any = || self.desks.read().unwrap_or_else(PoisonError::into_inner).keys().any(is_of_cameras);
        if !any() {
            return self.outage.rest(self.clock.now());
        }
        let attending = self.outage.attend(&*self.store, &*self.clock, &self.me);
        match tokio::time::timeout(self.limits.call, attending).await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(absent))) => tracing::warn!(
                absent_seconds = absent.as_secs(),
                "the control plane was away, or its store was: leases of cameras that stood are kept for a while, though \
                 nothing is heard of their holders"
            ),
            Ok(Err(error)) => tracing::debug!(%error, "no sign of life can be given at the moment"),
            Err(_) => {
                tracing::debug!("no sign of life can be given at the moment: the store does not answer")
            }
        }
    }

    /// Gives a pool a desk, unless there are too many.
    fn staff(self: &Arc<Self>, pool: &Pool) -> Option<Arc<Desk>> {
        let mut desks = self.desks.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(staffed) = desks.get(pool) {
            return Some(Arc::clone(&staffed.desk));
        }
        if desks.len() >= POOLS_MAX {
            tracing::warn!(pool = pool.as_str(), "there are {POOLS_MAX} pools; no more are listened to");
            return None;
        }
        let desk = Arc::new(Desk::new(self, pool.clone()));
        let listening = Some(tokio::spawn(listen::listen(Arc::clone(&desk), self.stop.subscribe())));
        desks.insert(pool.clone(), Staffed { desk: Arc::clone(&desk), listening });
        Some(desk)
    }
}

/// Gives signs of life.
async fn attend_always(shared: Arc<Shared>) {
    loop {
        shared.clock.sleep(outage::EVERY).await;
        shared.attend().await;
    }
}

/// Finds pools that others make.
async fn find_always(shared: Arc<Shared>) {
    loop {
        shared.clock.sleep(POOLS_EVERY).await;
        if let Err(error) = shared.find().await {
            tracing::debug!(%error, "the pools are not known at the moment");
        }
    }
}
