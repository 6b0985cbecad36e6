//! The tenures of every resource as bars on one axis of time, read from rows of the ledger. Pure.
//!
//! Times are those of the writers' wall clocks: for people. Where machines' clocks differ, so do the ends of bars; whether anything
//! ever had two owners is what `leasehold verify` judges, by better clocks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use leasehold::ledger::{Entry, Event};
use leasehold::{MemberId, ResourceId};
use serde::Serialize;

/// The most bars that are kept for one resource, and the most resources that are remembered.
const BARS_MAX: usize = 32;
const RESOURCES_MAX: usize = 100_000;

/// One holder's time with a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct Bar {
    /// The holder's name.
    pub(crate) owner: String,
    /// Its token.
    pub(crate) token: u64,
    /// From when, in milliseconds since 1970.
    pub(crate) from: u64,
    /// Until when; null while it lasts.
    pub(crate) until: Option<u64>,
    /// How it ended: `released`, `lost`, `expired`, `revoked`, `stopped`.
    pub(crate) end: Option<&'static str>,
}

/// The bars of a pool.
#[derive(Debug, Default)]
pub(crate) struct Bars {
    bars: HashMap<ResourceId, Arc<Vec<Bar>>>,
    /// What each member is known to hold, so that its end ends all of it.
    held: BTreeMap<(MemberId, ResourceId), u64>,
}

impl Bars {
    /// The bars of a resource, the oldest first.
    pub(crate) fn of(&self, resource: &ResourceId) -> Option<&Arc<Vec<Bar>>> {
        self.bars.get(resource)
    }

    /// Takes in a row.
    pub(crate) fn take(&mut self, entry: &Entry) {
        let at = entry.wall_nanos / 1_000_000;
        let term = entry.resource.as_ref().zip(entry.token.map(|token| token.0));
        match (entry.event, term) {
            (Event::Acquired | Event::TakenOver, Some((resource, token))) => {
                self.begin(resource, token, entry, at);
            }
            (Event::Released, Some((resource, token))) => {
                self.end(&entry.member, resource, token, at, "released")
            }
            (Event::Lost, Some((resource, token))) => self.end(&entry.member, resource, token, at, "lost"),
            (Event::Stopped, Some((resource, token))) => {
                self.end(&entry.member, resource, token, at, "stopped")
            }
            // Written by whoever found out, about the one who fell silent.
            (Event::Expired, _) => self.all_of(entry.other.as_ref().unwrap_or(&entry.member), at, "expired"),
            (Event::Left, _) => self.all_of(&entry.member, at, "released"),
            _ => {}
        }
    }

    fn begin(&mut self, resource: &ResourceId, token: u64, entry: &Entry, at: u64) {
        if self.bars.len() > RESOURCES_MAX {
            self.bars.retain(|_, bars| bars.last().is_some_and(|bar| bar.until.is_none()));
        }
        let bars = Arc::make_mut(self.bars.entry(resource.clone()).or_default());
        if bars.iter().any(|bar| bar.token == token) {
            return;
        }
        // Whoever had it before has it no more, whether its last row ever came or not.
        for open in bars.iter_mut().filter(|bar| bar.until.is_none() && bar.token < token) {
            open.until = Some(at);
            open.end = Some("expired");
        }
        bars.push(Bar { owner: entry.name.to_string(), token, from: at, until: None, end: None });
        bars.sort_by_key(|bar| bar.token);
        let surplus = bars.len().saturating_sub(BARS_MAX);
        bars.drain(..surplus);
        self.held.insert((entry.member.clone(), resource.clone()), token);
    }

    fn end(&mut self, member: &MemberId, resource: &ResourceId, token: u64, at: u64, how: &'static str) {
        self.held.remove(&(member.clone(), resource.clone()));
        let Some(bars) = self.bars.get_mut(resource) else { return };
        if bars.iter().any(|bar| bar.token == token && bar.until.is_none()) {
            let bars = Arc::make_mut(bars);
            for bar in bars.iter_mut().filter(|bar| bar.token == token) {
                bar.until = Some(at.max(bar.from));
                bar.end = Some(how);
            }
        }
    }

    fn all_of(&mut self, member: &MemberId, at: u64, how: &'static str) {
        let of_member = self.held.iter().filter(|((holder, _), _)| holder == member);
        let all: Vec<(ResourceId, u64)> = of_member.map(|((_, id), token)| (id.clone(), *token)).collect();
        for (resource, token) in all {
            self.end(member, &resource, token, at, how);
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold::{MemberName, Token, clock};

    use super::*;

    fn row(member: &str, event: Event, term: Option<(&str, u64)>, at: u64) -> Entry {
        Entry {
            wall_nanos: at * 1_000_000,
            at: clock::Moment::default(),
            boot: String::new(),
            number: None,
            member: MemberId::new(member).unwrap(),
            name: MemberName::new(member).unwrap(),
            event,
            resource: term.map(|(id, _)| ResourceId::new(id).unwrap()),
            token: term.map(|(_, token)| Token(token)),
            trusted_until: None,
            ttl_ms: None,
            reason: None,
            error: None,
            other: None,
            detail: None,
        }
    }

    fn seen(bars: &Bars) -> Vec<(String, u64, Option<u64>, Option<&'static str>)> {
        let of = bars.of(&ResourceId::new("a").unwrap()).cloned().unwrap_or_default();
        of.iter().map(|bar| (bar.owner.clone(), bar.from, bar.until, bar.end)).collect()
    }

    #[test]
    fn a_handoff_is_two_bars_with_a_gap_between_them() {
        let mut bars = Bars::default();
        bars.take(&row("x", Event::Acquired, Some(("a", 1)), 10));
        bars.take(&row("x", Event::Stopped, Some(("a", 1)), 20));
        bars.take(&row("x", Event::Released, Some(("a", 1)), 21));
        bars.take(&row("y", Event::Acquired, Some(("a", 2)), 25));
        let expected = [("x".to_owned(), 10, Some(20), Some("stopped")), ("y".to_owned(), 25, None, None)];
        assert_eq!(seen(&bars), expected);
    }

    #[test]
    fn silence_ends_every_bar_of_the_silent_and_an_overlap_would_show() {
        let mut bars = Bars::default();
        bars.take(&row("x", Event::Acquired, Some(("a", 1)), 10));
        let mut expired = row("y", Event::Expired, None, 40);
        expired.other = Some(MemberId::new("x").unwrap());
        bars.take(&expired);
        bars.take(&row("y", Event::TakenOver, Some(("a", 2)), 41));
        // Its own last word comes late, and changes nothing.
        bars.take(&row("x", Event::Lost, Some(("a", 1)), 60));
        assert_eq!(seen(&bars)[0], ("x".to_owned(), 10, Some(40), Some("expired")));
        let mut two = Bars::default();
        two.take(&row("y", Event::Acquired, Some(("a", 2)), 15));
        two.take(&row("x", Event::Acquired, Some(("a", 1)), 10));
        two.take(&row("x", Event::Released, Some(("a", 1)), 30));
        assert_eq!(seen(&two)[0].2, Some(30), "beyond where the next begins");
    }
}
