//! What was measured, in numbers. Pure.

use std::time::Duration;

use serde::Serialize;

/// One case, measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figure {
    /// What was done.
    pub(super) case: String,
    /// How often it was done.
    pub(super) count: u64,
    /// How long all of it took, in seconds.
    pub(super) seconds: f64,
    /// How often a second.
    pub(super) per_second: f64,
    /// How long one took, in milliseconds. Absent where only the whole was timed.
    #[serde(flatten)]
    pub(super) took: Option<Took>,
    /// How many calls to the store were made for all of it.
    pub(super) calls: u64,
}

/// How long one took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Took {
    pub(super) median_ms: f64,
    /// The spread: a quarter took no longer than the first, a quarter longer than the second.
    pub(super) quarter_ms: f64,
    pub(super) three_quarters_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

impl Figure {
    /// So much was done in so long.
    pub(super) fn whole(case: impl Into<String>, count: u64, seconds: Duration, calls: u64) -> Self {
        let seconds = seconds.as_secs_f64();
        let per_second = count as f64 / seconds.max(f64::MIN_POSITIVE);
        Self { case: case.into(), count, seconds, per_second, took: None, calls }
    }

    /// The same, with how long each took.
    pub(super) fn each(mut self, mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        self.took = Took::of(&samples);
        self
    }
}

impl Took {
    /// Of samples in order; `None` of none.
    fn of(sorted: &[Duration]) -> Option<Self> {
        let last = sorted.len().checked_sub(1)?;
        let millis = |at: usize| sorted[at.min(last)].as_secs_f64() * 1000.0;
        // The least that is not exceeded by so many of a hundred.
        let part = |of_hundred: usize| millis((sorted.len() * of_hundred).div_ceil(100).saturating_sub(1));
        Some(Self {
            median_ms: part(50),
            quarter_ms: part(25),
            three_quarters_ms: part(75),
            p99_ms: part(99),
            max_ms: millis(last),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_samples_are_samples() {
        let millis = |of: std::ops::RangeInclusive<u64>| of.rev().map(Duration::from_millis).collect();
        let figure = Figure::whole("x", 200, Duration::from_secs(2), 7).each(millis(1..=200));
        let took = figure.took.expect("samples");
        assert_eq!((took.median_ms, took.quarter_ms, took.three_quarters_ms), (100.0, 50.0, 150.0));
        assert_eq!((took.p99_ms, took.max_ms, figure.per_second), (198.0, 200.0, 100.0));
        let one = Figure::whole("x", 1, Duration::from_secs(1), 1).each(millis(5..=5)).took.expect("one");
        assert_eq!((one.median_ms, one.p99_ms, one.max_ms), (5.0, 5.0, 5.0));
        assert_eq!(Figure::whole("x", 0, Duration::ZERO, 0).each(Vec::new()).took, None);
    }
}
