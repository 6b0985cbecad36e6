//! Coming and going: a session is opened, described as things change, and closed.

use std::sync::Arc;
use std::time::Duration;

use super::call;
use super::member::Member;
use super::pace::PERIOD;
use super::renew::{Heartbeat, guard};
use super::session::Session;
use crate::clock::Moment;
use crate::ledger::{Event, Reason};
use crate::plan;
use crate::store::{Answer, Listing, ListingId, OpenSession, Profile, StoreError};

/// How long a session that is over is tried to be closed, while the store does not answer.
const CLOSING_MAX: Duration = Duration::from_secs(600);
/// From this many quick returns on, a name waits longer before work is moved to it.
const FLAPS_FREE: u32 = 3;

impl Member {
    pub(super) async fn join(&mut self) -> Result<bool, StoreError> {
        if !self.tenures.is_empty() || self.view.era().is_none_or(|era| era.frozen) {
            return Ok(false);
        }
        let (open, sent) = self.opening().await?;
        let answer = call(&*self.clock, &self.settings, self.store.open(&open)).await?;
        self.opening = None;
        let Answer::Done(era) = answer else { return Ok(false) };
        let id = open.id.clone();
        let clock = Arc::clone(&self.clock);
        let trust = self.trust.clone();
        let session = Arc::new(Session::opened(open, era, sent, self.settings.margin, clock, trust));
        self.recorder.note(&id, Event::Joined).ttl(self.settings.ttl).until(session.trusted_until()).write();
        let heartbeat = Heartbeat {
            session: Arc::clone(&session),
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            settings: self.settings.clone(),
            recorder: self.recorder.clone(),
            notices: self.notices.0.clone(),
        };
        tokio::spawn(heartbeat.run());
        tokio::spawn(guard(Arc::clone(&session), Arc::clone(&self.clock), self.settings.clone()));
        self.joined_at = sent;
        self.session = Some(session);
        self.planned = None;
        Ok(true)
    }

    /// The session to ask for, and the moment from which trust in it counts: one that was asked for and not
    /// answered is asked for again, so that no answer lost leaves a member behind that is nobody.
    async fn opening(&mut self) -> Result<(OpenSession, Moment), StoreError> {
        let fresh = |first: Moment| self.clock.now().since(first) < self.settings.ttl / 3;
        if let Some((open, first)) = self.opening.take().filter(|(_, first)| fresh(*first)) {
            self.opening = Some((open.clone(), first));
            return Ok((open, first));
        }
        self.flaps = self.count_flaps();
        let open = OpenSession {
            pool: self.pool.clone(),
            id: (self.identity.generate)(),
            ttl: self.settings.ttl,
            profile: self.profile_at(false).await?,
        };
        let sent = self.clock.now();
        self.opening = Some((open.clone(), sent));
        Ok((open, sent))
    }

    /// How often this name has come back while its last tombstone was still there.
    fn count_flaps(&self) -> u32 {
        let before = self.view.sessions().values().filter(|session| session.ended);
        let mine = before.filter(|session| session.profile.name == self.identity.name);
        mine.map(|session| session.profile.flaps.saturating_add(1)).max().unwrap_or(0)
    }

    /// How long work is not moved here: a moment, and longer for a name that keeps coming and going.
    pub(super) fn settle(&self) -> Duration {
        let damped = self.flaps.saturating_sub(FLAPS_FREE).min(5);
        self.settings.settle.saturating_mul(1 << damped)
    }

    /// What this member says about itself, its listing published first.
    async fn profile_at(&mut self, settled: bool) -> Result<Profile, StoreError> {
        let listing = self.listing.as_mut().map(|listing| Arc::clone(&listing.borrow_and_update()));
        let listing = match listing {
            Some(listing) => {
                let id = self.id_of(&listing);
                // A store of another era may have forgotten it, and somebody may have collected it before
                // our session was there to need it.
                let published = self.view.era().map(|era| (id.clone(), era.nonce));
                let lost = self.session.is_some() && !self.view.has_listing(&id);
                if self.published != published || lost {
                    let publish = self.store.publish(&self.pool, &id, &listing);
                    call(&*self.clock, &self.settings, publish).await?;
                    self.published = published;
                }
                Some(id)
            }
            None => None,
        };
        Ok(Profile {
            name: self.identity.name.clone(),
            capacity: self.identity.capacity,
            labels: self.identity.labels.clone(),
            ready: *self.identity.ready.borrow(),
            settled,
            leaving: self.leaving,
            listing,
            plan_version: plan::VERSION,
            flaps: self.flaps,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        })
    }

    /// The id of what our source lists: every pass needs it, and a list may be long.
    fn id_of(&mut self, listing: &Arc<Listing>) -> ListingId {
        match &self.listed {
            Some((known, id)) if Arc::ptr_eq(known, listing) => id.clone(),
            _ => {
                let id = listing.id();
                self.listed = Some((Arc::clone(listing), id.clone()));
                id
            }
        }
    }

    /// Publishes what changed about this member.
    pub(super) async fn tell_about_myself(&mut self) -> Result<(), StoreError> {
        let Some(session) = self.live_session() else { return Ok(()) };
        let now = self.clock.now();
        let settled = now >= self.joined_at.after(self.settle());
        if now >= self.joined_at.after(self.settle().saturating_mul(20)) {
            self.flaps = 0;
        }
        let profile = self.profile_at(settled).await?;
        // What counts is what the store shows: an answer that was lost says nothing about what it took in.
        let shown = self.view.sessions().get(session.id()).map(|record| &record.profile);
        if shown.is_none_or(|shown| *shown == profile) {
            return Ok(());
        }
        let relisted = shown.is_some_and(|shown| shown.listing != profile.listing);
        session.set_profile(profile.clone());
        let sent = session.sending();
        let described = self.store.describe(session.id(), sent.pulse, &profile);
        match call(&*self.clock, &self.settings, described).await? {
            Answer::Done(()) => {
                session.confirm(sent);
                if relisted {
                    call(&*self.clock, &self.settings, self.store.collect_listings(&self.pool)).await?;
                }
            }
            // The view may show for long what the store has lost without a trace.
            Answer::Gone => session.gone(sent),
            Answer::Frozen(_) => {}
        }
        Ok(())
    }

    /// Once the session is over and its work has stopped, it is closed (which is quicker for the others than
    /// silence), and a new one is opened by a later pass.
    pub(super) fn leave_what_is_over(&mut self) {
        let Some(session) = self.session.clone().filter(|session| session.is_over()) else { return };
        if !self.tenures.is_empty() {
            return;
        }
        self.session = None;
        self.returning.clear();
        self.planned = None;
        let (store, clock, settings) =
            (Arc::clone(&self.store), Arc::clone(&self.clock), self.settings.clone());
        tokio::spawn(async move {
            // Not answered, silence ends it all the same, but later.
            let give_up_at = clock.now().after(CLOSING_MAX);
            while call(&*clock, &settings, store.close(session.id())).await.is_err()
                && clock.now() < give_up_at
            {
                clock.sleep(PERIOD).await;
            }
        });
    }

    pub(super) async fn close(&mut self) {
        let Some(session) = self.session.take() else { return };
        session.end(Reason::Shutdown);
        match call(&*self.clock, &self.settings, self.store.close(session.id())).await {
            Ok(()) => self.recorder.note(session.id(), Event::Left).reason(Reason::Shutdown).write(),
            Err(error) => self.report(&error),
        }
    }
}

#[cfg(test)]
mod tests;
