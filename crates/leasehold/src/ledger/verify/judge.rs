//! The rules, each for one resource: one believer at a time, tokens that rise, no stale writes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::believed::Term;
use super::timeline::{Place, Row, Timeline, same_machine};
use super::{Violation, Write};
use crate::lease::{ResourceId, Token};
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
    pub(super) fn overlaps(&self, terms: &[Term<'_>], violations: &mut Vec<Violation>) -> Duration {
        let mut overlap = Duration::ZERO;
        let mut counted_until = Place::MIN;
        // The one before that reaches furthest: whoever overlaps with any, overlaps with it.
        let mut reach: Option<&Term<'_>> = None;
        for term in terms.iter().filter(|term| term.is_held()) {
            if let Some(length) = reach.and_then(|reach| self.overlap(reach, term)) {
                let until = term.from.saturating_add(nanos(length));
                let counted = self.timeline.between(term.from.max(counted_until), until);
                overlap = overlap.saturating_add(counted);
                counted_until = counted_until.max(until);
                violations.extend(reach.map(|reach| Violation::Overlap {
                    resource: self.resource.clone(),
                    first: reach.tenure(self.timeline),
                    second: term.tenure(self.timeline),
                    length,
                }));
            }
            if reach.is_none_or(|reach| reach.until < term.until) {
                reach = Some(term);
            }
        }
        overlap
    }

    /// How long both were believed, if that can be held against them.
    fn overlap(&self, before: &Term<'_>, after: &Term<'_>) -> Option<Duration> {
        // That it was given back in between is what the later one's higher token shows.
        if before.ends_late && before.token < after.token {
            return None;
        }
        let length = self.timeline.between(after.from, before.until.min(after.until));
        (!length.is_zero() && length > self.error_between(before.first, after.first)).then_some(length)
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

fn nanos(length: Duration) -> Place {
    Place::try_from(length.as_nanos()).unwrap_or(Place::MAX)
}
