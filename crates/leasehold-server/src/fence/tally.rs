//! How often a fence refused what has nothing to do with tokens, and how it stands.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is wrong with something besides its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It names no resource that there can be.
    NoResource,
    /// It is no JSON object.
    Unreadable,
    /// It is larger than is allowed.
    TooLarge,
    /// It says that it is about another resource than the one it was sent for.
    OtherResource,
}

const FLAWS: [(&str, Flaw); 4] = [
    ("no_resource", Flaw::NoResource),
    ("unreadable", Flaw::Unreadable),
    ("too_large", Flaw::TooLarge),
    ("other_resource", Flaw::OtherResource),
];

/// How often a fence refused what has nothing to do with tokens, and how it stands.
#[derive(Debug, Default)]
pub struct Tally {
    flaws: [AtomicU64; FLAWS.len()],
    delivered: AtomicU64,
    connections: AtomicU64,
    connected: AtomicBool,
}

impl Tally {
    pub(super) fn refuse(&self, flaw: Flaw) {
        if let Some(place) = FLAWS.iter().position(|(_, known)| *known == flaw) {
            self.flaws[place].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn deliver(&self) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connect(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.connected.store(true, Ordering::Relaxed);
    }

    pub(super) fn disconnect(&self) {
        self.connected.store(false, Ordering::Relaxed);
    }

    /// The refusals, each with its reason in one word.
    #[must_use]
    pub fn refused(&self) -> Vec<(&'static str, u64)> {
        let count = |((reason, _), count): (&(&'static str, Flaw), &AtomicU64)| {
            (*reason, count.load(Ordering::Relaxed))
        };
        FLAWS.iter().zip(&self.flaws).map(count).collect()
    }

    /// How many were passed on, and confirmed by whoever they were passed on to.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// How often a connection was made.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Whether anything can pass at the moment.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }
}
