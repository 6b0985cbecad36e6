//! `leasehold-sim`: runs seeds, or one seed again with everything that happened.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use leasehold::mistakes::Mistake;
use leasehold_sim::history::What;
use leasehold_sim::{invariants, run};

/// The real participant and the real plan under virtual time and seeded faults.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Args {
    /// How many seeds to run.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run this seed again and print everything that happened.
    #[arg(long, value_name = "SEED")]
    reproduce: Option<u64>,
    /// Put a known mistake back, by its name in `leasehold::mistakes`.
    #[arg(long, value_name = "NAME", value_parser = mistake)]
    mistake: Option<Mistake>,
    /// Put every known mistake back, one by one, and see each caught within the seeds.
    #[arg(long)]
    mistakes: bool,
}

fn mistake(name: &str) -> Result<Mistake, String> {
    let known = Mistake::ALL.into_iter().find(|mistake| format!("{mistake:?}") == name);
    known.ok_or_else(|| format!("give one of {:?}", Mistake::ALL))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let holds = match (args.reproduce, args.mistakes) {
        (Some(seed), _) => reproduce(seed, args.mistake),
        (None, true) => every_mistake_is_caught(&args),
        (None, false) => all_seeds_hold(&args),
    };
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn reproduce(seed: u64, mistake: Option<Mistake>) -> bool {
    let history = run(seed, mistake);
    println!("seed {seed}, TTL {:?}", history.ttl);
    for event in &history.events {
        // Each thing that work does is one line only where it matters.
        if !matches!(&event.what, What::Acted(_, others) if others.is_empty()) {
            println!("{event}");
        }
    }
    let mut holds = true;
    for (name, check) in invariants::ALL {
        if let Err(how) = check(&history) {
            println!("broken: {name}: {how}");
            holds = false;
        }
    }
    if holds {
        println!("every invariant holds");
    }
    holds
}

fn all_seeds_hold(args: &Args) -> bool {
    match first_failure(args.from, args.seeds, args.mistake, true) {
        None => {
            println!("{} seeds: every invariant holds in each", args.seeds);
            true
        }
        Some((seed, invariant, how)) => {
            println!("seed {seed} breaks \"{invariant}\": {how}");
            println!("see everything with: --reproduce {seed}");
            false
        }
    }
}

fn every_mistake_is_caught(args: &Args) -> bool {
    let mut all = true;
    for mistake in Mistake::ALL {
        match first_failure(args.from, args.seeds, Some(mistake), false) {
            Some((seed, invariant, how)) => {
                let seeds = seed - args.from + 1;
                println!("{mistake:?}: caught after {seeds} seeds by \"{invariant}\": {how}");
            }
            None => {
                println!("{mistake:?}: not caught in {} seeds", args.seeds);
                all = false;
            }
        }
    }
    all
}

/// The lowest seed that breaks an invariant, which one and how.
fn first_failure(
    from: u64,
    seeds: u64,
    mistake: Option<Mistake>,
    progress: bool,
) -> Option<(u64, &'static str, String)> {
    let next = AtomicU64::new(from);
    let first: Mutex<Option<(u64, &'static str, String)>> = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found = |seed: u64| first.lock().unwrap().as_ref().is_some_and(|(first, ..)| *first < seed);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds || found(seed) {
                        return;
                    }
                    if progress && (seed - from) % 10_000 == 0 && seed > from {
                        println!("{} seeds", seed - from);
                    }
                    if let Some((invariant, how)) = invariants::first_broken(&run(seed, mistake)) {
                        let mut first = first.lock().unwrap();
                        if first.as_ref().is_none_or(|(first, ..)| seed < *first) {
                            *first = Some((seed, invariant, how));
                        }
                    }
                }
            });
        }
    });
    first.into_inner().unwrap()
}
