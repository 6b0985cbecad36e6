//! What holds of every plan.

#[path = "plan/world.rs"]
mod world;

use std::collections::BTreeMap;

use leasehold::lease::MemberId;
use leasehold::plan::{Facts, Member, MoveReason, Plan, Resource, UnplaceableReason, accepts};
use proptest::prelude::*;
use world::*;

fn may_hold(member: &Member, resource: &Resource) -> bool {
    resource.requires.iter().all(|(label, value)| member.labels.get(label) == Some(value))
}

fn may_take(member: &Member, resource: &Resource) -> bool {
    let open = member.ready && !member.leaving && !member.drained && !member.cordoned;
    open && may_hold(member, resource)
}

fn has_room(facts: &Facts, member: &Member, weight: u32) -> bool {
    member.capacity.is_none_or(|capacity| load(facts, &member.id) + u64::from(weight) <= capacity)
}

fn spread(loads: &[u64]) -> u64 {
    loads.iter().max().unwrap() - loads.iter().min().unwrap()
}

fn balanced(members: usize, weights: &[u32]) -> Facts {
    let mut facts = pool(members, weights);
    settle(&mut facts);
    facts
}

/// A move of one held resource that the plan should still have made.
fn improving_move(facts: &Facts) -> Option<String> {
    for resource in facts.resources.iter().filter(|resource| !resource.paused) {
        let Some(from) = facts.members.iter().find(|member| Some(&member.id) == resource.holder.as_ref())
        else {
            continue;
        };
        let named = |member: &&Member| Some(&member.name) == resource.pinned.as_ref();
        let pinned = facts.members.iter().filter(named).any(|member| may_take(member, resource));
        if from.cordoned || !from.ready || from.drained || pinned || !may_hold(from, resource) {
            continue;
        }
        for to in facts.members.iter().filter(|to| to.settled && may_take(to, resource)) {
            let evens = accepts(load(facts, &to.id), load(facts, &from.id), resource.weight);
            if to.id != from.id && evens && has_room(facts, to, resource.weight) {
                return Some(format!("{} from {} to {}: {:?}", resource.id, from.id, to.id, loads(facts)));
            }
        }
    }
    None
}

/// Whom a unit of the member's load can reach, passing from one to the next what the next may hold.
fn reach(facts: &Facts, from: &Member) -> Vec<MemberId> {
    let mut reached = vec![from.id.clone()];
    let mut next = 0;
    while let Some(holder) = reached.get(next).cloned() {
        next += 1;
        for resource in facts.resources.iter().filter(|resource| resource.holder.as_ref() == Some(&holder)) {
            for to in facts.members.iter().filter(|to| may_take(to, resource)) {
                if !reached.contains(&to.id) {
                    reached.push(to.id.clone());
                }
            }
        }
    }
    reached
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    // proves C10, C17, C18, R063
    #[test]
    fn equal_resources_are_shared_out_within_one(members in 1..12_usize, resources in 0..120_usize) {
        let mut facts = pool(members, &vec![1; resources]);
        let plan = Plan::compute(&facts);
        prop_assert_eq!(plan.placements().len(), resources);
        place(&mut facts, &plan);
        prop_assert!(spread(&loads(&facts)) <= 1, "{:?}", loads(&facts));
        prop_assert_eq!(settle(&mut facts), 0);
    }

    // proves C17
    #[test]
    fn whoever_holds_what_a_pool_ends_within_one(
        members in 1..10_usize,
        holders in prop::collection::vec(prop::option::of(0..10_usize), 0..100),
    ) {
        let mut facts = pool(members, &vec![1; holders.len()]);
        for (resource, holder) in facts.resources.iter_mut().zip(&holders) {
            resource.holder = holder.map(|number| member_id(number % members));
        }
        settle(&mut facts);
        prop_assert!(spread(&loads(&facts)) <= 1, "{:?}", loads(&facts));
    }

    // proves C17, for weights
    #[test]
    fn unequal_resources_end_where_no_move_evens_out(
        members in 1..8_usize,
        weights in prop::collection::vec(1..20_u32, 0..60),
    ) {
        let facts = balanced(members, &weights);
        prop_assert_eq!(improving_move(&facts), None);
    }

    // proves C18, R064
    #[test]
    fn a_join_moves_exactly_the_newcomers_share(members in 1..12_usize, resources in 0..150_usize) {
        let mut facts = balanced(members, &vec![1; resources]);
        facts.members.push(member(members));
        let plan = Plan::compute(&facts);
        prop_assert_eq!(plan.moves().len(), resources / (members + 1));
        for step in plan.moves() {
            prop_assert_eq!(&step.to, &member_id(members));
            prop_assert!(step.now && step.reason == MoveReason::Rebalance);
        }
        prop_assert_eq!(settle(&mut facts), resources / (members + 1));
        prop_assert!(spread(&loads(&facts)) <= 1);
    }

    // proves C18
    #[test]
    fn a_leave_moves_exactly_what_the_leaver_held(
        members in 2..12_usize, resources in 0..150_usize, drained in prop::bool::ANY,
    ) {
        let mut facts = balanced(members, &vec![1; resources]);
        if drained {
            facts.members[0].drained = true;
        } else {
            facts.members[0].leaving = true;
        }
        let held = load(&facts, &member_id(0)) as usize;
        let plan = Plan::compute(&facts);
        prop_assert_eq!(plan.moves().len(), held);
        let gives = |step: &leasehold::plan::Move| step.from == member_id(0) && step.load == u64::MAX;
        prop_assert!(plan.moves().iter().all(gives));
        prop_assert_eq!(settle(&mut facts), held);
        prop_assert!(spread(&loads(&facts)[1..]) <= 1);
    }

    // proves C18
    #[test]
    fn a_death_moves_nothing_that_others_hold(members in 2..12_usize, resources in 0..150_usize) {
        let mut facts = balanced(members, &vec![1; resources]);
        facts.members.remove(0);
        for resource in &mut facts.resources {
            resource.holder.take_if(|holder| *holder == member_id(0));
        }
        prop_assert_eq!(settle(&mut facts), 0);
        prop_assert!(spread(&loads(&facts)) <= 1);
    }

    #[test]
    fn the_order_of_the_facts_means_nothing(
        (facts, shuffled) in any_pool().prop_flat_map(|facts| {
            let members = Just(facts.members.clone()).prop_shuffle();
            let resources = Just(facts.resources.clone()).prop_shuffle();
            let shuffled = (members, resources)
                .prop_map(|(members, resources)| Facts { members, resources, budget: usize::MAX });
            (Just(facts), shuffled)
        }),
    ) {
        prop_assert_eq!(Plan::compute(&facts), Plan::compute(&shuffled));
    }

    // proves C10
    #[test]
    fn no_plan_fills_anybody_above_its_capacity(facts in any_pool()) {
        let before: BTreeMap<MemberId, u64> =
            facts.members.iter().map(|member| (member.id.clone(), load(&facts, &member.id))).collect();
        let mut after = facts;
        settle(&mut after);
        for member in &after.members {
            let load = load(&after, &member.id);
            let most = member.capacity.unwrap_or(u64::MAX).max(before[&member.id]);
            prop_assert!(load <= most, "{} has {load} of {:?}", member.id, member.capacity);
        }
    }

    #[test]
    fn free_work_is_taken_wherever_somebody_has_room(facts in any_pool()) {
        let plan = Plan::compute(&facts);
        let mut after = facts.clone();
        place(&mut after, &plan);
        for left in plan.unplaceable() {
            let resource = at(&mut after, &left.resource).clone();
            let mut takers = after.members.iter().filter(|member| may_take(member, &resource)).peekable();
            let any = takers.peek().is_some();
            prop_assert!(!takers.any(|member| has_room(&after, member, resource.weight)));
            let expected = if any { UnplaceableReason::NoCapacity } else { UnplaceableReason::NobodyEligible };
            prop_assert_eq!(left.reason, expected);
        }
        let free = facts.resources.iter().filter(|resource| resource.holder.is_none()).count();
        prop_assert_eq!(plan.placements().len() + plan.unplaceable().len(), free);
    }

    // proves C28
    #[test]
    fn every_pool_comes_to_rest_with_no_move_left_that_evens_out(facts in any_pool()) {
        let mut after = facts;
        settle(&mut after);
        prop_assert_eq!(improving_move(&after), None);
        prop_assert!(Plan::compute(&after).moves().iter().all(|step| !step.now));
    }

    // proves C17, where members may not hold everything
    #[test]
    fn no_chain_of_handoffs_would_even_out_more(
        labels in prop::collection::vec(0..8_u8, 2..7),
        needs in prop::collection::vec((0..4_usize, prop::option::of(0..7_usize)), 0..50),
    ) {
        let names = ["gpu", "site", "arm"];
        let mut facts = pool(labels.len(), &vec![1; needs.len()]);
        for (member, labels) in facts.members.iter_mut().zip(&labels) {
            let has = names.iter().enumerate().filter(|(bit, _)| labels & (1 << bit) != 0);
            member.labels = has.map(|(_, name)| ((*name).to_owned(), "yes".to_owned())).collect();
        }
        for (resource, (need, holder)) in facts.resources.iter_mut().zip(needs) {
            if let Some(name) = names.get(need) {
                resource.requires = requires(name);
            }
            resource.holder = holder.filter(|number| *number < labels.len()).map(member_id);
        }
        settle(&mut facts);
        for from in &facts.members {
            for to in reach(&facts, from) {
                prop_assert!(load(&facts, &to) + 2 > load(&facts, &from.id), "{:?}", loads(&facts));
            }
        }
    }

    // proves C28
    #[test]
    fn every_move_is_one_that_its_taker_accepts(facts in any_pool()) {
        let mut facts = facts;
        for _ in 0..200 {
            let plan = Plan::compute(&facts);
            let Some(step) = plan.moves().iter().find(|step| step.now).cloned() else { break };
            let resource = at(&mut facts, &step.resource).clone();
            prop_assert!(accepts(load(&facts, &step.to), step.load, resource.weight));
            let to = facts.members.iter().find(|member| member.id == step.to).unwrap();
            prop_assert!(may_take(to, &resource) && has_room(&facts, to, resource.weight));
            release(&mut facts, &step);
            let next = Plan::compute(&facts);
            let taken = next.placements().iter().find(|placement| placement.resource == step.resource);
            let taken = taken.map(|placement| placement.to.clone());
            // A member that it is pinned to and that has room again comes first.
            let pinned = facts.members.iter().find(|member| Some(&member.name) == resource.pinned.as_ref());
            let expected = pinned.map(|member| member.id.clone()).filter(|id| Some(id) == taken.as_ref());
            prop_assert_eq!(&taken, &expected.or(Some(step.to)));
            let resource = at(&mut facts, &step.resource);
            (resource.holder, resource.offer) = (taken, None);
        }
    }

    #[test]
    fn pins_win(members in 2..8_usize, resources in 1..40_usize, pinned in 0..40_usize, to in 0..8_usize) {
        let mut facts = balanced(members, &vec![1; resources]);
        let (pinned, to) = (pinned % resources, to % members);
        facts.resources[pinned].pinned = Some(name(to));
        settle(&mut facts);
        prop_assert_eq!(facts.resources[pinned].holder.clone(), Some(member_id(to)));
        prop_assert!(spread(&loads(&facts)) <= 1);
    }

    #[test]
    fn a_budget_bounds_the_handoffs_in_flight_and_still_gets_there(
        facts in any_pool(), budget in 1..4_usize,
    ) {
        let mut facts = Facts { budget, ..facts };
        let plan = Plan::compute(&facts);
        prop_assert!(plan.moves().iter().filter(|step| step.now).count() <= budget);
        settle(&mut facts);
        prop_assert_eq!(improving_move(&facts), None);
    }
}
