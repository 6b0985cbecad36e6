//! How long a member trusted itself, as far as its rows show without a hole.
//!
//! A member numbers the rows about its terms. Where one is missing it may have said that work had stopped, so nothing
//! that was written after it makes an earlier term's belief longer. Where the last ones are missing nothing shows that:
//! then it is known only up to the last row that the member was still at it.

use super::timeline::{Place, Row};
use crate::ledger::{Entry, Event};

/// What one member's rows say about its trust.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// The numbers of its rows about terms.
    numbers: Vec<u64>,
    /// For each of them, the last number that follows it without a hole.
    unbroken: Vec<u64>,
    /// Bounds of trust by the number of the row that says so; each the highest so far.
    bounds: Vec<(u64, Place)>,
    /// Where rows stand by the number they carry; each the furthest so far.
    heard: Vec<(u64, Place)>,
    /// When it closed its session.
    left: Option<Place>,
}

impl Trust {
    /// Takes in a row of this member.
    pub(super) fn hear(&mut self, row: &Row<'_>) {
        if row.entry.event == Event::Left {
            self.left = self.left.or(Some(row.at));
        }
        self.numbers.extend(row.entry.number.filter(|_| row.entry.event.is_of_term()));
        let number = row.entry.number.unwrap_or_default();
        self.bounds.extend(row.until.map(|until| (number, until)));
        self.heard.push((number, row.at));
    }

    /// Once every row was heard.
    pub(super) fn settle(&mut self) {
        self.numbers.sort_unstable();
        self.numbers.dedup();
        self.unbroken.clone_from(&self.numbers);
        for place in (1..self.numbers.len()).rev() {
            if self.numbers[place - 1].checked_add(1) == Some(self.numbers[place]) {
                self.unbroken[place - 1] = self.unbroken[place];
            }
        }
        rising(&mut self.bounds);
        rising(&mut self.heard);
    }

    /// The last bound that counts for a term that is first heard of in this row.
    pub(super) fn bound_for(&self, first: &Entry) -> Option<Place> {
        highest(&self.bounds, self.last_unbroken(first))
    }

    /// Where the last row stands that follows this one without a hole.
    pub(super) fn heard_after(&self, first: &Entry) -> Option<Place> {
        highest(&self.heard, self.last_unbroken(first))
    }

    /// How many of its rows about terms are not there, as far as the numbers of the others show.
    pub(super) fn missing(&self) -> u64 {
        let highest = self.heard.last().map_or(0, |(number, _)| *number);
        let there = self.numbers.iter().filter(|number| **number > 0).count();
        highest.saturating_sub(u64::try_from(there).unwrap_or(u64::MAX))
    }

    fn last_unbroken(&self, first: &Entry) -> u64 {
        let unbroken = |number| self.numbers.binary_search(&number).ok().map(|place| self.unbroken[place]);
        first.number.and_then(unbroken).unwrap_or(u64::MAX)
    }

    pub(super) fn left(&self) -> Option<Place> {
        self.left
    }
}

/// Sorts by number and makes each place the highest so far.
fn rising(places: &mut [(u64, Place)]) {
    places.sort_unstable();
    let mut highest = Place::MIN;
    for (_, place) in places {
        highest = highest.max(*place);
        *place = highest;
    }
}

/// The highest place up to a number.
fn highest(places: &[(u64, Place)], last: u64) -> Option<Place> {
    let counted = places.partition_point(|(number, _)| *number <= last);
    places[..counted].last().map(|(_, place)| *place)
}
