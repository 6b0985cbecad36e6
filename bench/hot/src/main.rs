//! The paths that run most often, each alone: `leasehold-hot PATH TIMES`. Without arguments their names are printed.
//!
//! `tools/instructions` runs each under callgrind, once with so many times and once with none: the difference is what the path
//! itself takes, whatever was done to prepare it.

#[path = "../../../crates/leasehold/benches/plan/facts.rs"]
mod facts;
mod heard;
mod words;

use std::hint::black_box;
use std::process::ExitCode;

use leasehold::plan::{Plan, Planner, Resource};

use self::facts::{facts, held, member};

/// How large the pools are that are planned: large enough that what grows too fast is seen.
const RESOURCES: usize = 10_000;
const MEMBERS: usize = 20;

/// A path: what it prepares, and what it does so many times.
type Path = fn(usize);

const PATHS: [(&str, Path); 9] = [
    ("plan, all free", plan_all_free),
    ("plan, one change", plan_one_change),
    ("plan, one joins", plan_one_joins),
    ("fence, check of a token", words::fence_check),
    ("fence, read of a message", words::fence_message),
    ("ids and tokens, parsed", words::parse),
    ("ledger, a line written and read", words::ledger_line),
    ("store, a heartbeat", heard::beat),
    ("listener, a beat of a hundred", heard::hear),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [] => PATHS.iter().for_each(|(name, _)| println!("{name}")),
        [name, times] => {
            let path = PATHS.iter().find(|(known, _)| known == name);
            let (Some((_, path)), Ok(times)) = (path, times.parse()) else { return ExitCode::from(2) };
            path(times);
        }
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

fn plan_all_free(times: usize) {
    let free = facts(RESOURCES, MEMBERS);
    for _ in 0..times {
        black_box(Plan::compute(black_box(&free)));
    }
}

fn plan_one_change(times: usize) {
    let free = facts(RESOURCES, MEMBERS);
    let settled = held(&free, &Plan::compute(&free));
    let one = &settled.resources[RESOURCES / 2];
    let one_free = Resource { holder: None, ..one.clone() };
    let mut planner = Planner::new(settled.clone());
    // Whoever is told of a change for the first time takes stock of everything.
    planner.put(one.clone());
    planner.plan();
    for turn in 0..times {
        planner.put(if turn % 2 == 0 { one_free.clone() } else { one.clone() });
        black_box(planner.plan());
    }
}

fn plan_one_joins(times: usize) {
    let free = facts(RESOURCES, MEMBERS);
    let mut joined = held(&free, &Plan::compute(&free));
    joined.members.push(member(MEMBERS));
    for _ in 0..times {
        black_box(Plan::compute(black_box(&joined)));
    }
}
