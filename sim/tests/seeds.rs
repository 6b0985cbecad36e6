//! Many seeds, in none of which anything unsafe happens and after each of which the pool comes to rest; and the same
//! with known mistakes put back, each of which must be found. `LEASEHOLD_SEEDS` says how many.

use leasehold::mistakes::Mistake;
use leasehold_sim::invariants;
use leasehold_sim::search::search;

/// Within how many seeds every mistake must be found.
const MISTAKES_WITHIN: u64 = 10_000;

fn seeds() -> u64 {
    let given = std::env::var("LEASEHOLD_SEEDS").ok();
    given.map_or(10_000, |seeds| seeds.parse().expect("LEASEHOLD_SEEDS is a number"))
}

// proves U26
#[test]
fn no_seed_breaks_an_invariant() {
    let found = search(0..seeds(), None, |done| println!("{done} seeds hold"));
    let failure = found.failure;
    assert!(
        failure.is_none(),
        "{failure:?}: see all of it from the directory sim with: cargo run --release -- --reproduce SEED"
    );
    let (invariants, slowest) = (invariants::ALL.len(), found.slowest);
    println!("{} seeds: {invariants} invariants hold in each; slowest to rest: {slowest:?}", seeds());
}

#[test]
fn every_known_mistake_is_found() {
    let mut missed = Vec::new();
    for mistake in Mistake::ALL {
        match search(0..MISTAKES_WITHIN, Some(mistake), |_| ()).failure {
            Some(failure) => {
                println!("{mistake:?}: found by \"{}\" after {} seeds", failure.invariant, failure.seed + 1);
            }
            None => missed.push(mistake),
        }
    }
    assert!(missed.is_empty(), "not found within {MISTAKES_WITHIN} seeds: {missed:?}");
}

#[cfg(tokio_unstable)]
#[test]
fn a_seed_is_the_same_run_every_time() {
    let told = |seed| {
        let mut history = leasehold_sim::run(seed, None);
        for event in &mut history.events {
            // Names of eras are drawn anew each time; nothing depends on them.
            if let leasehold_sim::history::What::Wrote(entry) = &mut event.what {
                entry.detail = None;
            }
        }
        history.events.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for seed in 0..20 {
        let (once, again) = (told(seed), told(seed));
        let differs = once.iter().zip(&again).find(|(one, two)| one != two);
        assert!(once == again, "seed {seed} differs: {differs:?}");
    }
}
