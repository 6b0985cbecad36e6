//! Listening: who was heard, who has been silent for a whole TTL, what was revoked a whole TTL ago, and how long the store has been frozen.
//!
//! Invariant: silence is counted on this machine's clock, from *after* the answer that first showed a beat. After reads
//! that were far apart a session has a third of its TTL more to be heard: we were deaf, or the store was gone, and it may
//! not have been able to speak. Orphans, revoked terms and freezes, which cannot speak, are counted anew then.
//!
//! Invariant: a revoked term is counted only in a store that is not frozen, and anew in a new era: a holder that reasserts it trusts it
//! again without having heard that it was revoked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Moment;
use crate::lease::{BeatNumber, MemberId, Nonce, ResourceId, Term, Token};
use crate::mistakes::{Mistake, made};
use crate::store::LeaseRecord;
use crate::view::{News, View};

/// How far apart reads may be, beyond a third of the TTL.
const DEAF_SLACK: Duration = Duration::from_millis(500);

/// What one listener has heard of a pool.
#[derive(Debug, Default)]
pub struct Listener {
    /// Those who have not ended.
    heard: BTreeMap<MemberId, Heard>,
    orphans: BTreeMap<ResourceId, Counted>,
    revoked: BTreeMap<ResourceId, Counted>,
    era: Option<(Nonce, bool)>,
    era_since: Moment,
    last_read: Moment,
    /// What others heard before, until it was compared with what is heard here.
    told: Vec<Silence>,
    /// The longest TTL of any session this store ever told of, whatever it has forgotten since.
    ttl_max: Duration,
}

/// How long a session had been silent when a listener last read, for whoever listens after it.
///
/// It is a duration that was measured on one clock. Whoever reads this afterwards and still finds the same beat knows
/// that the session was silent for at least that long before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// Whose.
    pub session: MemberId,
    /// The beat last heard.
    pub beat: BeatNumber,
    /// The era it was heard in.
    pub era: Nonce,
    /// For how long nothing newer was heard.
    pub millis: u64,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    beat: BeatNumber,
    since: Moment,
    /// Since when it has been heard without a long break.
    again: Moment,
    ttl: Duration,
}

impl Heard {
    /// When its silence is complete.
    fn due(&self) -> Moment {
        self.since.after(self.ttl).max(self.again.after(self.ttl / 3))
    }
}

/// A term that is over once it has been heard unchanged for a whole TTL of its holder.
#[derive(Debug, Clone)]
struct Counted {
    holder: MemberId,
    token: Token,
    since: Moment,
    ttl: Duration,
}

impl Counted {
    fn due(&self) -> Moment {
        self.since.after(self.ttl)
    }
}

impl Listener {
    /// Goes on with what another listener heard. `told` was read from the store before the next view is.
    pub fn resume(&mut self, told: Vec<Silence>) {
        self.told = told;
    }

    /// Who has been silent for at least this part of its TTL, for [`resume`](Self::resume).
    #[must_use]
    pub fn silences(&self, divisor: u32) -> Vec<Silence> {
        let Some((era, false)) = self.era else { return Vec::new() };
        let silent = self.heard.iter().map(|(id, heard)| (id, heard, self.last_read.since(heard.since)));
        silent
            .filter(|(_, heard, silent)| *silent >= heard.ttl / divisor.max(1))
            .map(|(id, heard, silent)| Silence {
                session: id.clone(),
                beat: heard.beat,
                era,
                millis: u64::try_from(silent.as_millis()).unwrap_or(u64::MAX),
            })
            .collect()
    }

    /// Takes in a view whose last answer arrived at `at`, and what is new in it.
    pub fn hear(&mut self, view: &View, at: Moment, news: &News) {
        let gap = at.since(self.last_read);
        self.last_read = at;
        let Some(era) = view.era() else { return };
        self.ttl_max = self.ttl_max.max(era.ttl_max);
        let before = self.era.replace((era.nonce, era.frozen));
        let is_new_era = before != self.era;
        if is_new_era {
            self.era_since = at;
            self.orphans.clear();
            self.revoked.clear();
            // After a thaw silence goes on: beats are kept under one nonce. In a new era nothing that was heard counts.
            if before.is_none_or(|(nonce, _)| nonce != era.nonce) {
                self.heard.clear();
            }
        } else if is_deaf(gap, era.ttl_max) {
            self.era_since = at;
        }
        self.hear_sessions(view, at, gap);
        self.hear_told(view, at, era.nonce);
        // A new era has forgotten what was.
        let news = if is_new_era { &News::Anything } else { news };
        self.hear_leases(view, at, gap, era.frozen, news);
    }

    fn hear_sessions(&mut self, view: &View, at: Moment, gap: Duration) {
        self.heard.retain(|id, _| view.is_living(id));
        for session in view.living() {
            let new = Heard { beat: session.beat, since: at, again: at, ttl: session.ttl };
            match self.heard.get_mut(&session.id) {
                Some(old) if old.beat == new.beat => {
                    if is_deaf(gap, session.ttl) {
                        old.again = at;
                    }
                }
                Some(old) => *old = new,
                None => {
                    self.heard.insert(session.id.clone(), new);
                }
            }
        }
    }

    /// Adds what was told of sessions whose beat has not changed since.
    fn hear_told(&mut self, view: &View, at: Moment, era: Nonce) {
        for told in std::mem::take(&mut self.told) {
            let same = view.sessions().get(&told.session).is_some_and(|session| session.beat == told.beat);
            if let Some(heard) = self.heard.get_mut(&told.session).filter(|_| same && told.era == era) {
                heard.since = heard.since.min(at.before(Duration::from_millis(told.millis)));
            }
        }
    }

    /// Leases whose holder has no session at all, not even an ended one; and those that were revoked.
    fn hear_leases(&mut self, view: &View, at: Moment, gap: Duration, frozen: bool, news: &News) {
        let (mut orphans, mut revoked) = (BTreeMap::new(), BTreeMap::new());
        let leases: Box<dyn Iterator<Item = (&ResourceId, &LeaseRecord)>> = match news {
            News::Anything => Box::new(view.leases().iter()),
            // What is not counted does not begin to be without news of it.
            few => {
                let counted = self.orphans.keys().chain(self.revoked.keys());
                let few: BTreeSet<&ResourceId> = counted.chain(few.resources()).collect();
                Box::new(few.into_iter().filter_map(|resource| view.leases().get_key_value(resource)))
            }
        };
        for (resource, lease) in leases {
            let Some(holder) = &lease.holder else { continue };
            let (before, counted) = match view.sessions().get(holder) {
                None => (&self.orphans, &mut orphans),
                Some(session) if lease.revoked && !session.ended && !frozen => (&self.revoked, &mut revoked),
                Some(_) => continue,
            };
            let since = match before.get(resource) {
                Some(old)
                    if old.holder == *holder && old.token == lease.token && !is_deaf(gap, lease.ttl) =>
                {
                    old.since
                }
                _ => at,
            };
            let term = Counted { holder: holder.clone(), token: lease.token, since, ttl: lease.ttl };
            counted.insert(resource.clone(), term);
        }
        (self.orphans, self.revoked) = (orphans, revoked);
    }

    /// Living sessions that have been silent for their whole TTL, with the beat last heard and the moment at
    /// which the silence was complete.
    #[must_use]
    pub fn silent(&self, now: Moment) -> Vec<(MemberId, BeatNumber, Moment)> {
        let hearing = self.heard.iter().filter(|(_, heard)| !is_deaf(now.since(self.last_read), heard.ttl));
        let due = hearing.map(|(id, heard)| (id.clone(), heard.beat, heard.due()));
        due.filter(|(.., due)| *due <= now).collect()
    }

    /// Those of whom a beat was heard within half of their TTL, which is more than one of their heartbeats. Nobody else is worth
    /// waiting for: it may be silent already.
    pub fn lately(&self, now: Moment) -> impl Iterator<Item = &MemberId> {
        let lately = move |heard: &Heard| now.since(heard.since) < heard.ttl / 2;
        self.heard.iter().filter(move |(_, heard)| lately(heard)).map(|(id, _)| id)
    }

    /// The least part of its TTL that any living session has left before its silence is complete; `None` where nobody is.
    #[must_use]
    pub fn margin(&self, now: Moment) -> Option<f64> {
        let living = self.heard.values().filter(|heard| !heard.ttl.is_zero());
        let left = living.map(|heard| 1.0 - now.since(heard.since).div_duration_f64(heard.ttl));
        left.reduce(f64::min).map(|least| least.clamp(0.0, 1.0))
    }

    /// Leases to free because their holder has been absent for a whole TTL.
    #[must_use]
    pub fn orphans(&self, now: Moment) -> Vec<(MemberId, Term)> {
        let gap = now.since(self.last_read);
        let due = self.orphans.iter().filter(|(_, orphan)| orphan.due() <= now && !is_deaf(gap, orphan.ttl));
        due.map(|(resource, orphan)| {
            (orphan.holder.clone(), Term { resource: resource.clone(), token: orphan.token })
        })
        .collect()
    }

    /// Revoked terms that their living holders have kept for a whole TTL since that was heard, and the moment at which it was complete. No
    /// beat that was answered since has extended them, so whoever held them trusts them no longer.
    #[must_use]
    pub fn revoked(&self, now: Moment) -> Vec<(MemberId, Term, Moment)> {
        let at_once = made(Mistake::RevokedFreedAtOnce);
        let gap = now.since(self.last_read);
        let due = self.revoked.iter().filter(|(_, term)| !is_deaf(gap, term.ttl));
        let due = due.filter(|(_, term)| term.due() <= now || at_once);
        due.map(|(resource, term)| {
            let due = if at_once { term.since } else { term.due() };
            (term.holder.clone(), Term { resource: resource.clone(), token: term.token }, due)
        })
        .collect()
    }

    /// How long a frozen store must be heard before it is thawed, by a member whose own TTL is `ttl`.
    fn thaw_after(&self, ttl: Duration) -> Duration {
        if made(Mistake::ThawedAtOnce) { Duration::ZERO } else { self.ttl_max.max(ttl) }
    }

    /// The nonce to thaw, if the store has been heard frozen under it for a whole TTL of whoever may hold
    /// something in it.
    #[must_use]
    pub fn thawable(&self, now: Moment, ttl: Duration) -> Option<Nonce> {
        let wait = self.thaw_after(ttl);
        let heard = now.since(self.era_since) >= wait && !is_deaf(now.since(self.last_read), wait);
        self.era.filter(|(_, frozen)| *frozen && heard).map(|(nonce, _)| nonce)
    }

    /// When the next silence falls due, for a member whose own TTL is `ttl`. One's own does not count.
    #[must_use]
    pub fn next_due(&self, ttl: Duration, me: Option<&MemberId>) -> Option<Moment> {
        if let Some((_, true)) = self.era {
            return Some(self.era_since.after(self.thaw_after(ttl)));
        }
        let others = self.heard.iter().filter(|(id, _)| Some(*id) != me);
        let silences = others.map(|(_, heard)| heard.due());
        let orphans = self.orphans.values().map(Counted::due);
        let revoked = self.revoked.values().filter(|term| Some(&term.holder) != me).map(Counted::due);
        silences.chain(orphans).chain(revoked).min()
    }
}

fn is_deaf(gap: Duration, ttl: Duration) -> bool {
    gap > ttl / 3 + DEAF_SLACK
}

#[cfg(test)]
mod tests;
