//! How often a fence said what.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Admission, Refusal};

/// How often a fence said what, so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Passed, checked or not.
    pub passed: u64,
    /// Of these, those that carried no token and passed because a migration allows it.
    pub passed_unversioned: u64,
    /// Refused: a newer term was granted.
    pub stale: u64,
    /// Refused: no such term was granted.
    pub future_token: u64,
    /// Refused: no token.
    pub unversioned: u64,
    /// Refused: what was there is no token.
    pub malformed: u64,
    /// Refused: nobody could say.
    pub unconfirmed: u64,
    /// Refused: too many resources.
    pub crowded: u64,
}

impl Counts {
    /// The refusals, each with its reason in one word.
    #[must_use]
    pub fn refused(&self) -> [(&'static str, u64); 6] {
        [
            ("stale", self.stale),
            ("future_token", self.future_token),
            ("unversioned", self.unversioned),
            ("malformed", self.malformed),
            ("unconfirmed", self.unconfirmed),
            ("crowded", self.crowded),
        ]
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    passed: AtomicU64,
    passed_unversioned: AtomicU64,
    stale: AtomicU64,
    future: AtomicU64,
    unversioned: AtomicU64,
    malformed: AtomicU64,
    unconfirmed: AtomicU64,
    crowded: AtomicU64,
}

impl Counters {
    pub(super) fn count(&self, admission: Admission) -> Admission {
        let counter = match admission {
            Admission::Admitted => &self.passed,
            Admission::Refused(Refusal::Stale { .. }) => &self.stale,
            Admission::Refused(Refusal::Future { .. }) => &self.future,
            Admission::Refused(Refusal::Unversioned) => &self.unversioned,
            Admission::Refused(Refusal::Malformed) => &self.malformed,
            Admission::Refused(Refusal::Unconfirmed) => &self.unconfirmed,
            Admission::Refused(Refusal::Crowded) => &self.crowded,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        admission
    }

    pub(super) fn count_unversioned(&self) {
        self.passed.fetch_add(1, Ordering::Relaxed);
        self.passed_unversioned.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            passed: read(&self.passed),
            passed_unversioned: read(&self.passed_unversioned),
            stale: read(&self.stale),
            future_token: read(&self.future),
            unversioned: read(&self.unversioned),
            malformed: read(&self.malformed),
            unconfirmed: read(&self.unconfirmed),
            crowded: read(&self.crowded),
        }
    }
}
