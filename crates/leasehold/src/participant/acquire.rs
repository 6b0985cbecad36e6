//! Taking what is free: what the plan gives us at once, what others should have taken after a moment.

use std::collections::HashMap;
use std::sync::Arc;

use super::call;
use super::member::{Member, Tenure};
use super::session::{Sent, Session};
use super::work::{Lease, tend};
use crate::clock::Moment;
use crate::lease::{MemberId, ResourceId, Term, Token};
use crate::ledger::{Event, endpoints};
use crate::plan::{self, Placement, Plan, Resource};
use crate::store::{Acquired, Answer, StoreError, Wanted};

/// The most resources that one pass takes in another's place: the others do so, too, and what they took is seen by the next.
const LEFT_MAX: usize = 16;
/// The most calls in one pass, so that what was revoked or has ended is not kept waiting.
const BATCHES_MAX: usize = 16;

impl Member {
    /// Acquires what is ours to take now. Answers whether there is more to take at once.
    pub(super) async fn take_free(&mut self) -> Result<bool, StoreError> {
        let frozen = self.view.era().is_none_or(|era| era.frozen);
        let Some(session) = self.live_session().filter(|_| !frozen && !self.leaving) else {
            return Ok(false);
        };
        let Some(plan) = self.planned.take() else { return Ok(false) };
        let due = self.due(&session, &plan);
        if due.is_empty() {
            self.planned = Some(plan);
            return Ok(false);
        }
        // The plan is spent: whatever the answers, the next one starts from what the store then says.
        let batch_max = self.batch_max();
        for batch in due.chunks(batch_max).take(BATCHES_MAX) {
            if !session.is_trusted() || !self.ask_for(&session, batch).await? {
                break;
            }
        }
        Ok(due.len() > batch_max * BATCHES_MAX)
    }

    /// Asks for one batch. Answers whether the next one may follow.
    async fn ask_for(&mut self, session: &Arc<Session>, batch: &[ResourceId]) -> Result<bool, StoreError> {
        let floor = |id: &ResourceId| {
            let seen = self.view.leases().get(id).map(|lease| lease.token);
            seen.max(self.floors.get(id).copied()).max(self.view.floor(id)).unwrap_or(Token(0))
        };
        let wanted: Vec<Wanted> =
            batch.iter().map(|id| Wanted { resource: id.clone(), floor: floor(id) }).collect();
        let sent = session.sending();
        let store = Arc::clone(&self.store);
        let acquired = store.acquire(session.id(), sent.pulse, &wanted);
        match call(&*self.clock, &self.settings, acquired).await {
            Ok(Answer::Done(outcomes)) => {
                self.take_grants(session, sent, &wanted, outcomes);
                Ok(true)
            }
            Ok(Answer::Gone) => {
                session.gone(sent);
                Ok(false)
            }
            Ok(Answer::Frozen(_)) => Ok(false),
            Err(error) => {
                let note = self.recorder.note(session.id(), Event::AcquireFailed);
                let note = match wanted.as_slice() {
                    [one] => note.resource(&one.resource),
                    several => note.detail(&format!("{} resources", several.len())),
                };
                let said = crate::discover::with_causes(&error);
                note.error(&said).write();
                if endpoints::are_in(&self.pool) {
                    let wanted: Vec<ResourceId> = wanted.into_iter().map(|wanted| wanted.resource).collect();
                    endpoints::failed(Event::AcquireFailed, session.id(), &wanted, &said);
                }
                Err(error)
            }
        }
    }

    /// What to ask for: our placements, and free resources whose preferred taker has let its moment pass.
    fn due(&mut self, session: &Session, plan: &Plan) -> Vec<ResourceId> {
        let now = self.clock.now();
        let me = session.id();
        let facts = self.planner.facts();
        let free: HashMap<&ResourceId, &Resource> =
            self.planner.free().into_iter().map(|resource| (&resource.id, resource)).collect();
        self.free_since.retain(|id, _| free.contains_key(id));
        for id in free.keys() {
            self.free_since.entry((*id).clone()).or_insert(now);
        }
        let Some(member) = facts.members.iter().find(|member| member.id == *me) else { return Vec::new() };
        let mut room = member.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(plan.load(me)));
        let mut due = Vec::new();
        let (ours, theirs): (Vec<_>, Vec<_>) = plan.placements().iter().partition(|placed| placed.to == *me);
        let may_ask_for = |resource: &&Resource| self.may_ask_for(&resource.id, now);
        let late = |resource: &&Resource| {
            self.was_left(resource, me, now) && plan::may_take(facts, member, resource)
        };
        let free_of = |placed: &Placement| free.get(&placed.resource).copied();
        let ours = ours.into_iter().filter_map(free_of).filter(may_ask_for);
        let left = theirs.into_iter().filter_map(free_of).filter(may_ask_for).filter(late).take(LEFT_MAX);
        for resource in ours.chain(left) {
            let weight = u64::from(resource.weight.max(1));
            if weight <= room {
                room -= weight;
                due.push(resource.id.clone());
            }
        }
        due
    }

    /// Not what we hold or are giving back, nor what ended here by itself a moment ago.
    fn may_ask_for(&self, id: &ResourceId, now: Moment) -> bool {
        let term = |token| Term { resource: id.clone(), token: Token(token) };
        !self.tenures.contains_key(id)
            && self.returning.range(term(0)..=term(u64::MAX)).next().is_none()
            && self.resting.get(id).is_none_or(|(until, _)| *until <= now)
    }

    /// Whether a free resource was left alone for so long that this member may take it, though the plan gives it to another.
    fn was_left(&self, resource: &Resource, me: &MemberId, now: Moment) -> bool {
        let left = now.since(self.free_since.get(&resource.id).copied().unwrap_or_default());
        if resource.offer.is_some() {
            return left >= self.pace.patience_of_others();
        }
        // The rank is worked out last: there may be many free resources, and many members.
        left >= self.pace.step() && left >= self.patience_for(resource.id.as_str(), me)
    }

    /// When the next free resource may be taken in another's place.
    pub(super) fn next_fallback(&self, now: Moment) -> Option<Moment> {
        let (step, longest) = (self.pace.step(), self.pace.patience_of_others());
        let waiting = self.free_since.values().map(|since| since.after(longest)).filter(|at| *at > now).min();
        let resting = self.resting.values().map(|(until, _)| *until).filter(|until| *until > now).min();
        [waiting.map(|_| now.after(step)), resting].into_iter().flatten().min()
    }

    fn take_grants(
        &mut self,
        session: &Arc<Session>,
        sent: Sent,
        wanted: &[Wanted],
        outcomes: Vec<Acquired>,
    ) {
        let mut granted = Vec::new();
        for (wanted, outcome) in wanted.iter().zip(outcomes) {
            match outcome {
                Acquired::Granted(term) => granted.push(term),
                Acquired::Held { by, token } => {
                    let note = self.recorder.note(session.id(), Event::Refused).resource(&wanted.resource);
                    note.token(token).other(&by).write();
                }
            }
        }
        // A grant that came too late, or from an era that is over, is given back by a later pass.
        for term in session.confirm_grants(sent, granted) {
            self.start(session, term);
        }
    }

    pub(super) fn start(&mut self, session: &Arc<Session>, term: Term) {
        let before = self.view.leases().get(&term.resource).and_then(|lease| lease.holder.clone());
        let event = if before.is_some() { Event::TakenOver } else { Event::Acquired };
        let note = self.recorder.note(session.id(), event).term(&term).ttl(session.ttl());
        let note = note.until(session.trusted_until());
        match &before {
            Some(before) => note.other(before).write(),
            None => note.write(),
        }
        let lease = Lease::new(self.pool.clone(), term.clone(), Arc::clone(session), Arc::clone(&self.clock));
        let tenure = Tenure { lease: lease.clone(), granted_at: self.clock.now(), leaving: None };
        self.tenures.insert(term.resource.clone(), tenure);
        self.doubts.note(&term.resource);
        self.told = false;
        self.floors.insert(term.resource.clone(), term.token);
        if let Some((_, times)) = self.handed.get_mut(&term.resource) {
            *times += 1;
        }
        self.free_since.remove(&term.resource);
        let (work, recorder) = (Arc::clone(&self.work), self.recorder.clone());
        tokio::spawn(tend(lease, work, self.manner, recorder, self.ended.0.clone()));
    }
}

#[cfg(test)]
mod tests;
