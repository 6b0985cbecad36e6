//! Pools of any size to plan for.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold::lease::{MemberId, MemberName, ResourceId};
use leasehold::plan::{Facts, Member, Plan, Resource};

/// A member like every other.
pub(crate) fn member(number: usize) -> Member {
    Member {
        id: MemberId::new(format!("host-{number}-1700000000000000000-0badcafe")).expect("a valid id"),
        name: MemberName::new(format!("host-{number}")).expect("a valid name"),
        capacity: None,
        labels: BTreeMap::from([("site".to_owned(), (number % 4).to_string())]),
        ready: true,
        settled: true,
        leaving: false,
        drained: false,
        cordoned: false,
        listing: None,
    }
}

/// A pool that nobody holds anything of.
pub(crate) fn facts(resources: usize, members: usize) -> Facts {
    let requires = Arc::new(BTreeMap::new());
    let listed_by: Arc<[usize]> = Arc::new([]);
    let resource = |number: usize| Resource {
        id: ResourceId::new(format!("endpoint-{number}")).expect("a valid id"),
        weight: 1,
        requires: Arc::clone(&requires),
        declared: true,
        listed_by: Arc::clone(&listed_by),
        paused: false,
        pinned: None,
        holder: None,
        offer: None,
    };
    Facts {
        members: (0..members).map(member).collect(),
        resources: (0..resources).map(resource).collect(),
        budget: usize::MAX,
    }
}

/// The same pool after everybody took what the plan gave.
pub(crate) fn held(facts: &Facts, plan: &Plan) -> Facts {
    let mut held = facts.clone();
    let holders: BTreeMap<&ResourceId, &MemberId> =
        plan.placements().iter().map(|placement| (&placement.resource, &placement.to)).collect();
    for resource in &mut held.resources {
        resource.holder = holders.get(&resource.id).map(|holder| (*holder).clone());
    }
    held
}
