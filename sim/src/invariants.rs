//! What must hold in every run, one invariant a file. Each takes a history and says, in a sentence, how it was broken.

mod acting_in_turn;
mod clean_ledger;
mod coming_to_an_end;
mod coming_to_rest;
mod ending_for_good;
mod failing_closed;
mod one_believer;
mod rising_tokens;

use crate::history::History;

/// An invariant: its name, and the judge of a history.
pub type Invariant = (&'static str, fn(&History) -> Result<(), String>);

/// Every invariant.
pub const ALL: [Invariant; 8] = [
    ("one believer", one_believer::check),
    ("acting in turn", acting_in_turn::check),
    ("rising tokens", rising_tokens::check),
    ("clean ledger", clean_ledger::check),
    ("ending for good", ending_for_good::check),
    ("failing closed", failing_closed::check),
    ("coming to rest", coming_to_rest::check),
    ("coming to an end", coming_to_an_end::check),
];

/// The first invariant that a history breaks, and how.
#[must_use]
pub fn first_broken(history: &History) -> Option<(&'static str, String)> {
    ALL.iter().find_map(|(name, check)| check(history).err().map(|how| (*name, how)))
}
