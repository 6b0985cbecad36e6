//! The rules, each for one resource: one believer at a time, tokens that rise, no stale writes.

use std::collections::{BTreeMap, HashMap, hash_map};
use std::time::Duration;

use super::believed::Term;
use super::timeline::{Machine, Place, Row, Timeline, machine, same_machine};
use super::{Undecided, Verdict, Violation, Write};
use crate::lease::{MemberId, ResourceId, Token};
use crate::ledger::{Entry, Event};

/// Judges one resource.
#[derive(Debug)]
pub(super) struct Judge<'t, 'e> {
    pub(super) resource: &'e ResourceId,
    pub(super) timeline: &'t Timeline<'e>,
    pub(super) clock_error: Duration,
}

impl Judge<'_, '_> {
    /// How long two were believed at once. `terms` are in the order in which they began.
    pub(super) fn overlaps(&self, terms: &[Term<'_>], verdict: &mut Verdict) -> Duration {
        let mut overlap = Duration::ZERO;
        let mut counted_until = Place::MIN;
        let mut before = Before::default();
        for term in terms.iter().filter(|term| term.is_held()) {
            let pairs = before.candidates(term).filter_map(|reach| Some((self.overlap(reach, term)?, reach)));
            // One is told: what is sure before what is not, then the longest.
            if let Some(((judged, length), reach)) = pairs.max_by_key(|(judged, _)| *judged) {
                let (resource, first) = (self.resource.clone(), reach.tenure(self.timeline));
                let second = term.tenure(self.timeline);
                match judged {
                    Judged::Undecided => {
                        verdict.undecided.push(Undecided { resource, first, second, length });
                    }
                    Judged::Violation => {
                        let until = term.from.saturating_add(nanos(length));
                        let counted = self.timeline.between(term.from.max(counted_until), until);
                        overlap = overlap.saturating_add(counted);
                        counted_until = counted_until.max(until);
                        verdict.violations.push(Violation::Overlap { resource, first, second, length });
                    }
                }
            }
            before.add(term);
        }
        overlap
    }

    /// How long both were believed, if that can be held against them, and whether it is sure.
    fn overlap(&self, before: &Term<'_>, after: &Term<'_>) -> Option<(Judged, Duration)> {
        // That it was given back in between is what the later one's higher token shows.
        if before.ends_late && before.token < after.token {
            return None;
        }
        let length = self.timeline.between(after.from, before.until.min(after.until));
        let error = self.error_between(before.first, after.first);
        let judged = if self.may_be_over(before, after) { Judged::Undecided } else { Judged::Violation };
        (!length.is_zero() && length > error).then_some((judged, length))
    }

    /// Whether the earlier one may have been given back before the later one was granted, and the rows that say so
    /// be missing. Its member said nothing since; and only a lease that is free is granted under a higher token
    /// without being taken over from its holder.
    fn may_be_over(&self, before: &Term<'_>, after: &Term<'_>) -> bool {
        let error = nanos(self.error_between(before.first, after.first));
        let silent = before.stopped.is_none() && before.heard.saturating_sub(error) < after.from;
        let from_it = after.taken_over && after.taken_from.is_none_or(|holder| holder == before.member);
        silent && before.token < after.token && !from_it
    }

    /// One token, one member; a later grant has a higher token.
    pub(super) fn tokens(&self, terms: &[Term<'_>], violations: &mut Vec<Violation>) {
        let mut holders: BTreeMap<Token, &Term<'_>> = BTreeMap::new();
        for term in terms {
            let holder = *holders.entry(term.token).or_insert(term);
            if holder.member != term.member {
                violations.push(Violation::TokenShared {
                    resource: self.resource.clone(),
                    first: holder.tenure(self.timeline),
                    second: term.tenure(self.timeline),
                });
            }
        }
        let mut granted: Vec<(Place, &Term<'_>)> =
            terms.iter().filter_map(|term| Some((term.granted?, term))).collect();
        granted.sort_by_key(|(at, term)| (*at, term.token));
        let mut highest: Option<(Place, &Term<'_>)> = None;
        for (at, term) in granted {
            match highest {
                Some((before, top)) if term.token < top.token => {
                    if self.is_later(top.first, before, term.first, at) {
                        violations.push(self.fell(top, term));
                    }
                }
                _ => highest = Some((at, term)),
            }
        }
        for term in terms.iter().filter(|term| term.granted_again) {
            violations.push(self.fell(term, term));
        }
    }

    fn fell(&self, first: &Term<'_>, second: &Term<'_>) -> Violation {
        Violation::TokenFell {
            resource: self.resource.clone(),
            first: first.tenure(self.timeline),
            second: second.tenure(self.timeline),
        }
    }

    /// After a write under a token was let through, none is under a lower one.
    pub(super) fn writes(&self, rows: &[Row<'_>], violations: &mut Vec<Violation>) {
        let accepted = rows.iter().filter(|row| row.entry.event == Event::Accepted);
        let mut writes: Vec<(Place, Token, &Entry)> =
            accepted.filter_map(|row| Some((row.at, row.entry.token?, row.entry))).collect();
        writes.sort_by_key(|(at, token, _)| (*at, *token));
        let mut newest: Option<(Place, Token, &Entry)> = None;
        for write in writes {
            match newest {
                Some(top) if write.1 < top.1 => {
                    if self.is_later(top.2, top.0, write.2, write.0) {
                        violations.push(Violation::StaleWrite {
                            resource: self.resource.clone(),
                            newest: self.write(top),
                            stale: self.write(write),
                        });
                    }
                }
                _ => newest = Some(write),
            }
        }
    }

    fn write(&self, (at, token, entry): (Place, Token, &Entry)) -> Write {
        Write { token, guard: entry.name.clone(), at: self.timeline.when(at) }
    }

    fn is_later(&self, one: &Entry, at: Place, two: &Entry, later: Place) -> bool {
        self.timeline.between(at, later) > self.error_between(one, two)
    }

    fn error_between(&self, one: &Entry, two: &Entry) -> Duration {
        if same_machine(one, two) { Duration::ZERO } else { self.clock_error }
    }
}

/// What two terms that were believed at once are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Judged {
    Undecided,
    Violation,
}

/// Of the terms that began before, those that one more must be compared with: whoever overlaps with any in a way that
/// counts, does so with one of these.
#[derive(Debug, Default)]
struct Before<'t, 'e> {
    /// Those that reach furthest.
    furthest: Furthest<'t, 'e>,
    /// Those that surely reach furthest: what the furthest is excused for, another is not.
    surely: Furthest<'t, 'e>,
    /// The furthest of each member, of whom the later one may say that it was taken over from it.
    by_member: HashMap<&'e MemberId, &'t Term<'e>>,
}

impl<'t, 'e> Before<'t, 'e> {
    fn add(&mut self, term: &'t Term<'e>) {
        self.furthest.add(term, |term| term.until);
        self.surely.add(term, Term::believed_for_sure);
        keep_furthest(self.by_member.entry(term.member), term, |term| term.until);
    }

    fn candidates(&self, term: &Term<'e>) -> impl Iterator<Item = &'t Term<'e>> {
        let holder = term.taken_from.and_then(|holder| self.by_member.get(holder)).copied();
        self.furthest.candidates(term).chain(self.surely.candidates(term)).chain(holder)
    }
}

/// The term that reaches furthest of all, and of each machine: between two machines more is excused than on one.
#[derive(Debug, Default)]
struct Furthest<'t, 'e> {
    of_all: Option<&'t Term<'e>>,
    by_machine: HashMap<Machine<'e>, &'t Term<'e>>,
}

impl<'t, 'e> Furthest<'t, 'e> {
    fn add(&mut self, term: &'t Term<'e>, reach: impl Fn(&Term<'e>) -> Place) {
        if self.of_all.is_none_or(|furthest| reach(furthest) < reach(term)) {
            self.of_all = Some(term);
        }
        keep_furthest(self.by_machine.entry(machine(term.first)), term, reach);
    }

    fn candidates(&self, term: &Term<'e>) -> impl Iterator<Item = &'t Term<'e>> {
        let here = self.by_machine.get(&machine(term.first)).copied();
        self.of_all.into_iter().chain(here)
    }
}

fn keep_furthest<'t, 'e, K>(
    kept: hash_map::Entry<'_, K, &'t Term<'e>>,
    term: &'t Term<'e>,
    reach: impl Fn(&Term<'e>) -> Place,
) {
    let furthest = kept.or_insert(term);
    if reach(furthest) < reach(term) {
        *furthest = term;
    }
}

fn nanos(length: Duration) -> Place {
    Place::try_from(length.as_nanos()).unwrap_or(Place::MAX)
}
