//! The heartbeat, and the guardian of trust: two tasks that wait for nothing else.
//!
//! The heartbeat never waits for work, for a plan or for another call. An answer that did not arrive is
//! *unknown*: the session becomes uncertain and the next beat follows at once. The guardian ends the session
//! while there is still time to stop the work before trust ends, whatever the heartbeat is doing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::call;
use super::session::{Sent, Session, Standing};
use super::settings::{OnUncertain, Settings};
use crate::clock::{Clock, Moment};
use crate::discover::with_causes;
use crate::lease::{Nonce, Term};
use crate::ledger::{Event, Reason, Recorder};
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

impl Heartbeat {
    pub(crate) async fn run(self) {
        let mut failures = 0;
        let mut next = self.clock.now().after(self.settings.heartbeat);
        let mut standing = self.session.standing();
        loop {
            tokio::select! {
                biased;
                _ = standing.wait_for(|standing| matches!(standing, Standing::Over(_))) => return,
                () = self.clock.sleep_until(next) => {}
                () = self.session.hurried() => {}
            }
            let (sent, confirmed) = self.beat().await;
            if confirmed {
                failures = 0;
                next = sent.at.after(self.settings.heartbeat);
            } else {
                next = self.clock.now().after(retry_delay(failures, self.settings.heartbeat));
                failures += 1;
            }
        }
    }

    async fn beat(&self) -> (Sent, bool) {
        if let Some(nonce) = self.session.reasserting() {
            return self.reassert(nonce).await;
        }
        let sent = self.session.sending();
        let answer = call(&*self.clock, &self.settings, self.store.beat(self.session.id(), sent.pulse)).await;
        match answer {
            Ok(Answer::Done(revoked)) => {
                // Before trust is moved on: the beat that learns of it does not extend a revoked term.
                note_revoked(&self.session, &self.recorder, &revoked);
                let confirmed = self.confirmed(sent);
                if !revoked.is_empty() {
                    let _ = self.notices.send(Notice::Revoked(revoked));
                }
                (sent, confirmed)
            }
            Ok(Answer::Gone) => {
                self.session.gone(sent);
                (sent, false)
            }
            Ok(Answer::Frozen(nonce)) => {
                self.recorder.note(self.session.id(), Event::Frozen).detail(&format!("era {nonce}")).write();
                self.reassert(nonce).await
            }
            Err(error) => {
                self.unconfirmed(&error);
                (sent, false)
            }
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

    fn confirmed(&self, sent: Sent) -> bool {
        let confirmed = self.session.confirm_beat(sent);
        if confirmed {
            let until = self.session.trusted_until();
            self.recorder.note(self.session.id(), Event::Renewed).ttl(self.settings.ttl).until(until).write();
        }
        confirmed
    }

    fn unconfirmed(&self, error: &StoreError) {
        self.session.doubt();
        let until = self.session.trusted_until();
        self.recorder
            .note(self.session.id(), Event::RenewFailed)
            .error(&with_causes(error))
            .until(until)
            .write();
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
