//! Leader election: one seat, one leader, everybody else ready to take over.
//!
//! A leader's seat is a pool with one resource, so everything that holds for leases holds for leaders. What this adds is the
//! way people think of it: [`campaign`](Candidate::campaign), [`observe`](Candidate::observe),
//! [`resign`](Candidate::resign).
//!
//! Invariant: the seat goes back only after the [`Leadership`] was dropped. While one is alive and
//! [`Leadership::term`] answers, nobody else's does.
//!
//! An election alone cannot stop a leader that was paused in the middle of a write. Where it writes to the server on which
//! the leases are, [`Leadership::guard`] can; elsewhere, a [`fence`](crate::fence).

mod candidate;
mod key;
mod lead;
mod observe;
mod office;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use self::candidate::Candidate;
pub use self::key::{Key, KeyError};
pub use self::observe::{Leader, Leaders, Seat};
pub use self::office::Leadership;

use self::candidate::Place;
use self::lead::{Aborted, Demoted, Elected, Leading};
use self::office::Office;
use crate::clock::{Clock, SystemClock};
use crate::lease::{MemberId, MemberName};
use crate::ledger::Reason;
use crate::participant::{JoinError, Participant, Settings};
use crate::store::{Store, StoreError};

/// A candidate cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// As for every member.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The key cannot be shown in this store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The process has a candidate for this key already.
    #[error("this process is a candidate for {0} already; one is enough, and two would only compete")]
    Twice(Key),
}

/// Builds a candidate.
///
/// ```
/// use std::sync::Arc;
/// use leasehold::election::{Election, Key};
/// use leasehold::store::memory::MemoryStore;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let candidate = Election::new(Arc::new(MemoryStore::new()), Key::new("/ccm/scheduler/leader")?)
///     .name("scheduler-1")?
///     .start()
///     .await?;
/// let leadership = candidate.campaign().await;
/// while let Ok(term) = leadership.term() {
///     println!("leading under token {}", term.token);
///     # break;
/// }
/// drop(leadership); // the seat is free for others
/// candidate.leave().await;
/// # Ok(())
/// # }
/// ```
pub struct Election {
    store: Arc<dyn Store>,
    key: Key,
    participant: Participant,
    clock: Arc<dyn Clock>,
    grace: Duration,
    elected: Option<Elected>,
    demoted: Option<Demoted>,
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Election {
    /// Begins to describe a candidate. On etcd the leader's id stands under the key itself, on an etcd lease, for programs of
    /// another make.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, key: Key) -> Self {
        let participant = Participant::join(Arc::clone(&store), key.pool().clone());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let election =
            Self { store, key, participant, clock, grace: Duration::ZERO, elected: None, demoted: None };
        election.settings(Settings::for_election())
    }

    /// The stable name; without one, the host's. The candidate's id begins with it.
    ///
    /// # Errors
    /// The name is not an id.
    pub fn name(mut self, name: impl AsRef<str>) -> Result<Self, JoinError> {
        let name = MemberName::new(name)?;
        self.participant = self.participant.name(&name)?.ids(move || MemberId::generate_for(&name));
        Ok(self)
    }

    /// All durations that follow from a TTL; 15 s without this.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        self.settings(Settings::with_ttl(ttl))
    }

    /// All durations and policies.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.grace = settings.grace;
        self.participant = self.participant.settings(settings);
        self
    }

    /// Another clock, for simulations.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.participant = self.participant.clock(Arc::clone(&clock));
        self.clock = clock;
        self
    }

    /// Campaigns from the start and runs `lead` whenever elected. It is told to stop by [`Leadership::lost`] and dropped
    /// before trust ends. A leader that returns gives the seat up, and is a candidate again a while later.
    #[must_use]
    pub fn on_elected<F, W>(mut self, lead: F) -> Self
    where
        F: Fn(Leadership) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        self.elected = Some(Arc::new(move |leadership| Box::pin(lead(leadership))));
        self
    }

    /// Runs after what [`Election::on_elected`] started has ended, and says why that was.
    #[must_use]
    pub fn on_demoted<F, W>(mut self, told: F) -> Self
    where
        F: Fn(Reason) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        self.demoted = Some(Arc::new(move |reason| Box::pin(told(reason))));
        self
    }

    /// Starts the candidate. It is a standby until it [campaigns](Candidate::campaign), or at once a candidate if it was
    /// told what to do [when elected](Election::on_elected).
    ///
    /// # Errors
    /// The settings do not fit together, the key cannot be used, or this process is a candidate for it already. A store that
    /// does not answer is no error: the candidate keeps trying, and does not lead meanwhile.
    pub async fn start(self) -> Result<Candidate, ElectionError> {
        let place = Place::take(&self.store, &self.key)?;
        self.store.show_as(self.key.pool(), self.key.seat(), self.key.as_str())?;
        let office = Arc::new(Office::new(Arc::clone(&self.store)));
        let work = {
            let office = Arc::clone(&office);
            move |lease| Arc::clone(&office).hold(lease)
        };
        // The seat goes back when the leader has stopped, and not because somebody is tired of waiting for that.
        let participant = self.participant.resources([self.key.seat()])?.without_abort();
        let member = participant.ready_when(office.ready()).start(work).await?;
        let leaders = Leaders::of(self.store, &self.key);
        let leading = self.elected.map(|elected| {
            let lead = Leading { elected, demoted: self.demoted, clock: self.clock, grace: self.grace };
            Aborted(tokio::spawn(lead.forever(Arc::clone(&office))))
        });
        let (status, trust) = (member.status(), member.trusted_until());
        let member = Mutex::new(Some(member));
        Ok(Candidate {
            office,
            member,
            status,
            trust,
            leaders,
            key: self.key,
            _leading: leading,
            _place: place,
        })
    }
}
