//! Taking part in a pool: a heartbeat, a pass, and a task for every lease.
//!
//! 1. **The heartbeat** is a task of its own. It never waits for work, for a plan or for another call. It moves
//!    the trust deadline.
//! 2. **The pass** takes no input. It reads everything again, plans, and acts.
//! 3. **The rule**: an answer that did not arrive is *unknown*, never *lost* and never *won*. Lost is what the
//!    store said, or what our own clock says.

mod acquire;
mod join;
mod member;
mod pace;
mod pass;
mod release;
mod renew;
#[cfg(test)]
mod scene;
mod session;
mod settings;
mod verdict;
mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::pace::reads_every;
pub use self::settings::{OnUncertain, Settings, SettingsError, TTL_MAX, TTL_MIN};
pub use self::work::{Lease, Lost, State};

use self::member::Member;
use self::work::Work;
use crate::clock::{Clock, Moment, SystemClock};
use crate::discover::{Fixed, Source, SourceError, follow};
use crate::lease::{IdError, MemberId, MemberName, Pool, ResourceId, Token};
use crate::store::{Listing, Store, StoreError};

/// How long a member that leaves waits for its last rows of the ledger to be written.
const LEDGER_WAIT: Duration = Duration::from_secs(3);

/// A member cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The settings do not fit together.
    #[error("the settings do not fit together")]
    Settings(#[from] SettingsError),
    /// The source does not say which resources there are.
    #[error("there is no list of resources")]
    Source(#[from] SourceError),
    /// An id is not one.
    #[error("an id cannot be used")]
    Id(#[from] IdError),
    /// A resource was given twice.
    #[error("resource {0} is listed twice; remove one of them")]
    Twice(ResourceId),
}

/// How a member is known.
#[derive(Clone)]
pub(crate) struct Identity {
    name: MemberName,
    capacity: Option<u64>,
    labels: BTreeMap<String, String>,
    ready: watch::Receiver<bool>,
    generate: Arc<dyn Fn() -> MemberId + Send + Sync>,
}

/// What a member knows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its id, while it has a session.
    pub member: Option<MemberId>,
    /// How sure it is of its session.
    pub state: State,
    /// What it holds.
    pub held: BTreeMap<ResourceId, Token>,
    /// How many members it knows of, itself included.
    pub members: usize,
    /// Whether the store is frozen.
    pub frozen: bool,
}

impl Status {
    const NOTHING: Self =
        Self { member: None, state: State::Lost, held: BTreeMap::new(), members: 0, frozen: false };
}

/// Builds a member of a pool.
///
/// ```
/// use std::sync::Arc;
/// use leasehold::{Participant, Pool, store::memory::MemoryStore};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let member = Participant::join(Arc::new(MemoryStore::new()), Pool::new("jobs")?)
///     .name("worker-1")?
///     .resources(["a", "b", "c"])?
///     .start(|lease| async move {
///         while let Ok(term) = lease.term() {
///             println!("working on {} under token {}", term.resource, term.token);
///             tokio::select! {
///                 _ = lease.lost() => break,
///                 () = tokio::time::sleep(std::time::Duration::from_millis(100)) => {}
///             }
///         }
///     })
///     .await?;
/// member.status().wait_for(|status| status.held.len() == 3).await?;
/// member.leave().await;
/// # Ok(())
/// # }
/// ```
pub struct Participant {
    store: Arc<dyn Store>,
    pool: Pool,
    name: Option<MemberName>,
    capacity: Option<u64>,
    labels: BTreeMap<String, String>,
    settings: Settings,
    source: Option<Arc<dyn Source>>,
    clock: Arc<dyn Clock>,
    generate: Arc<dyn Fn() -> MemberId + Send + Sync>,
    aborts: bool,
    ready: watch::Sender<bool>,
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant")
            .field("pool", &self.pool)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Participant {
    /// Begins to describe a member of `pool`. Without a source it takes what is declared in the store.
    #[must_use]
    pub fn join(store: Arc<dyn Store>, pool: Pool) -> Self {
        Self {
            settings: Settings::for_pool(&pool),
            store,
            pool,
            name: None,
            capacity: None,
            labels: BTreeMap::new(),
            source: None,
            clock: Arc::new(SystemClock),
            generate: Arc::new(MemberId::generate),
            aborts: true,
            ready: watch::Sender::new(true),
        }
    }

    /// Work that does not stop in time is waited for instead of aborted, and its lease does not go back before
    /// it has really ended. For work that goes on when its future is dropped: threads, processes.
    #[must_use]
    pub fn without_abort(mut self) -> Self {
        self.aborts = false;
        self
    }

    /// Whether the member can work is said by this, and it can be said before it starts. One that is not ready is given
    /// nothing, and hands off what it holds, if anybody can take it.
    #[must_use]
    pub fn ready_when(mut self, ready: watch::Sender<bool>) -> Self {
        self.ready = ready;
        self
    }

    /// The stable name; without one, the host's.
    ///
    /// # Errors
    /// The name is not an id.
    pub fn name(mut self, name: impl AsRef<str>) -> Result<Self, JoinError> {
        self.name = Some(MemberName::new(name)?);
        Ok(self)
    }

    /// The most weight this member takes.
    #[must_use]
    pub fn capacity(mut self, capacity: u64) -> Self {
        self.capacity = Some(capacity);
        self
    }

    /// A label that resources may require. Without one called `name`, its value is the stable name.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// All durations and policies that follow from a TTL.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings = Settings { on_uncertain: self.settings.on_uncertain, ..Settings::with_ttl(ttl) };
        self
    }

    /// All durations and policies.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// A fixed list of resources.
    ///
    /// # Errors
    /// An id is not one, or is given twice.
    pub fn resources<T: AsRef<str>>(self, ids: impl IntoIterator<Item = T>) -> Result<Self, JoinError> {
        let ids: Result<Vec<_>, _> = ids.into_iter().map(ResourceId::new).collect();
        let listing = Listing::new(ids?).map_err(JoinError::Twice)?;
        Ok(self.source(Arc::new(Fixed(listing))))
    }

    /// Where to learn which resources there are.
    #[must_use]
    pub fn source(mut self, source: Arc<dyn Source>) -> Self {
        self.source = Some(source);
        self
    }

    /// Another clock, for simulations.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Another way to make member ids, for simulations. Ids must never repeat.
    #[must_use]
    pub fn ids(mut self, generate: impl Fn() -> MemberId + Send + Sync + 'static) -> Self {
        self.generate = Arc::new(generate);
        self
    }

    /// Starts the member: `work` runs once for every lease it gets, as a task of its own.
    ///
    /// # Guarantees
    /// Work is told to stop ([`Lease::lost`]) and aborted before trust ends. What does not yield to the runtime
    /// cannot be aborted: check [`Lease::term`] at the moment of use.
    ///
    /// Work that returns by itself gives its lease back; this member leaves the resource to others for a while.
    ///
    /// # Errors
    /// The settings do not fit together, or the source cannot be read. A store that does not answer is no
    /// error: the member keeps trying.
    pub async fn start<F, W>(self, work: F) -> Result<Running, JoinError>
    where
        F: Fn(Lease) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        self.settings.check()?;
        let work: Work = Arc::new(move |lease| Box::pin(work(lease)));
        let listing = match &self.source {
            Some(source) => Some(follow(Arc::clone(source), Arc::clone(&self.clock)).await?),
            None => None,
        };
        let (leave, leave_seen) = watch::channel(false);
        let ready = self.ready.clone();
        let (member, ledger) = Member::new(self, work, listing);
        let (status, trust) = (member.status.subscribe(), member.trust.subscribe());
        let task = tokio::spawn(member.run(leave_seen));
        Ok(Running { leave, ready, status, trust, task, ledger })
    }
}

/// A member that takes part. Dropping it makes the member leave.
#[derive(Debug)]
pub struct Running {
    leave: watch::Sender<bool>,
    ready: watch::Sender<bool>,
    status: watch::Receiver<Status>,
    trust: watch::Receiver<Option<Moment>>,
    task: JoinHandle<()>,
    ledger: JoinHandle<()>,
}

impl Running {
    /// What the member knows of itself, as it changes.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// The end of trust if nothing more is heard from the store; moves with every confirmed heartbeat, and not beyond
    /// the trust in a revoked term whose work goes on. For whoever watches over work that goes on by itself.
    #[must_use]
    pub fn trusted_until(&self) -> watch::Receiver<Option<Moment>> {
        self.trust.clone()
    }

    /// Says whether the member can work at the moment. One that is not ready hands off what it holds, if
    /// anybody can take it.
    pub fn set_ready(&self, ready: bool) {
        self.ready.send_replace(ready);
    }

    /// Leaves in order: work stops, leases go back to named successors, the session closes.
    pub async fn leave(self) {
        self.leave.send_replace(true);
        let _ = self.task.await;
        // A store that no longer answers keeps nobody here; the log has every entry.
        let _ = tokio::time::timeout(LEDGER_WAIT, self.ledger).await;
    }
}

/// A call to the store within the time one call may take. No answer is an unknown answer.
async fn call<T>(
    clock: &dyn Clock,
    settings: &Settings,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    within(clock, settings.call_timeout, call).await
}

async fn within<T>(
    clock: &dyn Clock,
    limit: Duration,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::select! {
        biased;
        answer = call => answer,
        () = clock.sleep(limit) => Err(no_answer(limit)),
    }
}

fn no_answer(limit: Duration) -> StoreError {
    StoreError::unavailable(format!("the store gave no answer within {limit:?}"))
}
