//! Writes entries: a log line each, and rows in the store behind the writer's back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::Level;

use super::{Entry, Event, Reason, endpoints};
use crate::clock::{Clock, Moment};
use crate::lease::{MemberId, MemberName, Pool, ResourceId, Term, Token};
use crate::store::Store;

/// How many entries may wait for the store; more are dropped and counted.
const WAITING_MAX: usize = 65_536;
/// How many entries go into one call.
const BATCH_MAX: usize = 256;
/// How many sessions' rows are counted at once; a member goes on under a new id after each it lost.
const COUNTED_MAX: usize = 16;

/// Where a member writes its part of the ledger.
#[derive(Debug, Clone)]
pub struct Recorder {
    pool: Pool,
    name: MemberName,
    boot: Arc<str>,
    clock: Arc<dyn Clock>,
    rows: mpsc::Sender<Entry>,
    counts: Arc<Mutex<VecDeque<(MemberId, u64)>>>,
}

impl Recorder {
    /// A recorder whose rows go to `store`. The returned task ends when the last recorder is gone and
    /// everything is written; a store that does not answer costs rows, never time.
    pub fn new(
        pool: Pool,
        name: MemberName,
        clock: Arc<dyn Clock>,
        store: Arc<dyn Store>,
    ) -> (Self, tokio::task::JoinHandle<()>) {
        let (rows, waiting) = mpsc::channel(WAITING_MAX);
        let writer = tokio::spawn(keep(pool.clone(), Arc::clone(&clock), store, waiting));
        (Self { pool, name, boot: clock.boot().into(), clock, rows, counts: Arc::default() }, writer)
    }

    /// Records, for whoever guards a resource, that a write under this term was let through. Record writes in the
    /// order in which they were let through.
    pub fn accepted(&self, guard: &MemberId, term: &Term) {
        self.note(guard, Event::Accepted).term(term).write();
    }

    /// Begins an entry.
    pub fn note(&self, member: &MemberId, event: Event) -> Note<'_> {
        let entry = Entry {
            wall_nanos: self.clock.wall_nanos(),
            at: self.clock.now(),
            boot: self.boot.as_ref().to_owned(),
            number: None,
            member: member.clone(),
            name: self.name.clone(),
            event,
            resource: None,
            token: None,
            trusted_until: None,
            ttl_ms: None,
            reason: None,
            error: None,
            other: None,
            detail: None,
        };
        Note { recorder: self, entry }
    }
}

impl Recorder {
    /// The number for an entry: the next one, if it is about a term of its writer.
    fn number(&self, entry: &Entry) -> u64 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let place = counts.iter().position(|(member, _)| *member == entry.member).unwrap_or_else(|| {
            counts.truncate(COUNTED_MAX - 1);
            counts.push_front((entry.member.clone(), 0));
            0
        });
        let Some((_, count)) = counts.get_mut(place) else { return 0 };
        *count += u64::from(entry.event.is_of_term());
        *count
    }
}

/// An entry in the making.
#[derive(Debug)]
#[must_use]
pub struct Note<'a> {
    recorder: &'a Recorder,
    entry: Entry,
}

impl Note<'_> {
    /// The term it is about.
    pub fn term(self, term: &Term) -> Self {
        self.resource(&term.resource).token(term.token)
    }

    /// The resource it is about.
    pub fn resource(mut self, resource: &ResourceId) -> Self {
        self.entry.resource = Some(resource.clone());
        self
    }

    /// The token it is about.
    pub fn token(mut self, token: Token) -> Self {
        self.entry.token = Some(token);
        self
    }

    /// Until when the writer trusts itself.
    pub fn until(mut self, trusted_until: Moment) -> Self {
        self.entry.trusted_until = Some(trusted_until);
        self
    }

    /// The TTL.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.entry.ttl_ms = u64::try_from(ttl.as_millis()).ok();
        self
    }

    /// Why.
    pub fn reason(mut self, reason: Reason) -> Self {
        self.entry.reason = Some(reason);
        self
    }

    /// What went wrong.
    pub fn error(mut self, error: &str) -> Self {
        self.entry.error = Some(error.to_owned());
        self
    }

    /// The other member concerned.
    pub fn other(mut self, other: &MemberId) -> Self {
        self.entry.other = Some(other.clone());
        self
    }

    /// Anything else worth knowing.
    pub fn detail(mut self, detail: &str) -> Self {
        self.entry.detail = Some(detail.to_owned());
        self
    }

    /// Writes it.
    pub fn write(mut self) {
        self.entry.number = Some(self.recorder.number(&self.entry));
        self.entry.log(&self.recorder.pool);
        if self.recorder.rows.try_send(self.entry).is_err() {
            tracing::debug!("the ledger is behind; a row was dropped");
        }
    }
}

impl Entry {
    /// The entry as a structured log line with the fields `event`, `instance`, `resource` and so on. In JSON it can be
    /// read back by [`replay`](super::replay).
    pub fn log(&self, pool: &Pool) {
        let of_endpoints = endpoints::are_in(pool);
        let endpoint = self.resource.as_ref().filter(|_| of_endpoints).map(ResourceId::as_str);
        let sentence = of_endpoints.then(|| endpoints::sentence(self)).flatten();
        let sentence = sentence.as_deref().unwrap_or_else(|| self.event.sentence());
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: "leasehold::ledger",
                    $level,
                    event = self.event.as_str(),
                    pool = pool.as_str(),
                    instance = self.member.as_str(),
                    name = self.name.as_str(),
                    resource = self.resource.as_ref().map(ResourceId::as_str),
                    endpoint,
                    token = self.token.map(|token| token.0),
                    ttl_ms = self.ttl_ms,
                    reason = self.reason.map(Reason::as_str),
                    error = self.error.as_deref(),
                    other = self.other.as_ref().map(MemberId::as_str),
                    detail = self.detail.as_deref(),
                    number = self.number,
                    at = self.at.0,
                    trusted_until = self.trusted_until.map(|until| until.0),
                    wall_nanos = self.wall_nanos,
                    boot = self.boot.as_str(),
                    "{sentence}"
                )
            };
        }
        match self.event {
            Event::Renewed => line!(Level::DEBUG),
            Event::RenewFailed | Event::AcquireFailed | Event::Lost | Event::Frozen | Event::Quarantined => {
                line!(Level::WARN);
            }
            _ => line!(Level::INFO),
        }
    }
}

async fn keep(pool: Pool, clock: Arc<dyn Clock>, store: Arc<dyn Store>, mut waiting: mpsc::Receiver<Entry>) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while waiting.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let patience = clock.sleep(Duration::from_secs(3));
        tokio::select! {
            written = store.append(&pool, &batch) => if let Err(error) = written {
                tracing::debug!(%error, rows = batch.len(), "the store did not take rows of the ledger");
            },
            () = patience => tracing::debug!(rows = batch.len(), "the store did not take rows of the ledger in time"),
        }
        batch.clear();
    }
}
