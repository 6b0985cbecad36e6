//! The heartbeat, and the guardian of trust: two tasks that wait for nothing else.
//!
//! The heartbeat never waits for work, for a plan or for another call. An answer that did not arrive in time is
//! *unknown*: the session becomes uncertain and the next beat follows soon. The beat before stays on its way, and its
//! late answer counts like any other. The guardian ends the session while there is still time to stop the work before
//! trust ends, whatever the heartbeat is doing.
//!
//! Invariant: a late answer says what it would have said in time, and no more. Trust counts from before its own beat was
//! sent and only ever moves forward. It confirms and ends nothing but in the era that its beat was sent in, and nothing
//! while a reassertion is unanswered. What it lists as revoked is added to what is known to be. That the store is frozen
//! it does not tell: the nonce may be out of date, so the store is asked again. At most one beat is waited for in this
//! way; nobody waits any more for one that is older than a confirmed beat, a reassertion or another late one.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::session::{Sent, Session, Standing};
use super::settings::{OnUncertain, Settings};
use super::{call, no_answer};
use crate::clock::{Clock, Moment};
use crate::discover::with_causes;
use crate::lease::{Nonce, Term};
use crate::ledger::{Event, Reason, Recorder, endpoints};
use crate::mistakes::{Mistake, made};
use crate::store::{Answer, Reasserted, Store, StoreError};

/// What the heartbeat learns that concerns single terms.
#[derive(Debug)]
pub(crate) enum Notice {
    /// An operator revoked these.
    Revoked(Vec<Term>),
    /// The store no longer knows these.
    Lost(Vec<Term>),
}

/// Keeps a session alive until it is over.
pub(crate) struct Heartbeat {
    pub(crate) session: Arc<Session>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) recorder: Recorder,
    pub(crate) notices: mpsc::UnboundedSender<Notice>,
}

/// What the store says to a beat.
type Said = Result<Answer<Vec<Term>>, StoreError>;

/// A beat on its way to the store and back.
struct Flight<'s> {
    sent: Sent,
    answer: Pin<Box<dyn Future<Output = Said> + Send + 's>>,
}

/// The beat that was not answered in time, if its answer may still come.
#[derive(Default)]
struct Late<'s>(Option<Flight<'s>>);

impl Late<'_> {
    /// The answer, when it comes. Nothing is lost if nobody waits for it to the end.
    async fn answer(&mut self) -> (Sent, Said) {
        let Some(flight) = &mut self.0 else { return std::future::pending().await };
        let (sent, said) = (flight.sent, flight.answer.as_mut().await);
        self.0 = None;
        (sent, said)
    }
}

impl Heartbeat {
    pub(crate) async fn run(self) {
        let mut failures = 0;
        let mut next = self.clock.now().after(self.settings.heartbeat);
        let mut standing = self.session.standing();
        let mut late = Late::default();
        loop {
            tokio::select! {
                biased;
                _ = standing.wait_for(|standing| matches!(standing, Standing::Over(_))) => return,
                (sent, said) = late.answer() => {
                    if self.hear_late(sent, said) {
                        failures = 0;
                        next = sent.at.after(self.settings.heartbeat);
                    }
                    continue;
                }
                () = self.clock.sleep_until(next) => {}
                () = self.session.hurried() => {}
            }
            let (sent, confirmed) = self.beat(&mut late).await;
            if confirmed {
                failures = 0;
                next = sent.at.after(self.settings.heartbeat);
            } else {
                next = self.clock.now().after(retry_delay(failures, self.settings.heartbeat));
                failures += 1;
            }
        }
    }

    async fn beat<'s>(&'s self, late: &mut Late<'s>) -> (Sent, bool) {
        if let Some(nonce) = self.session.reasserting() {
            *late = Late::default();
            return self.reassert(nonce).await;
        }
        let sent = self.session.sending();
        let mut answer = self.store.beat(self.session.id(), sent.pulse);
        let mut in_time = self.clock.sleep(self.settings.call_timeout);
        let said = loop {
            tokio::select! {
                biased;
                said = &mut answer => break said,
                (sent, said) = late.answer() => { let _ = self.hear_late(sent, said); }
                () = &mut in_time => {
                    self.unconfirmed(&no_answer(self.settings.call_timeout));
                    *late = Late(Some(Flight { sent, answer }));
                    return (sent, false);
                }
            }
        };
        match said {
            Ok(Answer::Done(revoked)) => {
                let confirmed = self.confirmed(sent, revoked);
                if confirmed {
                    *late = Late::default();
                }
                (sent, confirmed)
            }
            Ok(Answer::Gone) => {
                self.session.gone(sent);
                (sent, false)
            }
            Ok(Answer::Frozen(nonce)) => {
                *late = Late::default();
                self.recorder.note(self.session.id(), Event::Frozen).detail(&format!("era {nonce}")).write();
                self.reassert(nonce).await
            }
            Err(error) => {
                self.unconfirmed(&error);
                (sent, false)
            }
        }
    }

    /// Takes in what the store said to a beat that has been counted as unconfirmed. Says whether it is confirmed now.
    fn hear_late(&self, sent: Sent, said: Said) -> bool {
        match said {
            _ if self.session.is_over() => false,
            Ok(Answer::Done(revoked)) => self.confirmed(sent, revoked),
            Ok(Answer::Gone) => {
                self.session.gone(sent);
                false
            }
            Ok(Answer::Frozen(_)) => {
                self.session.hurry();
                false
            }
            Err(_) => false,
        }
    }

    /// The store may have forgotten: says again what is held, while trust is unbroken.
    async fn reassert(&self, nonce: Nonce) -> (Sent, bool) {
        let Some((open, terms)) = self.session.begin_reassert(nonce) else {
            return (self.session.sending(), false);
        };
        let sent = self.session.sending();
        let asked = self.store.reassert(&open, sent.pulse, &terms);
        match call(&*self.clock, &self.settings, asked).await {
            Ok(Answer::Done(outcomes)) => {
                let lost = terms.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == Reasserted::Lost);
                let lost: Vec<Term> = lost.map(|(term, _)| term.clone()).collect();
                // They are about to be stopped; until then this answer extends nothing of theirs.
                let _ = self.session.revoke(&lost);
                let confirmed = self.session.reasserted(sent, &lost);
                let kept = terms.len() - lost.len();
                let detail = format!("{kept} of {} terms kept", terms.len());
                let until = self.session.trusted_until();
                self.recorder.note(self.session.id(), Event::Reasserted).detail(&detail).until(until).write();
                if !lost.is_empty() {
                    let _ = self.notices.send(Notice::Lost(lost));
                }
                (sent, confirmed)
            }
            Ok(Answer::Gone) => {
                self.session.gone(sent);
                (sent, false)
            }
            // Frozen anew under another nonce: the next beat reasserts under that one.
            Ok(Answer::Frozen(nonce)) => {
                let _ = self.session.begin_reassert(nonce);
                (sent, false)
            }
            Err(error) => {
                self.unconfirmed(&error);
                (sent, false)
            }
        }
    }

    fn confirmed(&self, sent: Sent, revoked: Vec<Term>) -> bool {
        // Before trust is moved on: the beat that learns of it does not extend a revoked term.
        note_revoked(&self.session, &self.recorder, &revoked);
        let before = self.session.trusted_until();
        let confirmed = self.session.confirm_beat(sent);
        if confirmed {
            // How close it was: 1 is as soon as it was granted, 0 is too late.
            let left = before.since(self.clock.now()).div_duration_f64(self.settings.ttl);
            let pool = self.session.as_opened().pool.to_string();
            metrics::gauge!("leasehold_trust_margin_ratio", "pool" => pool).set(left);
            let until = self.session.trusted_until();
            self.recorder.note(self.session.id(), Event::Renewed).ttl(self.settings.ttl).until(until).write();
            if endpoints::are_in(&self.session.as_opened().pool) {
                endpoints::renewed(self.session.id(), &self.session.held());
            }
        }
        if !revoked.is_empty() {
            let _ = self.notices.send(Notice::Revoked(revoked));
        }
        confirmed
    }

    fn unconfirmed(&self, error: &StoreError) {
        let (first, error) = (self.session.doubt(), with_causes(error));
        let until = self.session.trusted_until();
        self.recorder.note(self.session.id(), Event::RenewFailed).error(&error).until(until).write();
        // Those that follow say nothing new of any endpoint.
        if first && endpoints::are_in(&self.session.as_opened().pool) {
            endpoints::failed(Event::RenewFailed, self.session.id(), &self.session.held(), &error);
        }
    }
}

/// Trust in revoked terms ends where it ends now, and the ledger says so at once: whoever reads it must not take a
/// later heartbeat for trust in them.
pub(super) fn note_revoked(session: &Session, recorder: &Recorder, revoked: &[Term]) {
    let (new, until) = session.revoke(revoked);
    for term in new {
        recorder.note(session.id(), Event::Revoked).term(term).reason(Reason::Revoked).until(until).write();
    }
}

/// The wait before the next attempt: a twentieth of the heartbeat, doubling up to an eighth of it.
fn retry_delay(failures: u32, heartbeat: Duration) -> Duration {
    (heartbeat / 20).saturating_mul(1 << failures.min(8)).min(heartbeat / 8)
}

/// Ends the session in time: when trust runs out (less the grace that work needs to stop), and when an
/// unconfirmed heartbeat has lasted longer than the pool allows.
pub(crate) async fn guard(session: Arc<Session>, clock: Arc<dyn Clock>, settings: Settings) {
    if made(Mistake::LapsedTrustRevives) {
        return;
    }
    let mut standing = session.standing();
    loop {
        let now = clock.now();
        let present = *standing.borrow_and_update();
        let (deadline, reason) = match present {
            Standing::Over(_) => return,
            Standing::Sure => (stop_at(&session, &settings), Reason::TtlExpiry),
            Standing::Uncertain(since) => patience(since, &session, &settings),
        };
        if now >= deadline {
            session.end(reason);
            return;
        }
        tokio::select! {
            biased;
            () = clock.sleep_until(deadline) => {}
            _ = standing.changed() => {}
        }
    }
}

/// The moment at which work must begin to stop so that it has stopped before trust ends.
fn stop_at(session: &Session, settings: &Settings) -> Moment {
    session.trusted_until().before(settings.grace)
}

fn patience(since: Moment, session: &Session, settings: &Settings) -> (Moment, Reason) {
    let stop_at = stop_at(session, settings);
    let patient_until = match settings.on_uncertain {
        OnUncertain::Pause => stop_at,
        OnUncertain::Continue(budget) => since.after(budget),
        OnUncertain::Stop => since,
    };
    if patient_until < stop_at { (patient_until, Reason::Uncertain) } else { (stop_at, Reason::TtlExpiry) }
}

#[cfg(test)]
mod tests;
