//! Runs many seeds on every core and finds the first that breaks an invariant.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::mistakes::Mistake;

use crate::{invariants, run};

/// A seed that breaks an invariant.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Which invariant it breaks.
    pub invariant: &'static str,
    /// How, in a sentence.
    pub how: String,
}

/// What came of running many seeds.
#[derive(Debug, Default)]
pub struct Found {
    /// The lowest seed that breaks an invariant.
    pub failure: Option<Failure>,
    /// The seed that took longest to come to rest, and how long.
    pub slowest: Option<(Duration, u64)>,
}

/// Runs these seeds, until one breaks an invariant. `progress` is told how many have been run, now and then.
///
/// # Panics
/// A run panicked.
pub fn search(seeds: std::ops::Range<u64>, mistake: Option<Mistake>, progress: impl Fn(u64) + Sync) -> Found {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new(Found::default());
    let known = || found.lock().expect("a run panicked");
    let run_seeds = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || known().failure.as_ref().is_some_and(|first| first.seed < seed) {
                return;
            }
            let done = seed - seeds.start;
            if done > 0 && done.is_multiple_of(10_000) {
                progress(done);
            }
            let history = run(seed, mistake);
            let broken = invariants::first_broken(&history);
            let mut found = known();
            found.slowest = found.slowest.max(history.time_to_rest().map(|rest| (rest, seed)));
            if let Some((invariant, how)) = broken
                && found.failure.as_ref().is_none_or(|first| seed < first.seed)
            {
                found.failure = Some(Failure { seed, invariant, how });
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(run_seeds);
        }
    });
    std::mem::take(&mut *known())
}
