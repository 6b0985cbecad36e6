//! Verdicts on others: who has been silent is ended, what is orphaned or was revoked is freed, what ended long ago is
//! forgotten, and a frozen store is thawed in its time.

use std::time::Duration;

use super::call;
use super::member::Member;
use crate::clock::Moment;
use crate::lease::{MemberId, Nonce};
use crate::ledger::{Event, Reason};
use crate::plan;
use crate::plan::rendezvous::hash_id;
use crate::store::{EndSilent, Freed, StoreError, Thawed};

/// How many TTLs a tombstone is kept.
const TOMBSTONE_TTLS: u32 = 10;

impl Member {
    /// Any live member ends a silent session, whether or not it wants the work; the best ranked first.
    pub(super) async fn end_the_silent(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let Some(era) = self.view.era().filter(|era| !era.frozen) else { return Ok(()) };
        let me = self.session.as_ref().map(|session| session.id().clone());
        for (silent, heard, due) in self.listener.silent(now) {
            if Some(&silent) == me.as_ref() || now < due.after(self.stagger_for(&silent)) {
                continue;
            }
            let verdict = self.store.end_silent(&silent, heard, era.nonce);
            match call(&*self.clock, &self.settings, verdict).await? {
                EndSilent::Ended => {
                    let writer = me.clone().unwrap_or_else(|| (self.identity.generate)());
                    let note = self.recorder.note(&writer, Event::Expired);
                    note.other(&silent).reason(Reason::TtlExpiry).write();
                }
                // Not an end: what it held is an orphan now, and is heard as one.
                EndSilent::Absent => self.view.lose_session(&silent),
                EndSilent::Alive(_) | EndSilent::Frozen(_) => {}
            }
            self.planned = None;
        }
        for (holder, term) in self.listener.orphans(now) {
            let freed = self.store.free_orphan(&self.pool, &holder, &term, era.nonce);
            let _ = call(&*self.clock, &self.settings, freed).await?;
        }
        self.free_the_revoked(now, era.nonce).await?;
        self.collect(now).await
    }

    /// What a living member keeps though it was revoked goes to others, once nobody trusts it any more. Our own is ours to give back.
    async fn free_the_revoked(&mut self, now: Moment, era: Nonce) -> Result<(), StoreError> {
        let me = self.session.as_ref().map(|session| session.id().clone());
        for (holder, term, due) in self.listener.revoked(now) {
            if Some(&holder) == me.as_ref() || now < due.after(self.stagger_for(&holder)) {
                continue;
            }
            let freed = self.store.free_revoked(&self.pool, &term, era);
            if call(&*self.clock, &self.settings, freed).await? == Freed::Freed {
                let (resource, token) = (&term.resource, term.token);
                tracing::warn!(%resource, %token, %holder, "revoked a whole TTL ago and not given back: freed");
            }
            self.planned = None;
        }
        Ok(())
    }

    /// Forgets what ended long ago.
    async fn collect(&mut self, now: Moment) -> Result<(), StoreError> {
        let long = self.settings.ttl * TOMBSTONE_TTLS;
        let old: Vec<_> = self.view.ended_for(now, long).map(|session| session.id.clone()).collect();
        // The view has been read since, and nothing is ever given to a session that has ended.
        for (ended, held) in self.view.named_by(&old) {
            call(&*self.clock, &self.settings, self.store.collect_known(&ended, &held)).await?;
            self.view.lose_session(&ended);
        }
        if !old.is_empty() {
            call(&*self.clock, &self.settings, self.store.collect_listings(&self.pool)).await?;
        }
        Ok(())
    }

    fn stagger_for(&self, subject: &MemberId) -> Duration {
        let Some(session) = &self.session else { return self.pace.patience_of_others() };
        self.patience_for(subject.as_str(), session.id())
    }

    /// How long this member waits for those that are preferred to it, and were heard lately.
    pub(super) fn patience_for(&self, subject: &str, me: &MemberId) -> Duration {
        let rank = plan::rank_of(&self.awaited, hash_id(subject), hash_id(me.as_str()));
        self.pace.patience(rank)
    }

    pub(super) async fn thaw_if_due(&mut self) -> Result<(), StoreError> {
        if let Some(nonce) = self.listener.thawable(self.clock.now(), self.settings.ttl)
            && call(&*self.clock, &self.settings, self.store.thaw(nonce)).await? == Thawed::Thawed
        {
            let writer = self.session.as_ref().map_or_else(|| (self.identity.generate)(), |s| s.id().clone());
            self.recorder.note(&writer, Event::Thawed).detail(&format!("era {nonce}")).write();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
