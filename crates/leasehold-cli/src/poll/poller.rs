//! The life of one endpoint: asked when it is due, while its lease is certain, and left alone before trust ends.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::Method;
use leasehold::clock::{self, Clock, SystemClock};
use leasehold::participant::{State, Status};
use leasehold::plan::rendezvous::hash_id;
use leasehold::{Lease, ResourceId};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::book::Book;
use super::client::{Answer, Ask, Client, Manner};
use super::result::{self, Validators};
use super::schedule::Schedule;
use super::sink::{Open, Told};
use super::target::Target;

/// How long passing an answer on may take.
const TELL_MAX: Duration = Duration::from_secs(10);

/// What was counted since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Endpoints that answered, whatever they said.
    pub(crate) answered: AtomicU64,
    /// Endpoints that did not answer, or not in time.
    pub(crate) failed: AtomicU64,
    /// Requests that were broken off because a lease ended.
    pub(crate) cancelled: AtomicU64,
    /// Answers that were passed on.
    pub(crate) told: AtomicU64,
    /// Answers that were dropped because their term no longer stood.
    pub(crate) stale: AtomicU64,
    /// Answers that somebody did not take.
    pub(crate) lost: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What the pollers of all endpoints share.
pub(super) struct Pollers {
    manner: Manner,
    jitter: f64,
    at_once: Semaphore,
    book: Arc<Book>,
    sinks: Open,
    counts: Arc<Counts>,
    owned: Arc<Leases>,
}

/// The leases of this member, for whoever asks.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<BTreeMap<ResourceId, Lease>>);

impl Leases {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ResourceId, Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn all(&self) -> Vec<Lease> {
        self.lock().values().cloned().collect()
    }
}

/// What one poller has between two requests.
struct Poller {
    client: Client,
    webhooks: Vec<Client>,
    validators: Validators,
    schedule: Schedule,
    /// Whether the endpoint answered last time, so that a change is said once.
    answers: bool,
    /// Why what it answered was last not passed on.
    unheard: String,
}

impl Pollers {
    pub(super) fn new(manner: Manner, jitter: f64, at_once: u32, book: Arc<Book>, sinks: Open) -> Self {
        let at_once = Semaphore::new(usize::try_from(at_once).unwrap_or(1));
        Self { manner, jitter, at_once, book, sinks, counts: Arc::default(), owned: Arc::default() }
    }

    /// From now on this member's status says how many share the work.
    pub(super) fn follow(&self, member: watch::Receiver<Status>) {
        self.sinks.follow(member);
    }

    /// What was counted.
    pub(super) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// What is owned.
    pub(super) fn owned(&self) -> Arc<Leases> {
        Arc::clone(&self.owned)
    }

    /// Asks the endpoint of a lease for as long as the lease stands.
    pub(super) async fn keep(self: Arc<Self>, lease: Lease) {
        self.owned.lock().insert(lease.resource().clone(), lease.clone());
        let _owned = Owned { leases: &self.owned, lease: &lease };
        let mut poller = Poller {
            client: Client::new(&lease, &self.manner),
            webhooks: self.sinks.clients(&lease, &self.manner),
            validators: Validators::default(),
            schedule: Schedule::new(self.jitter, hash_id(lease.resource().as_str())),
            answers: true,
            unheard: String::new(),
        };
        tokio::select! {
            biased;
            _ = lease.lost() => {}
            () = self.go_on(&lease, &mut poller) => {}
        }
    }

    async fn go_on(&self, lease: &Lease, poller: &mut Poller) {
        let mut entry = self.book.enter(lease.resource());
        loop {
            let target = entry.target().await;
            tokio::select! {
                () = SystemClock.sleep_until(poller.schedule.next(clock::now(), target.interval)) => {}
                () = entry.changed() => continue,
            }
            lease.changed(State::Uncertain).await;
            let Ok(turn) = self.at_once.acquire().await else { return };
            // The wait may have been long, and a heartbeat may have gone unconfirmed meanwhile.
            match lease.state() {
                State::Held if entry.is(&target) => self.ask(lease, poller, &target, turn).await,
                State::Held | State::Uncertain => {}
                State::Lost => std::future::pending().await,
            }
        }
    }

    /// Asks once, and passes on what was said. Broken off with the lease.
    async fn ask(&self, lease: &Lease, poller: &mut Poller, target: &Target, turn: SemaphorePermit<'_>) {
        let (began, wall_nanos) = (clock::now(), SystemClock.wall_nanos());
        poller.schedule.began(began);
        let mut headers = self.manner.headers.clone();
        poller.validators.apply(&mut headers);
        let ask = Ask { method: Method::GET, url: &target.url, headers, body: Bytes::new() };
        let said = {
            let mut flight = Flight { cancelled: &self.counts.cancelled, over: false };
            let asking = pin!(poller.client.ask(ask));
            let said = tokio::time::timeout(target.timeout, asking).await;
            flight.over = true;
            said.unwrap_or_else(|_| Err(format!("there was no answer within {:?}", target.timeout)))
        };
        // Nobody waits for this endpoint any more, and answers may wait to be told together.
        drop(turn);
        count(if said.is_ok() { &self.counts.answered } else { &self.counts.failed });
        self.note(lease, &mut poller.answers, &said);
        let line = result::line(lease, wall_nanos, clock::now().since(began), &said);
        if let Ok(answer) = &said {
            poller.validators.learn(answer);
        }
        let telling = self.sinks.tell(lease, &mut poller.webhooks, &self.manner.webhook_headers, &line);
        let told = tokio::time::timeout(TELL_MAX, telling).await;
        match told.unwrap_or_else(|_| Told::Failed(format!("nobody took it within {TELL_MAX:?}"))) {
            Told::All => {
                count(&self.counts.told);
                poller.unheard.clear();
            }
            Told::Stale => count(&self.counts.stale),
            Told::Failed(error) => {
                count(&self.counts.lost);
                if error != poller.unheard {
                    tracing::warn!(endpoint = %lease.resource(), error, "answers are not passed on");
                    poller.unheard = error;
                }
            }
        }
    }

    /// Says once that an endpoint does not answer, and once that it does again.
    fn note(&self, lease: &Lease, answers: &mut bool, said: &Result<Answer, String>) {
        let (endpoint, instance) = (lease.resource(), lease.member());
        match said {
            Ok(answer) if *answers => {
                tracing::debug!(%endpoint, %instance, status = answer.status.as_u16(), "polled")
            }
            Ok(_) => tracing::info!(%endpoint, %instance, "the endpoint answers again"),
            Err(error) if *answers => {
                tracing::warn!(%endpoint, %instance, error, "the endpoint does not answer")
            }
            Err(error) => tracing::debug!(%endpoint, %instance, error, "the endpoint still does not answer"),
        }
        *answers = said.is_ok();
    }
}

/// A lease among those of this member, until it is dropped.
struct Owned<'l> {
    leases: &'l Leases,
    lease: &'l Lease,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        let mut leases = self.leases.lock();
        if leases.get(self.lease.resource()).is_some_and(|lease| lease.token() == self.lease.token()) {
            leases.remove(self.lease.resource());
        }
    }
}

/// A request on its way; counted if nobody waits for its end.
struct Flight<'c> {
    cancelled: &'c AtomicU64,
    over: bool,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.over {
            count(self.cancelled);
        }
    }
}
