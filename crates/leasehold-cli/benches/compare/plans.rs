//! How long plans take and what they move, for pools of many sizes.

use std::hint::black_box;

use leasehold::clock;
use leasehold::plan::{Facts, Plan, Planner, Resource};

use super::facts::{facts, held, member};
use super::rows::Rows;

/// How often each is timed.
const TIMES: usize = 3;

/// Times plans up to that many resources.
pub(crate) fn measure(most: usize, rows: &mut Rows) {
    for resources in [1000, 100_000, 1_000_000].into_iter().filter(|resources| *resources <= most) {
        for members in [3, 100, 1000] {
            let name = |what: &str| format!("plan of {resources} on {members}, {what}");
            let free = facts(resources, members);
            let first = timed(&name("all free"), &free, rows);
            let settled = held(&free, &first);
            assert!(Plan::compute(&settled).moves().is_empty(), "a balanced pool is left alone");
            one_change(&name("one change"), &settled, rows);
            let mut joined = settled;
            joined.members.push(member(members));
            let plan = timed(&name("one joins"), &joined, rows);
            assert_eq!(plan.moves().len(), resources / (members + 1), "a join moves the newcomer's share");
            rows.add("plan", &name("one joins"), "moves", plan.moves().len() as f64);
        }
    }
}

/// What a member does about one change: it knows the rest, and is told of a resource that was freed or taken.
fn one_change(case: &str, settled: &Facts, rows: &mut Rows) {
    let mut planner = Planner::new(settled.clone());
    // Whoever is told of a change for the first time takes stock of everything.
    planner.put(settled.resources[0].clone());
    planner.plan();
    for held in settled.resources.iter().take(TIMES) {
        let freed = Resource { holder: None, ..held.clone() };
        let began = clock::now();
        planner.put(freed);
        let plan = black_box(planner.plan());
        rows.add("plan", case, "ms", clock::now().since(began).as_secs_f64() * 1000.0);
        assert_eq!((plan.moves().len(), plan.placements().len()), (0, 1), "one is placed, nothing moves");
        planner.put(held.clone());
        assert!(planner.plan().placements().is_empty(), "it was taken");
    }
}

fn timed(case: &str, facts: &Facts, rows: &mut Rows) -> Plan {
    let mut plan = None;
    for _ in 0..TIMES {
        let began = clock::now();
        plan = Some(black_box(Plan::compute(black_box(facts))));
        rows.add("plan", case, "ms", clock::now().since(began).as_secs_f64() * 1000.0);
    }
    plan.expect("a plan")
}
