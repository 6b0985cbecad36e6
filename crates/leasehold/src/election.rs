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

mod key;
mod observe;

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::key::{Key, KeyError};
pub use self::observe::{Leader, Leaders, Seat};

use crate::clock::{Clock, Moment, SystemClock};
use crate::lease::{MemberId, MemberName, Term, Token};
use crate::ledger::Reason;
use crate::participant::{JoinError, Lease, Lost, Participant, Running, Settings, State, Status};
use crate::store::{Guard, Store, StoreError};

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

type Elected = Arc<dyn Fn(Leadership) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;
type Demoted = Arc<dyn Fn(Reason) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

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
        let ready = watch::Sender::new(false);
        let office = Arc::new(Office {
            tenure: watch::Sender::new(None),
            campaigners: watch::Sender::new(0),
            ready: ready.clone(),
            store: Arc::clone(&self.store),
        });
        let work = {
            let office = Arc::clone(&office);
            move |lease| Arc::clone(&office).hold(lease)
        };
        // The seat goes back when the leader has stopped, and not because somebody is tired of waiting for that.
        let participant = self.participant.resources([self.key.seat()])?.without_abort();
        let member = participant.ready_when(ready).start(work).await?;
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

/// A candidate of an election. Dropping it makes it leave.
#[derive(Debug)]
pub struct Candidate {
    office: Arc<Office>,
    /// Gone when it has left.
    member: Mutex<Option<Running>>,
    status: watch::Receiver<Status>,
    trust: watch::Receiver<Option<Moment>>,
    leaders: Leaders,
    key: Key,
    _leading: Option<Aborted>,
    _place: Place,
}

impl Candidate {
    /// The key of the election.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Campaigns until elected. Whoever stops waiting stops campaigning.
    pub async fn campaign(&self) -> Leadership {
        Arc::clone(&self.office).campaign().await
    }

    /// The token of the present leadership if this candidate leads and may act on it at this moment.
    #[must_use]
    pub fn is_leader(&self) -> Option<Token> {
        let lease = self.office.present()?;
        (lease.state() != State::Lost).then(|| lease.term().ok().map(|term| term.token)).flatten()
    }

    /// The leaders, one after the other, the present one first.
    #[must_use]
    pub fn observe(&self) -> Leaders {
        self.leaders.clone()
    }

    /// Who leads, as far as is known.
    #[must_use]
    pub fn seat(&self) -> Seat {
        self.leaders.now()
    }

    /// Gives the seat up and returns when the leader has stopped; another candidate leads a moment later. Answers whether
    /// this one led.
    pub async fn resign(&self) -> bool {
        let Some(lease) = self.office.present() else { return false };
        lease.give_up();
        self.office.given_back(lease.token()).await;
        true
    }

    /// What the candidate knows of itself, as it changes.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// The end of trust if nothing more is heard from the store, for whoever watches over work that goes on by itself.
    #[must_use]
    pub fn trusted_until(&self) -> watch::Receiver<Option<Moment>> {
        self.trust.clone()
    }

    /// Leaves in order: the leader stops, the seat goes to the next, the session closes.
    pub async fn leave(&self) {
        let member = self.member.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(member) = member {
            member.leave().await;
        }
    }
}

/// The seat, taken. Dropping it gives the seat back.
#[derive(Debug)]
pub struct Leadership {
    lease: Lease,
    office: Arc<Office>,
    _campaigning: Campaigning,
}

impl Leadership {
    /// The term, if it may be acted upon at this moment.
    ///
    /// # Errors
    /// [`Lost`] once trust has ended or somebody else leads.
    pub fn term(&self) -> Result<&Term, Lost> {
        self.lease.term()
    }

    /// The token, whether or not this leadership still stands. Use [`Leadership::term`] at the moment of use.
    #[must_use]
    pub fn token(&self) -> Token {
        self.lease.token()
    }

    /// Ends when the leader must stop, for whatever reason, and says why.
    pub async fn lost(&self) -> Reason {
        self.lease.lost().await
    }

    /// What a write to the store's own server can depend on, so that the server refuses it once another has been elected.
    /// `None` on stores where that cannot be had.
    #[must_use]
    pub fn guard(&self) -> Option<Guard> {
        self.lease.guard(&*self.office.store)
    }

    /// The lease of the seat.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        let token = self.lease.token();
        self.office.tenure.send_if_modified(|tenure| match tenure {
            Some(tenure) if tenure.lease.token() == token => {
                tenure.over = true;
                true
            }
            _ => false,
        });
    }
}

/// What a candidate does whenever it is elected.
struct Leading {
    elected: Elected,
    demoted: Option<Demoted>,
    clock: Arc<dyn Clock>,
    grace: Duration,
}

impl Leading {
    async fn forever(self, office: Arc<Office>) {
        let _campaigning = Campaigning::begin(&office);
        loop {
            let leadership = Arc::clone(&office).campaign().await;
            let reason = self.lead(&office, leadership).await;
            if let Some(demoted) = &self.demoted {
                demoted(reason).await;
            }
        }
    }

    /// Leads until the leader returns, drops its leadership or must stop; one that does not stop in time is dropped.
    async fn lead(&self, office: &Office, leadership: Leadership) -> Reason {
        let lease = leadership.lease.clone();
        let mut leader = Aborted(tokio::spawn((self.elected)(leadership)));
        let stop = async {
            tokio::select! {
                biased;
                reason = lease.lost() => reason,
                () = office.given_back(lease.token()) => Reason::Voluntary,
            }
        };
        let (reason, outcome) = tokio::select! {
            biased;
            outcome = &mut leader.0 => (Reason::Voluntary, outcome),
            reason = stop => {
                let deadline = self.clock.now().after(self.grace).min(lease.trusted_until());
                tokio::select! {
                    biased;
                    outcome = &mut leader.0 => (reason, outcome),
                    () = self.clock.sleep_until(deadline) => {
                        leader.0.abort();
                        (reason, (&mut leader.0).await)
                    }
                }
            }
        };
        if outcome.is_err_and(|error| error.is_panic()) {
            tracing::error!(pool = %lease.pool(), token = %lease.token(), "the leader panicked; the seat goes back");
        }
        reason
    }
}

/// A task that ends with its owner.
#[derive(Debug)]
struct Aborted(JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One candidate of a process for a key.
#[derive(Debug)]
struct Place(usize, Key);

static PLACES: Mutex<Option<HashSet<(usize, Key)>>> = Mutex::new(None);

impl Place {
    fn take(store: &Arc<dyn Store>, key: &Key) -> Result<Self, ElectionError> {
        // Elections of one key in two stores are two elections.
        let store = Arc::as_ptr(store).cast::<()>().addr();
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        if places.get_or_insert_default().insert((store, key.clone())) {
            Ok(Self(store, key.clone()))
        } else {
            Err(ElectionError::Twice(key.clone()))
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        places.get_or_insert_default().remove(&(self.0, self.1.clone()));
    }
}

/// The seat as this process sees it while it has it.
struct Office {
    tenure: watch::Sender<Option<Tenure>>,
    campaigners: watch::Sender<usize>,
    /// Who does not campaign is not ready to be elected.
    ready: watch::Sender<bool>,
    store: Arc<dyn Store>,
}

impl fmt::Debug for Office {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Office").field("tenure", &*self.tenure.borrow()).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Tenure {
    lease: Lease,
    /// Somebody has the leadership that this tenure is.
    taken: bool,
    /// Nobody has it any more, or ever will.
    over: bool,
}

impl Office {
    /// The work of the lease: it goes on until the leadership has been dropped. One that nobody takes goes back.
    async fn hold(self: Arc<Self>, lease: Lease) {
        self.tenure.send_replace(Some(Tenure { lease: lease.clone(), taken: false, over: false }));
        let mut tenure = self.tenure.subscribe();
        let mut campaigners = self.campaigners.subscribe();
        let unwanted = async {
            tokio::select! {
                _ = lease.lost() => {}
                _ = campaigners.wait_for(|count| *count == 0) => {}
            }
            if !self.change(|tenure| tenure.over = true) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = tenure.wait_for(|tenure| tenure.as_ref().is_none_or(|tenure| tenure.over)) => {}
            () = unwanted => {}
        }
        self.tenure.send_replace(None);
    }

    /// Changes a tenure that nobody has taken yet; answers whether there was one.
    fn change(&self, change: impl FnOnce(&mut Tenure)) -> bool {
        self.tenure.send_if_modified(|tenure| match tenure {
            Some(tenure) if !tenure.taken && !tenure.over => {
                change(tenure);
                true
            }
            _ => false,
        })
    }

    /// The lease of the present leadership.
    fn present(&self) -> Option<Lease> {
        let tenure = self.tenure.borrow();
        tenure.as_ref().filter(|tenure| tenure.taken && !tenure.over).map(|tenure| tenure.lease.clone())
    }

    /// Ends when the leadership with this token has been dropped.
    async fn given_back(&self, token: Token) {
        let mut tenure = self.tenure.subscribe();
        let other = |tenure: &Tenure| tenure.over || tenure.lease.token() != token;
        let _ = tenure.wait_for(|tenure| tenure.as_ref().is_none_or(other)).await;
    }

    async fn campaign(self: Arc<Self>) -> Leadership {
        let campaigning = Campaigning::begin(&self);
        let mut tenure = self.tenure.subscribe();
        loop {
            let mut taken = None;
            self.change(|tenure| {
                tenure.taken = true;
                taken = Some(tenure.lease.clone());
            });
            if let Some(lease) = taken {
                return Leadership { lease, office: self, _campaigning: campaigning };
            }
            if tenure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn count(&self, change: impl FnOnce(usize) -> usize) {
        self.campaigners.send_modify(|count| {
            *count = change(*count);
            self.ready.send_replace(*count > 0);
        });
    }
}

/// While one of these is there, the candidate can be elected.
#[derive(Debug)]
struct Campaigning(Arc<Office>);

impl Campaigning {
    fn begin(office: &Arc<Office>) -> Self {
        office.count(|count| count + 1);
        Self(Arc::clone(office))
    }
}

impl Drop for Campaigning {
    fn drop(&mut self) {
        self.0.count(|count| count - 1);
    }
}
