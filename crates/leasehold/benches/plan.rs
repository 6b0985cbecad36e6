//! How long a plan takes, beside what hashing every pair of member and resource takes on the same machine.
//!
//! Run with `cargo bench -p leasehold --bench plan`.

#[path = "plan/facts.rs"]
mod facts;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::plan::rendezvous::{hash_id, score};
use leasehold::plan::{Facts, Plan, Planner, Resource};

use self::facts::{facts, held, member};

fn main() {
    for (resources, members) in [(10_000, 10), (1_000_000, 100)] {
        println!("{resources} resources, {members} members");
        let ceiling = hashing(resources, members);
        println!("  {:<28} {:>9.2} ms", "hashing all pairs", millis(ceiling));
        let free = facts(resources, members);
        let first = time("all free", &free, ceiling);

        let held = held(&free, &first);
        let settled = time("all held, nothing to do", &held, ceiling);
        assert!(settled.moves().is_empty(), "a balanced pool must be left alone");

        one_change(&held, ceiling);

        let mut joined = held.clone();
        joined.members.push(member(members));
        let plan = time("one joins", &joined, ceiling);
        assert_eq!(plan.moves().len(), resources / (members + 1), "a join moves the newcomer's share");

        let mut leaving = held.clone();
        leaving.members[0].leaving = true;
        time("one leaves", &leaving, ceiling);

        let mut alone = held.clone();
        let only = alone.members[0].id.clone();
        alone.resources.iter_mut().for_each(|resource| resource.holder = Some(only.clone()));
        time("one holds all, what if", &alone, ceiling);
        alone.budget = 32;
        time("one holds all, 32 handoffs", &alone, ceiling);

        time("four sites, all free", &sites(&free), ceiling);
        time("four sites, one holds all", &sites(&alone), ceiling);
        time("weights 1 to 9, all free", &weighted(&free), ceiling);
    }
}

fn time(what: &str, facts: &Facts, ceiling: Duration) -> Plan {
    let start = clock::now();
    let plan = black_box(Plan::compute(black_box(facts)));
    report(what, &plan, clock::now().since(start), ceiling);
    plan
}

fn report(what: &str, plan: &Plan, took: Duration, ceiling: Duration) {
    let ratio = took.as_secs_f64() / ceiling.as_secs_f64();
    let (moves, placements) = (plan.moves().len(), plan.placements().len());
    println!(
        "  {what:<28} {:>9.2} ms  {ratio:>5.1} x hashing, {moves} moves, {placements} placed",
        millis(took)
    );
}

/// Plans of a member that is told of single changes: the first takes stock of everything.
fn one_change(held: &Facts, ceiling: Duration) {
    let mut planner = Planner::new(held.clone());
    planner.plan();
    for (what, number) in [("one freed, the first time", 0), ("one freed", 1), ("another freed", 2)] {
        let resource = Resource { holder: None, ..held.resources[number].clone() };
        let start = clock::now();
        planner.put(resource);
        let plan = black_box(planner.plan());
        report(what, &plan, clock::now().since(start), ceiling);
        assert_eq!((plan.moves().len(), plan.placements().len()), (0, 1), "it is placed, nothing moves");
        planner.put(held.resources[number].clone());
    }
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1000.0
}

/// The ceiling: nothing that looks at every pair can be faster.
fn hashing(resources: usize, members: usize) -> Duration {
    let facts = facts(resources, members);
    let start = clock::now();
    let members: Vec<u64> = facts.members.iter().map(|member| hash_id(member.id.as_str())).collect();
    let best = |resource: &Resource| {
        let hash = hash_id(resource.id.as_str());
        members.iter().map(|member| score(*member, hash)).max()
    };
    black_box(facts.resources.iter().map(best).fold(0, |sum, best| sum ^ best.unwrap_or(0)));
    clock::now().since(start)
}

fn sites(facts: &Facts) -> Facts {
    let mut facts = facts.clone();
    let sites: Vec<_> =
        (0..4).map(|site| Arc::new(BTreeMap::from([("site".to_owned(), site.to_string())]))).collect();
    for (number, resource) in facts.resources.iter_mut().enumerate() {
        // Every fifth may go anywhere.
        if number % 5 < 4 {
            resource.requires = Arc::clone(&sites[number % 5]);
        }
    }
    facts
}

fn weighted(facts: &Facts) -> Facts {
    let mut facts = facts.clone();
    for (number, resource) in (0_u32..).zip(&mut facts.resources) {
        resource.weight = 1 + number % 9;
    }
    facts
}
