//! How long work takes to get from one owner to the next, from rows of the ledger. Pure.
//!
//! A *handoff* is measured from when the old owner's work had stopped to the next grant. A *failover* is measured from when the old
//! owner was last heard, which is a TTL before somebody found it silent. Times are compared by wall clocks, those of one
//! machine exactly; what would be less than nothing is nothing.

use std::collections::HashMap;
use std::time::Duration;

use leasehold::ledger::{Entry, Event};
use leasehold::{MemberId, ResourceId};

/// Whether the old owner took part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Handoff,
    Failover,
}

/// A resource that has come to a new owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) kind: Kind,
    pub(crate) took: Duration,
}

/// The most resources that are remembered after nobody holds them.
const ENDED_MAX: usize = 50_000;
/// How long a resource may have been without an owner for that to be remembered, once there are that many.
const REMEMBERED: u64 = 3_600_000_000_000;

/// Who holds what, and who was the last to hold what nobody holds.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    holders: HashMap<ResourceId, (MemberId, u64, Duration)>,
    ended: HashMap<ResourceId, (Kind, u64)>,
}

impl Moves {
    /// Takes in a row; answers what move it completes.
    pub(crate) fn take(&mut self, entry: &Entry) -> Option<Moved> {
        let at = entry.wall_nanos;
        if self.ended.len() > ENDED_MAX {
            self.ended.retain(|_, (_, since)| at.saturating_sub(*since) < REMEMBERED);
            // Work that is done once and never again would be remembered for ever.
            if self.ended.len() > ENDED_MAX {
                self.ended.clear();
            }
        }
        match (entry.event, &entry.resource, entry.token) {
            (Event::Acquired | Event::TakenOver, Some(resource), Some(token)) => {
                let ttl = Duration::from_millis(entry.ttl_ms.unwrap_or_default());
                let before = self.holders.insert(resource.clone(), (entry.member.clone(), token.0, ttl));
                let silent = before.filter(|_| entry.event == Event::TakenOver);
                // Of whoever was not said to have ended: it was silent for its TTL.
                let silent = silent.map(|(.., ttl)| (Kind::Failover, before_by(at, ttl)));
                let (kind, since) = self.ended.remove(resource).or(silent)?;
                Some(Moved { kind, took: Duration::from_nanos(at.saturating_sub(since)) })
            }
            (Event::Stopped | Event::Released, Some(resource), Some(token)) => {
                let holds = self.holders.get(resource).is_some_and(|(_, held, _)| *held == token.0);
                if holds {
                    self.holders.remove(resource);
                    // Of the two, the one that comes first.
                    self.ended.entry(resource.clone()).or_insert((Kind::Handoff, at));
                }
                None
            }
            (Event::Expired, ..) => {
                let silent = entry.other.as_ref().unwrap_or(&entry.member);
                let all = self.holders.iter().filter(|(_, (holder, ..))| holder == silent);
                let all: Vec<(ResourceId, Duration)> =
                    all.map(|(resource, (.., ttl))| (resource.clone(), *ttl)).collect();
                for (resource, ttl) in all {
                    self.holders.remove(&resource);
                    self.ended.insert(resource, (Kind::Failover, before_by(at, ttl)));
                }
                None
            }
            _ => None,
        }
    }
}

fn before_by(at: u64, ttl: Duration) -> u64 {
    at.saturating_sub(u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
pub(super) mod tests {
    use leasehold::{MemberName, Token, clock};

    use super::*;

    pub(in crate::levels) fn row(member: &str, event: Event, token: u64, at_ms: u64) -> Entry {
        Entry {
            wall_nanos: at_ms * 1_000_000,
            at: clock::Moment::default(),
            boot: String::new(),
            number: None,
            member: MemberId::new(member).unwrap(),
            name: MemberName::new(member).unwrap(),
            event,
            resource: (token > 0).then(|| ResourceId::new("a").unwrap()),
            token: (token > 0).then_some(Token(token)),
            trusted_until: None,
            ttl_ms: Some(3000),
            reason: None,
            error: None,
            other: None,
            detail: None,
        }
    }

    fn moved(kind: Kind, ms: u64) -> Option<Moved> {
        Some(Moved { kind, took: Duration::from_millis(ms) })
    }

    #[test]
    fn a_handoff_lasts_from_the_end_of_work_to_the_next_grant() {
        let mut moves = Moves::default();
        assert_eq!(moves.take(&row("x", Event::Acquired, 1, 10_000)), None, "nobody had it before");
        assert_eq!(moves.take(&row("x", Event::Stopped, 1, 20_000)), None);
        assert_eq!(moves.take(&row("x", Event::Released, 1, 20_010)), None);
        assert_eq!(moves.take(&row("y", Event::Acquired, 2, 20_050)), moved(Kind::Handoff, 50));
        // A late word of the old one is about nothing any more.
        assert_eq!(moves.take(&row("x", Event::Released, 1, 30_000)), None);
        assert_eq!(moves.take(&row("y", Event::Released, 2, 40_000)), None);
        assert_eq!(
            moves.take(&row("x", Event::Acquired, 3, 39_990)),
            moved(Kind::Handoff, 0),
            "clocks differ"
        );
    }

    #[test]
    fn a_failover_lasts_from_the_last_sign_of_life() {
        let mut moves = Moves::default();
        moves.take(&row("x", Event::Acquired, 1, 10_000));
        let mut expired = row("y", Event::Expired, 0, 20_000);
        expired.other = Some(MemberId::new("x").unwrap());
        assert_eq!(moves.take(&expired), None);
        assert_eq!(moves.take(&row("y", Event::TakenOver, 2, 20_200)), moved(Kind::Failover, 3200));
        // Where the row about the silence is missing, the takeover itself tells.
        assert_eq!(moves.take(&row("z", Event::TakenOver, 3, 30_000)), moved(Kind::Failover, 3000));
    }
}
