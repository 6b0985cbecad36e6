//! A small pool to plan for.

#![allow(dead_code, reason = "each test file uses its part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold::lease::{MemberId, MemberName, ResourceId};
use leasehold::plan::{Facts, Member, Move, Plan, Resource};
use leasehold::store::Offer;
use proptest::prelude::*;

pub(crate) fn member_id(number: usize) -> MemberId {
    MemberId::new(format!("host-{number}-17-cafe")).unwrap()
}

pub(crate) fn name(number: usize) -> MemberName {
    MemberName::new(format!("host-{number}")).unwrap()
}

pub(crate) fn resource_id(number: usize) -> ResourceId {
    ResourceId::new(format!("endpoint-{number}")).unwrap()
}

pub(crate) fn member(number: usize) -> Member {
    Member {
        id: member_id(number),
        name: name(number),
        capacity: None,
        labels: BTreeMap::new(),
        ready: true,
        settled: true,
        leaving: false,
        drained: false,
        cordoned: false,
        listing: None,
    }
}

pub(crate) fn resource(number: usize, weight: u32) -> Resource {
    Resource {
        id: resource_id(number),
        weight,
        requires: Arc::new(BTreeMap::new()),
        declared: true,
        listed_by: Arc::new([]),
        paused: false,
        pinned: None,
        holder: None,
        offer: None,
    }
}

/// A pool in which everybody may hold everything, and nobody holds anything.
pub(crate) fn pool(members: usize, weights: &[u32]) -> Facts {
    Facts {
        members: (0..members).map(member).collect(),
        resources: weights.iter().enumerate().map(|(number, weight)| resource(number, *weight)).collect(),
        budget: usize::MAX,
    }
}

pub(crate) fn requires(label: &str) -> Arc<BTreeMap<String, String>> {
    Arc::new(BTreeMap::from([(label.to_owned(), "yes".to_owned())]))
}

pub(crate) fn at<'a>(facts: &'a mut Facts, resource: &ResourceId) -> &'a mut Resource {
    facts.resources.iter_mut().find(|other| other.id == *resource).unwrap()
}

pub(crate) fn load(facts: &Facts, member: &MemberId) -> u64 {
    let held = facts.resources.iter().filter(|resource| resource.holder.as_ref() == Some(member));
    held.map(|resource| u64::from(resource.weight)).sum()
}

pub(crate) fn loads(facts: &Facts) -> Vec<u64> {
    facts.members.iter().map(|member| load(facts, &member.id)).collect()
}

/// Gives every free resource to whom the plan names.
pub(crate) fn place(facts: &mut Facts, plan: &Plan) {
    let holders: BTreeMap<&ResourceId, &MemberId> =
        plan.placements().iter().map(|placement| (&placement.resource, &placement.to)).collect();
    for resource in &mut facts.resources {
        if let Some(holder) = holders.get(&resource.id) {
            (resource.holder, resource.offer) = (Some((*holder).clone()), None);
        }
    }
}

/// A donor's part of a move.
pub(crate) fn release(facts: &mut Facts, step: &Move) {
    let resource = at(facts, &step.resource);
    assert_eq!(resource.holder.as_ref(), Some(&step.from), "only a holder can let go");
    (resource.holder, resource.offer) = (None, Some(Offer { to: step.to.clone(), load: step.load }));
}

/// Plans and acts until there is nothing left to do; says how many handoffs that took.
pub(crate) fn settle(facts: &mut Facts) -> usize {
    let mut handoffs = 0;
    for _ in 0..2_000 {
        let plan = Plan::compute(facts);
        let starts: Vec<Move> = plan.moves().iter().filter(|step| step.now).cloned().collect();
        assert!(
            plan.moves().is_empty() || !starts.is_empty() || !plan.placements().is_empty(),
            "waits for ever with {:?}: {:?}",
            loads(facts),
            plan.moves()
        );
        if starts.is_empty() && plan.placements().is_empty() && plan.drops().is_empty() {
            return handoffs;
        }
        place(facts, &plan);
        for drop in plan.drops() {
            at(facts, &drop.resource).holder = None;
        }
        starts.iter().for_each(|step| release(facts, step));
        handoffs += starts.len();
    }
    panic!("the plan never comes to rest: {:?}", loads(facts));
}

/// Pools with labels, capacities, pins, marks and weights, partly held.
pub(crate) fn any_pool() -> impl Strategy<Value = Facts> {
    let flags = prop::array::uniform8(prop::bool::weighted(0.15));
    let members = prop::collection::vec((flags, 0..4_u8, prop::option::weighted(0.3, 0..12_u64)), 1..7);
    let resources = prop::collection::vec(
        (1..4_u32, 0..5_u8, prop::option::weighted(0.7, 0..8_usize), prop::option::weighted(0.1, 0..8_usize)),
        0..40,
    );
    (members, resources, prop::bool::ANY).prop_map(|(members, resources, weighted)| {
        let mut facts = pool(members.len(), &vec![1; resources.len()]);
        for (member, (flags, labels, capacity)) in facts.members.iter_mut().zip(members) {
            member.capacity = capacity;
            member.ready = !flags[0];
            member.drained = flags[1];
            member.cordoned = flags[2];
            member.settled = !flags[3];
            for (bit, label) in ["gpu", "site"].iter().enumerate() {
                if labels & (1 << bit) != 0 {
                    member.labels.insert((*label).to_owned(), "yes".to_owned());
                }
            }
        }
        let count = facts.members.len();
        for (resource, (weight, needs, holder, pin)) in facts.resources.iter_mut().zip(resources) {
            resource.weight = if weighted { weight } else { 1 };
            match needs {
                0 => resource.requires = requires("gpu"),
                1 => resource.requires = requires("site"),
                _ => {}
            }
            resource.holder = holder.filter(|number| *number < count).map(member_id);
            resource.pinned = pin.map(name);
        }
        facts
    })
}
