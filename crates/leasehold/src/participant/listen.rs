//! Listening: who was heard, who has been silent for a whole TTL, and how long the store has been frozen.
//!
//! Invariant: silence is counted on this machine's clock, from *after* the answer that first showed a beat,
//! and only across reads that are not far apart. Who was deaf starts again: the fault was ours or the store's,
//! and the others must get a chance to be heard.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::Moment;
use crate::lease::{BeatNumber, MemberId, Nonce, ResourceId, Term, Token};
use crate::view::View;

/// How far apart reads may be, beyond a third of the TTL.
const DEAF_SLACK: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct Listener {
    heard: HashMap<MemberId, Heard>,
    orphans: HashMap<ResourceId, Orphan>,
    era: Option<(Nonce, bool)>,
    era_since: Moment,
    last_read: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    beat: BeatNumber,
    ended: bool,
    since: Moment,
    ttl: Duration,
}

#[derive(Debug, Clone)]
struct Orphan {
    holder: MemberId,
    token: Token,
    since: Moment,
    ttl: Duration,
}

impl Listener {
    /// Takes in a view whose last answer arrived at `at`.
    pub(crate) fn hear(&mut self, view: &View, at: Moment) {
        let gap = at.since(self.last_read);
        self.last_read = at;
        let Some(era) = view.era() else { return };
        if self.era != Some((era.nonce, era.frozen)) {
            // A new era, or a thaw: nothing that was heard before counts.
            self.era = Some((era.nonce, era.frozen));
            self.era_since = at;
            self.heard.clear();
            self.orphans.clear();
        } else if is_deaf(gap, era.ttl_max) {
            self.era_since = at;
        }
        self.hear_sessions(view, at, gap);
        self.hear_orphans(view, at, gap);
    }

    fn hear_sessions(&mut self, view: &View, at: Moment, gap: Duration) {
        self.heard.retain(|id, _| view.sessions().contains_key(id));
        for (id, session) in view.sessions() {
            let new = Heard { beat: session.beat, ended: session.ended, since: at, ttl: session.ttl };
            match self.heard.get_mut(id) {
                Some(old) if old.beat == new.beat && old.ended == new.ended && !is_deaf(gap, session.ttl) => {
                }
                Some(old) => *old = new,
                None => {
                    self.heard.insert(id.clone(), new);
                }
            }
        }
    }

    /// Leases whose holder has no session at all, not even an ended one.
    fn hear_orphans(&mut self, view: &View, at: Moment, gap: Duration) {
        let mut orphans = HashMap::new();
        for (resource, lease) in view.leases() {
            let Some(holder) = &lease.holder else { continue };
            if view.sessions().contains_key(holder) {
                continue;
            }
            let since = match self.orphans.get(resource) {
                Some(old)
                    if old.holder == *holder && old.token == lease.token && !is_deaf(gap, lease.ttl) =>
                {
                    old.since
                }
                _ => at,
            };
            let orphan = Orphan { holder: holder.clone(), token: lease.token, since, ttl: lease.ttl };
            orphans.insert(resource.clone(), orphan);
        }
        self.orphans = orphans;
    }

    /// Living sessions that have been silent for their whole TTL, with the beat last heard and the moment at
    /// which the silence was complete.
    pub(crate) fn silent(&self, now: Moment) -> Vec<(MemberId, BeatNumber, Moment)> {
        let living = self.heard.iter().filter(|(_, heard)| !heard.ended);
        let due = living.map(|(id, heard)| (id.clone(), heard.beat, heard.since.after(heard.ttl)));
        due.filter(|(.., due)| *due <= now).collect()
    }

    /// Leases to free because their holder has been absent for a whole TTL.
    pub(crate) fn orphans(&self, now: Moment) -> Vec<(MemberId, Term)> {
        let due = self.orphans.iter().filter(|(_, orphan)| orphan.since.after(orphan.ttl) <= now);
        due.map(|(resource, orphan)| {
            (orphan.holder.clone(), Term { resource: resource.clone(), token: orphan.token })
        })
        .collect()
    }

    /// Sessions that ended at least this long ago.
    pub(crate) fn ended_for(&self, now: Moment, at_least: Duration) -> Vec<MemberId> {
        let ended = self.heard.iter().filter(|(_, heard)| heard.ended && now.since(heard.since) >= at_least);
        ended.map(|(id, _)| id.clone()).collect()
    }

    /// The nonce to thaw, if the store has been heard frozen under it for a whole `ttl`.
    pub(crate) fn thawable(&self, now: Moment, ttl: Duration) -> Option<Nonce> {
        match self.era {
            Some((nonce, true)) if now.since(self.era_since) >= ttl => Some(nonce),
            _ => None,
        }
    }

    /// When the next silence falls due.
    pub(crate) fn next_due(&self, frozen_ttl: Duration) -> Option<Moment> {
        if let Some((_, true)) = self.era {
            return Some(self.era_since.after(frozen_ttl));
        }
        let silences = self.heard.values().filter(|heard| !heard.ended).map(|h| h.since.after(h.ttl));
        let orphans = self.orphans.values().map(|orphan| orphan.since.after(orphan.ttl));
        silences.chain(orphans).min()
    }
}

fn is_deaf(gap: Duration, ttl: Duration) -> bool {
    gap > ttl / 3 + DEAF_SLACK
}
