//! Letting go: the work stops first, then the term goes back, with a word on who should take it next.
//!
//! Invariant: once a release has been sent, its term is dead to us, answer or no answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::call;
use super::member::Member;
use super::renew::note_revoked;
use super::work::Ended;
use crate::clock::Moment;
use crate::lease::{MemberId, ResourceId, Term};
use crate::ledger::{Event, Reason};
use crate::mistakes::{Mistake, made};
use crate::plan::{DropReason, Move, MoveReason};
use crate::store::{Answer, LeaseRecord, Offer, Release, Released, StoreError};
use crate::view::News;

/// After this long without trouble, work that ended by itself counts as ending for the first time.
const REST_FORGOTTEN: Duration = Duration::from_secs(60);

/// The longest that work stays before it is offered again to a member that did not keep it.
const HANDED_MAX: Duration = Duration::from_secs(600);

/// A term on its way back to the store.
#[derive(Debug, Clone)]
pub(super) struct Returning {
    pub(super) term: Term,
    pub(super) offer: Option<Offer>,
    pub(super) reason: Reason,
}

impl Member {
    /// Stops the work of a term that somebody else decided about.
    pub(super) fn stop_term(&mut self, term: &Term, reason: Reason) {
        let Some(tenure) = self.tenures.get_mut(&term.resource) else { return };
        if tenure.lease.token() != term.token {
            return;
        }
        // Whatever it was stopping for, what was superseded is not ours any more.
        if reason == Reason::Superseded && tenure.lease.disown() {
            let note = self.recorder.note(tenure.lease.member(), Event::Lost).term(term).reason(reason);
            note.until(tenure.lease.session_trust()).write();
        }
        if tenure.leaving.is_none() {
            tenure.leaving = Some(Returning { term: term.clone(), offer: None, reason });
            tenure.lease.stop(reason);
        }
    }

    /// What the store says of our terms is final; what it says we hold and we do not know of goes back.
    pub(super) fn compare_with_view(&mut self) {
        let Some(session) = self.live_session() else { return };
        // A frozen store, or one of another era, has nothing final to say.
        if self.view.era().is_none_or(|era| era.frozen || era.nonce != session.era()) {
            return;
        }
        let (mut lost, mut revoked, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        let is_mine = |lease: &&LeaseRecord| lease.holder.as_ref() == Some(session.id());
        let doubtful: BTreeSet<ResourceId> = match std::mem::take(&mut self.doubts) {
            News::Anything => {
                let shown = self.view.leases().values().filter(is_mine).map(|lease| &lease.resource);
                self.tenures.keys().chain(shown).cloned().collect()
            }
            few => few.resources().cloned().collect(),
        };
        for resource in doubtful {
            let term = |token| Term { resource: resource.clone(), token };
            let held = self.tenures.get(&resource).map(|tenure| tenure.lease.token());
            let shown = self.view.leases().get(&resource).filter(is_mine);
            match (held, shown) {
                (Some(token), Some(lease)) if lease.token == token => {
                    revoked.extend(lease.revoked.then(|| term(token)));
                }
                _ => {
                    lost.extend(held.map(term));
                    unknown.extend(shown.map(|lease| term(lease.token)));
                }
            }
        }
        note_revoked(&session, &self.recorder, &revoked);
        for term in revoked {
            self.stop_term(&term, Reason::Revoked);
        }
        for term in lost {
            session.forget(&term.resource);
            self.stop_term(&term, Reason::Superseded);
        }
        for term in unknown {
            if made(Mistake::TermUsedAfterItsRelease) && self.returning.remove(&term).is_some() {
                self.start(&session, term);
                continue;
            }
            let unconfirmed = Returning { term: term.clone(), offer: None, reason: Reason::Unconfirmed };
            self.returning.entry(term).or_insert(unconfirmed);
        }
    }

    /// Begins to hand off what the plan moves away from here, and to drop what nobody should hold.
    pub(super) fn obey_plan(&mut self) {
        let Some(session) = self.live_session() else { return };
        // What a frozen store, or one of another era, shows is not what everybody knows: nothing moves by it.
        if !self.leaving && self.view.era().is_none_or(|era| era.frozen || era.nonce != session.era()) {
            return;
        }
        let me = session.id();
        let Some(plan) = self.planned.take() else { return };
        let now = self.clock.now();
        let moves: BTreeMap<&ResourceId, &Move> =
            plan.moves().iter().filter(|step| step.from == *me).map(|step| (&step.resource, step)).collect();
        for step in plan.drops().iter().filter(|step| step.from == *me) {
            let reason = match step.reason {
                DropReason::Paused => Reason::SessionPaused,
                // Our own source knows better than a store that has lost our listing.
                DropReason::Unlisted if self.lists(&step.resource) => continue,
                DropReason::Unlisted => self.why_unlisted(&step.resource),
            };
            self.begin_release(&step.resource, reason, None);
        }
        for step in moves.values().filter(|step| step.now) {
            if step.reason != MoveReason::Rebalance || self.may_rebalance(step, now) {
                let offer = Offer { to: step.to.clone(), load: step.load };
                let reason = match self.lists(&step.resource) {
                    _ if self.leaving => Reason::Shutdown,
                    // Others may find out later than we that it is no longer there.
                    false if self.listing.is_some() => self.why_unlisted(&step.resource),
                    _ => Reason::Rebalance,
                };
                self.begin_release(&step.resource, reason, Some(offer));
            }
        }
        if self.leaving {
            let offer = |step: &&Move| Offer { to: step.to.clone(), load: u64::MAX };
            self.stop_everything(|resource| moves.get(resource).map(offer));
        }
        self.planned = Some(plan);
    }

    /// Begins to let go of everything, because this member leaves.
    pub(super) fn stop_everything(&mut self, offer: impl Fn(&ResourceId) -> Option<Offer>) {
        let held: Vec<ResourceId> = self.tenures.keys().cloned().collect();
        for resource in held {
            self.begin_release(&resource, Reason::Shutdown, offer(&resource));
        }
    }

    /// Whether our own source lists the resource.
    fn lists(&self, resource: &ResourceId) -> bool {
        self.listing.as_ref().is_some_and(|listing| listing.borrow().contains(resource))
    }

    /// Why our own source does not list it.
    fn why_unlisted(&self, resource: &ResourceId) -> Reason {
        let rests = self.source.as_ref().is_some_and(|source| source.rests(resource));
        if rests { Reason::SessionPaused } else { Reason::SessionDeleted }
    }

    /// Moves for balance wait until the view is stable and the lease was held for a while, and longer if the
    /// same offer was made before and the work came back.
    fn may_rebalance(&self, step: &Move, now: Moment) -> bool {
        let held_since = self.tenures.get(&step.resource).map(|tenure| tenure.granted_at);
        let patient = self.settings.hold_min.max(self.came_back(&step.resource, &step.to));
        held_since.is_some_and(|since| now.since(since) >= patient)
            && now.since(self.members_changed_at) >= self.settings.settle / 2
    }

    /// How long to keep what that member did not keep when it was offered to it.
    fn came_back(&self, resource: &ResourceId, to: &MemberId) -> Duration {
        match self.handed.get(resource) {
            Some((taker, times)) if taker == to => {
                self.settings.hold_min.saturating_mul(1 << times.min(&8)).min(HANDED_MAX)
            }
            _ => Duration::ZERO,
        }
    }

    fn begin_release(&mut self, resource: &ResourceId, reason: Reason, offer: Option<Offer>) {
        let Some(tenure) = self.tenures.get_mut(resource) else { return };
        if tenure.leaving.is_none() {
            let term = Term { resource: resource.clone(), token: tenure.lease.token() };
            let returning = Returning { term, offer, reason };
            if made(Mistake::ReleasedBeforeTheWorkStopped) {
                self.returning.insert(returning.term.clone(), returning.clone());
            }
            tenure.leaving = Some(returning);
            tenure.lease.stop(reason);
        }
    }

    /// Takes note of work that has ended: its term goes back.
    pub(super) fn take_ended(&mut self) {
        while let Ok(ended) = self.ended.1.try_recv() {
            self.end_tenure(&ended);
        }
    }

    pub(super) fn end_tenure(&mut self, ended: &Ended) {
        let Some(tenure) = self.tenures.remove(&ended.term.resource) else { return };
        self.doubts.note(&ended.term.resource);
        self.told = false;
        let by_itself = || Returning {
            term: ended.term.clone(),
            offer: None,
            reason: ended.told.unwrap_or(Reason::Voluntary),
        };
        if matches!(ended.told, None | Some(Reason::Voluntary)) {
            self.rest(&ended.term.resource, tenure.granted_at);
        }
        let Some(session) = &self.session else { return };
        session.close_term(&ended.term);
        if session.is_over() {
            let reason = ended.told.unwrap_or(Reason::TtlExpiry);
            let note = self.recorder.note(session.id(), Event::Lost).term(&ended.term).reason(reason);
            note.until(session.trusted_until()).write();
        } else {
            let returning = tenure.leaving.unwrap_or_else(by_itself);
            if let Some(offer) = &returning.offer {
                let times = self.handed.get(&ended.term.resource).filter(|(to, _)| *to == offer.to);
                let times = times.map_or(0, |(_, times)| *times);
                self.handed.insert(ended.term.resource.clone(), (offer.to.clone(), times));
            }
            self.returning.insert(returning.term.clone(), returning);
        }
        self.planned = None;
    }

    /// Work that ended by itself, or gave its lease up, is left to the others for a while, longer each time that happens quickly.
    fn rest(&mut self, resource: &ResourceId, granted_at: Moment) {
        let now = self.clock.now();
        self.resting.retain(|_, (until, _)| now.since(*until) < REST_FORGOTTEN);
        let quick = now.since(granted_at) < REST_FORGOTTEN;
        let times = self.resting.get(resource).filter(|_| quick).map_or(0, |(_, times)| *times);
        let until = now.after(Duration::from_secs(1) * (1 << times.min(5)));
        self.resting.insert(resource.clone(), (until, times + 1));
    }

    /// Sends the terms whose work has stopped back to the store, until it has answered.
    pub(super) async fn give_back(&mut self) -> Result<(), StoreError> {
        let batch_max = self.batch_max();
        while let Some(session) = self.live_session().filter(|_| !self.returning.is_empty()) {
            let batch: Vec<Returning> = self.returning.values().take(batch_max).cloned().collect();
            let terms: Vec<Release> =
                batch.iter().map(|r| Release { term: r.term.clone(), offer: r.offer.clone() }).collect();
            let sent = session.sending();
            let store = Arc::clone(&self.store);
            let released = store.release(session.id(), sent.pulse, &terms);
            match call(&*self.clock, &self.settings, released).await? {
                Answer::Done(outcomes) => {
                    session.confirm(sent);
                    for (returning, outcome) in batch.iter().zip(outcomes) {
                        self.returning.remove(&returning.term);
                        if outcome == Released::Freed {
                            self.note_release(&session, returning);
                        }
                    }
                }
                Answer::Gone => {
                    session.gone(sent);
                    return Ok(());
                }
                Answer::Frozen(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn note_release(&self, session: &super::session::Session, returning: &Returning) {
        let note =
            self.recorder.note(session.id(), Event::Released).term(&returning.term).reason(returning.reason);
        let note = note.until(session.trusted_until());
        match &returning.offer {
            Some(offer) => note.other(&offer.to).write(),
            None => note.write(),
        }
    }
}

#[cfg(test)]
mod tests;
