//! Runs many seeds on every core and finds the first that breaks an invariant.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// The lowest of these seeds that breaks an invariant. `progress` is told how many have been run, now and then.
///
/// # Panics
/// A run panicked.
pub fn first_failure(
    seeds: std::ops::Range<u64>,
    mistake: Option<Mistake>,
    progress: impl Fn(u64) + Sync,
) -> Option<Failure> {
    let next = AtomicU64::new(seeds.start);
    let first: Mutex<Option<Failure>> = Mutex::new(None);
    let known = || first.lock().expect("a run panicked");
    let search = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || known().as_ref().is_some_and(|first| first.seed < seed) {
                return;
            }
            let done = seed - seeds.start;
            if done > 0 && done.is_multiple_of(10_000) {
                progress(done);
            }
            if let Some((invariant, how)) = invariants::first_broken(&run(seed, mistake)) {
                let mut first = known();
                if first.as_ref().is_none_or(|first| seed < first.seed) {
                    *first = Some(Failure { seed, invariant, how });
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(search);
        }
    });
    known().take()
}
