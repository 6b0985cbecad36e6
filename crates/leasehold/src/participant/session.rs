//! A member's standing in a pool: its beat numbers, what it holds, and how long it may trust itself.
//!
//! Invariant: `trusted_until` is the moment *before* the last confirmed heartbeat was sent, plus the TTL, less the
//! margin. It is moved by confirmed heartbeats only, and once it has passed, or the store has said so, the session
//! is over and stays over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::clock::{Clock, Moment};
use crate::lease::{BeatNumber, MemberId, Nonce, ResourceId, Term, Token};
use crate::ledger::Reason;
use crate::mistakes::{Mistake, made};
use crate::store::{OpenSession, Profile, Pulse};

/// How sure a session is of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The last heartbeat was confirmed.
    Sure,
    /// A heartbeat went unconfirmed at this moment; trust still runs.
    Uncertain(Moment),
    /// Trust ended, or the store said so. Final.
    Over(Reason),
}

#[derive(Debug)]
pub(crate) struct Session {
    open: OpenSession,
    clock: Arc<dyn Clock>,
    margin: Duration,
    next: AtomicU64,
    known: Mutex<Known>,
    standing: watch::Sender<Standing>,
    /// Tells whoever watches over work that goes on by itself how long it may.
    trust: watch::Sender<Option<Moment>>,
    hurry: Notify,
}

#[derive(Debug)]
struct Known {
    era: Nonce,
    /// Set while a reassertion under `era` has not been answered: until then nothing extends trust.
    reasserting: bool,
    confirmed: BeatNumber,
    trusted_until: Moment,
    /// The terms that are ours to reassert: granted, not lost, and no release of them was sent.
    terms: BTreeMap<ResourceId, Token>,
    /// The terms whose work has not ended, whatever the store says of them.
    working: BTreeSet<Term>,
    /// Revoked terms, and the end of trust in each: no later beat extends it.
    revoked: BTreeMap<Term, Moment>,
    profile: Profile,
}

/// A call on its way to the store: what it carries and when it was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) pulse: Pulse,
    pub(crate) at: Moment,
}

impl Session {
    /// A session that `open` confirmed; `sent` was read before the call.
    pub(crate) fn opened(
        open: OpenSession,
        era: Nonce,
        sent: Moment,
        margin: Duration,
        clock: Arc<dyn Clock>,
        trust: watch::Sender<Option<Moment>>,
    ) -> Self {
        let margin = if made(Mistake::NoMargin) { Duration::ZERO } else { margin };
        let known = Known {
            era,
            reasserting: false,
            confirmed: BeatNumber(0),
            trusted_until: sent.after(open.ttl).before(margin),
            terms: BTreeMap::new(),
            working: BTreeSet::new(),
            revoked: BTreeMap::new(),
            profile: open.profile.clone(),
        };
        trust.send_replace(Some(known.trusted_until));
        let standing = watch::Sender::new(Standing::Sure);
        Self {
            open,
            clock,
            margin,
            next: AtomicU64::new(1),
            known: Mutex::new(known),
            standing,
            trust,
            hurry: Notify::new(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn id(&self) -> &MemberId {
        &self.open.id
    }

    /// As it was opened.
    pub(crate) fn as_opened(&self) -> &OpenSession {
        &self.open
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.open.ttl
    }

    pub(crate) fn era(&self) -> Nonce {
        self.known().era
    }

    /// Asks the heartbeat not to wait for its turn.
    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Ends when the heartbeat should not wait for its turn.
    pub(crate) async fn hurried(&self) {
        self.hurry.notified().await;
    }

    /// What a reassertion says about this member.
    pub(crate) fn set_profile(&self, profile: Profile) {
        self.known().profile = profile;
    }

    pub(crate) fn trusted_until(&self) -> Moment {
        self.known().trusted_until
    }

    /// The same for one term, which may have been revoked.
    pub(crate) fn trusted_until_of(&self, term: &Term) -> Moment {
        let known = self.known();
        let revoked = known.revoked.get(term).copied();
        revoked.map_or(known.trusted_until, |until| until.min(known.trusted_until))
    }

    /// These terms were revoked: trust in them ends where it ends now. Gives those of them that were not known to be
    /// and whose work goes on, and the end of trust in them.
    pub(crate) fn revoke<'t>(&self, terms: &'t [Term]) -> (Vec<&'t Term>, Moment) {
        let mut known = self.known();
        let until = known.trusted_until;
        if made(Mistake::RevokedTermsAreExtended) {
            return (Vec::new(), until);
        }
        let new: Vec<&Term> = terms.iter().filter(|term| !known.revoked.contains_key(term)).collect();
        known.revoked.extend(new.iter().map(|term| ((*term).clone(), until)));
        (new.into_iter().filter(|term| known.working.contains(term)).collect(), until)
    }

    pub(crate) fn is_trusted(&self) -> bool {
        !self.is_over() && (self.clock.now() < self.trusted_until() || made(Mistake::LapsedTrustRevives))
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.standing.borrow(), Standing::Over(_))
    }

    pub(crate) fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Marks the next call. The clock is read here, before anything is sent.
    pub(crate) fn sending(&self) -> Sent {
        let at = self.clock.now();
        let number = BeatNumber(self.next.fetch_add(1, Ordering::SeqCst));
        let known = self.known();
        Sent { pulse: Pulse { era: known.era, number, confirmed: known.confirmed }, at }
    }

    /// A heartbeat was confirmed: trust runs from before it was sent. Only heartbeats move it, because only their
    /// answers say which terms were revoked. Answers whether the answer still counts: one from another era, or one
    /// that arrives after trust has ended, does not.
    pub(crate) fn confirm_beat(&self, sent: Sent) -> bool {
        let from = if made(Mistake::TrustFromTheAnswer) { self.clock.now() } else { sent.at };
        let trusted_until = from.after(self.open.ttl).before(self.margin);
        let confirmed = self.confirm_and(sent, |known| {
            known.trusted_until = known.trusted_until.max(trusted_until);
            self.tell_trust(known);
        });
        if confirmed {
            self.become_standing(Standing::Sure);
        }
        confirmed
    }

    /// Work that goes on by itself has one deadline for all of it, so a revoked term bounds the rest until its own
    /// work has ended.
    fn tell_trust(&self, known: &Known) {
        let caps = known.working.iter().filter_map(|term| known.revoked.get(term).copied());
        let bounded = caps.fold(known.trusted_until, Moment::min);
        let told = if made(Mistake::ChildrenOutliveTrust) { Moment(u64::MAX) } else { bounded };
        self.trust.send_replace(Some(told));
    }

    /// What was told last.
    pub(crate) fn told_trust(&self) -> Option<Moment> {
        *self.trust.borrow()
    }

    /// Any other call was confirmed.
    pub(crate) fn confirm(&self, sent: Sent) -> bool {
        self.confirm_and(sent, |_| ())
    }

    /// An acquisition was confirmed: in the same step its terms become ours, except those that were revoked before
    /// the answer came. Gives the terms to use.
    pub(crate) fn confirm_grants(&self, sent: Sent, mut granted: Vec<Term>) -> Vec<Term> {
        let confirmed = self.confirm_and(sent, |known| {
            granted.retain(|term| !known.revoked.contains_key(term));
            known.terms.extend(granted.iter().map(|term| (term.resource.clone(), term.token)));
            known.working.extend(granted.iter().cloned());
        });
        if confirmed { granted } else { Vec::new() }
    }

    fn confirm_and(&self, sent: Sent, then: impl FnOnce(&mut Known)) -> bool {
        if self.is_over() {
            return false;
        }
        let mut known = self.known();
        // Invariant: trust that has lapsed is never revived, however good the news that arrives late.
        if self.clock.now() >= known.trusted_until && !made(Mistake::LapsedTrustRevives) {
            drop(known);
            self.end(Reason::TtlExpiry);
            return false;
        }
        if known.era != sent.pulse.era || known.reasserting {
            return false;
        }
        known.confirmed = known.confirmed.max(sent.pulse.number);
        then(&mut known);
        true
    }

    /// The store said that the session is over. Said in an older era, that is about a session that has since
    /// been reasserted, and says nothing.
    pub(crate) fn gone(&self, sent: Sent) {
        if self.era() == sent.pulse.era {
            self.end(Reason::Superseded);
        }
    }

    /// The store is frozen under `nonce`: from here on only answers of that era count. Gives what to reassert,
    /// unless trust has lapsed.
    pub(crate) fn begin_reassert(&self, nonce: Nonce) -> Option<(OpenSession, Vec<Term>)> {
        if !self.is_trusted() {
            self.end(Reason::TtlExpiry);
            return None;
        }
        let mut known = self.known();
        known.era = nonce;
        known.reasserting = true;
        let term =
            |(resource, token): (&ResourceId, &Token)| Term { resource: resource.clone(), token: *token };
        let open = OpenSession { profile: known.profile.clone(), ..self.open.clone() };
        Some((open, known.terms.iter().map(term).collect()))
    }

    /// The nonce of a reassertion that has not been answered yet.
    pub(crate) fn reasserting(&self) -> Option<Nonce> {
        let known = self.known();
        known.reasserting.then_some(known.era)
    }

    /// A reassertion was answered; the lost terms are no longer ours.
    pub(crate) fn reasserted(&self, sent: Sent, lost: &[Term]) -> bool {
        {
            let mut known = self.known();
            if known.era != sent.pulse.era {
                return false;
            }
            known.reasserting = false;
            for term in lost {
                known.terms.remove(&term.resource);
            }
        }
        self.confirm_beat(sent)
    }

    /// A term is dead to us: it is not ours to reassert.
    pub(crate) fn forget(&self, resource: &ResourceId) {
        self.known().terms.remove(resource);
    }

    /// The work of a term has ended, so nothing is left to be bounded.
    pub(crate) fn close_term(&self, term: &Term) {
        let mut known = self.known();
        known.terms.remove(&term.resource);
        known.working.remove(term);
        self.tell_trust(&known);
    }

    /// What is held, as far as is known.
    pub(crate) fn held(&self) -> Vec<ResourceId> {
        self.known().terms.keys().cloned().collect()
    }

    /// A heartbeat went unconfirmed. Answers whether the one before was confirmed.
    pub(crate) fn doubt(&self) -> bool {
        let now = self.clock.now();
        self.standing.send_if_modified(|standing| {
            let sure = *standing == Standing::Sure;
            if sure {
                *standing = Standing::Uncertain(now);
            }
            sure
        })
    }

    /// The session is over, for good.
    pub(crate) fn end(&self, reason: Reason) {
        self.become_standing(Standing::Over(reason));
    }

    fn become_standing(&self, new: Standing) {
        self.standing.send_if_modified(|standing| {
            let change = *standing != new && !matches!(standing, Standing::Over(_));
            if change {
                *standing = new;
            }
            change
        });
    }
}

#[cfg(test)]
pub(super) mod tests;
