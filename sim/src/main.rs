//! `leasehold-sim`: runs seeds, or one seed again with everything that happened.

use std::process::ExitCode;

use clap::Parser;
use leasehold::mistakes::Mistake;
use leasehold_sim::history::What;
use leasehold_sim::search::{Failure, search};
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
}

fn mistake(name: &str) -> Result<Mistake, String> {
    let known = Mistake::ALL.into_iter().find(|mistake| format!("{mistake:?}") == name);
    known.ok_or_else(|| format!("give one of {:?}", Mistake::ALL))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let holds = match args.reproduce {
        Some(seed) => reproduce(seed, args.mistake),
        None => all_seeds_hold(&args),
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
    let found = search(args.from..args.from + args.seeds, args.mistake, |done| println!("{done} seeds"));
    if let Some(Failure { seed, invariant, how }) = found.failure {
        println!("seed {seed} breaks \"{invariant}\": {how}");
        println!("see everything with: --reproduce {seed}");
        return false;
    }
    println!("{} seeds: every invariant holds in each", args.seeds);
    if let Some((rest, seed)) = found.slowest {
        println!("seed {seed} took longest to come to rest: {rest:?}");
    }
    true
}
