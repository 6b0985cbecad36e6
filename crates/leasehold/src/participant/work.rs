//! Work under a lease: one task each, told to stop in time and aborted before trust ends.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinHandle};

use super::session::{Session, Standing};
use crate::clock::{Clock, Moment};
use crate::lease::{MemberId, Pool, ResourceId, Term, Token};
use crate::ledger::{Event, Reason, Recorder};
use crate::store::{Guard, LeaseStore};

/// What a member does with a lease.
pub(crate) type Work = Arc<dyn Fn(Lease) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// How sure a holder is of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Held, and the last heartbeat was confirmed.
    Held,
    /// A heartbeat went unconfirmed; trust still runs.
    Uncertain,
    /// No longer ours. Final.
    Lost,
}

/// The lease is no longer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease is no longer held")]
pub struct Lost;

/// A resource that is held, as its work sees it. Clones are the same lease.
///
/// # Guarantees
/// While [`Lease::term`] answers a term, no other member's does for the same resource.
#[derive(Clone)]
pub struct Lease {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Pool,
    term: Term,
    session: Arc<Session>,
    clock: Arc<dyn Clock>,
    stop: watch::Sender<Option<Reason>>,
    /// Set when the term is dead: the work has ended, or the store has given the lease to another.
    dead: AtomicBool,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("pool", &self.inner.pool).field("term", &self.inner.term).finish()
    }
}

impl Lease {
    pub(crate) fn new(pool: Pool, term: Term, session: Arc<Session>, clock: Arc<dyn Clock>) -> Self {
        Self {
            inner: Arc::new(Inner {
                pool,
                term,
                session,
                clock,
                stop: watch::Sender::new(None),
                dead: AtomicBool::new(false),
            }),
        }
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &ResourceId {
        &self.inner.term.resource
    }

    /// The member that holds it.
    #[must_use]
    pub fn member(&self) -> &MemberId {
        self.inner.session.id()
    }

    /// The fencing token, whether or not the lease is still held. Use [`Lease::term`] at the moment of use.
    #[must_use]
    pub fn token(&self) -> Token {
        self.inner.term.token
    }

    /// The term, if it may be acted upon at this moment.
    ///
    /// # Errors
    /// [`Lost`] once trust has ended, the store has given the lease to another, or the work has ended.
    pub fn term(&self) -> Result<&Term, Lost> {
        if self.remaining().is_zero() { Err(Lost) } else { Ok(&self.inner.term) }
    }

    /// How long the lease may be acted upon if nothing more is heard from the store.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.trusted_until().since(self.inner.clock.now())
    }

    /// The end of trust on this machine's clock, if nothing more is heard from the store. It lies in the past once
    /// the store has said that the lease is not ours.
    #[must_use]
    pub fn trusted_until(&self) -> Moment {
        let gone = matches!(*self.inner.session.standing().borrow(), Standing::Over(Reason::Superseded));
        if gone || self.inner.dead.load(Ordering::SeqCst) {
            return Moment::default();
        }
        self.inner.session.trusted_until_of(&self.inner.term)
    }

    /// The end of trust that everything this member works on shares: a revoked term bounds the rest until its work has
    /// ended. The same as [`Running::trusted_until`](super::Running::trusted_until) tells.
    #[must_use]
    pub fn common_deadline(&self) -> Option<Moment> {
        self.inner.session.told_trust()
    }

    /// How sure the holder is at this moment.
    #[must_use]
    pub fn state(&self) -> State {
        if self.remaining().is_zero() || self.inner.stop.borrow().is_some() {
            return State::Lost;
        }
        match *self.inner.session.standing().borrow() {
            Standing::Sure => State::Held,
            Standing::Uncertain(_) => State::Uncertain,
            Standing::Over(_) => State::Lost,
        }
    }

    /// Since when heartbeats have gone unconfirmed, if the last one has.
    #[must_use]
    pub fn uncertain_since(&self) -> Option<Moment> {
        match *self.inner.session.standing().borrow() {
            Standing::Uncertain(since) => Some(since),
            Standing::Sure | Standing::Over(_) => None,
        }
    }

    /// Whether the work was told to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.inner.stop.borrow().is_some() || self.inner.session.is_over() || self.remaining().is_zero()
    }

    /// Ends when [`Lease::state`] is no longer `than`; never, if that is [`State::Lost`], which is final.
    pub async fn changed(&self, than: State) {
        let mut standing = self.inner.session.standing();
        let mut stop = self.inner.stop.subscribe();
        while self.state() == than {
            if than == State::Lost {
                std::future::pending::<()>().await;
            }
            tokio::select! {
                biased;
                _ = standing.changed() => {}
                _ = stop.changed() => {}
                () = self.inner.clock.sleep_until(self.trusted_until()) => {}
            }
        }
    }

    /// Ends when the work must stop, for whatever reason, and says why.
    pub async fn lost(&self) -> Reason {
        let mut stop = self.inner.stop.subscribe();
        let mut standing = self.inner.session.standing();
        tokio::select! {
            biased;
            told = stop.wait_for(Option::is_some) => told.ok().and_then(|reason| *reason),
            over = standing.wait_for(|standing| matches!(standing, Standing::Over(_))) => match over.as_deref() {
                Ok(Standing::Over(reason)) => Some(*reason),
                _ => None,
            },
        }
        .unwrap_or(Reason::TtlExpiry)
    }

    /// Gives the lease up: the work is told to stop, and when it has, the resource is free for the others. This member
    /// leaves it to them for a while.
    pub fn give_up(&self) {
        self.stop(Reason::Voluntary);
    }

    /// What a write to the store's own server can depend on, so that the server refuses it once the resource has gone to
    /// another. `None` where that cannot be had.
    pub fn guard(&self, store: &dyn LeaseStore) -> Option<Guard> {
        store.guard(self.inner.session.as_opened(), &self.inner.term)
    }

    /// The end of trust as the session has it, for the ledger: dead or not, until then the term was trusted at most.
    pub(crate) fn session_trust(&self) -> Moment {
        self.inner.session.trusted_until_of(&self.inner.term)
    }

    /// The term is dead: nothing may be done under it any more. Answers whether it was not dead before.
    pub(crate) fn disown(&self) -> bool {
        !self.inner.dead.swap(true, Ordering::SeqCst)
    }

    /// Why the work was told to stop, if it was.
    fn told(&self) -> Option<Reason> {
        match *self.inner.session.standing().borrow() {
            Standing::Over(reason) => Some(self.inner.stop.borrow().unwrap_or(reason)),
            _ => *self.inner.stop.borrow(),
        }
    }

    /// Tells the work to stop; the first reason stays.
    pub(crate) fn stop(&self, reason: Reason) {
        self.inner.stop.send_if_modified(|told| {
            let first = told.is_none();
            if first {
                *told = Some(reason);
            }
            first
        });
    }
}

/// How work came to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) term: Term,
    /// Why it was told to stop; `None` if it returned or panicked by itself.
    pub(crate) told: Option<Reason>,
}

/// How work is brought to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// How long it gets to stop by itself.
    pub(crate) grace: Duration,
    /// Whether it is aborted after that. Otherwise its end is waited for, and its lease does not go back before.
    pub(crate) aborts: bool,
}

/// Waits for work that was told to stop.
async fn bring_to_an_end(
    lease: &Lease,
    mut task: JoinHandle<()>,
    deadline: Moment,
    aborts: bool,
) -> Result<(), JoinError> {
    // What stops by itself gets a moment to say so, also when this machine slept through the deadline.
    let patience = if aborts { Duration::ZERO } else { Duration::from_secs(1) };
    tokio::select! {
        biased;
        outcome = &mut task => return outcome,
        () = async {
            lease.inner.clock.sleep_until(deadline).await;
            lease.inner.clock.sleep(patience).await;
        } => {}
    }
    if aborts {
        task.abort();
    } else {
        tracing::error!(resource = %lease.resource(), "the work has not stopped; its lease stays here until it does");
    }
    task.await
}

/// Runs the work of one lease until it ends, and reports.
pub(crate) async fn tend(
    lease: Lease,
    work: Work,
    manner: Manner,
    recorder: Recorder,
    ended: mpsc::UnboundedSender<Ended>,
) {
    let term = lease.inner.term.clone();
    let member = lease.member().clone();
    recorder.note(&member, Event::Started).term(&term).until(lease.session_trust()).write();
    let held = lease.clone();
    let mut task = tokio::spawn(async move { work(held).await });
    let (told, outcome) = tokio::select! {
        biased;
        // It may have noticed first that it is to stop.
        outcome = &mut task => (lease.told(), outcome),
        reason = lease.lost() => {
            let deadline = lease.inner.clock.now().after(manner.grace).min(lease.trusted_until());
            (Some(reason), bring_to_an_end(&lease, task, deadline, manner.aborts).await)
        }
    };
    let trusted_until = lease.session_trust();
    lease.disown();
    let note = recorder.note(&member, Event::Stopped).term(&term).until(trusted_until);
    let note = note.reason(told.unwrap_or(Reason::Voluntary));
    match outcome {
        Err(error) if error.is_panic() => note.error("the work panicked").write(),
        Err(_) => note.detail("aborted").write(),
        Ok(()) => note.write(),
    }
    let _ = ended.send(Ended { term, told });
}

#[cfg(test)]
mod tests;
