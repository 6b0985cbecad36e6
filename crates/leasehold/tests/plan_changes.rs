//! A planner that is told what changed says what a plan from nothing says, whatever changes and in whatever order.

#[path = "plan/world.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};

use leasehold::lease::{MemberId, ResourceId};
use leasehold::plan::{Facts, Plan, Planner, Resource};
use leasehold::store::Offer;
use proptest::prelude::*;
use world::*;

/// After so many rounds most pools of this size are at rest.
const ROUNDS: usize = 8;

/// Something that happens to a pool. Numbers are taken modulo what there is.
#[derive(Debug, Clone)]
enum Change {
    /// Somebody takes it, perhaps one who is no member.
    Hold(usize, usize),
    /// It is let go, perhaps for somebody who is named.
    Free(usize, Option<(usize, u64)>),
    Weigh(usize, u32),
    Require(usize, Option<&'static str>),
    Pin(usize, Option<usize>),
    Pause(usize, bool),
    /// It is declared, or only listed.
    Declare(usize, bool, Vec<usize>),
    Add(usize, u32),
    Remove(usize),
    /// Something about a member.
    Flag(usize, usize),
    Capacity(usize, Option<u64>),
    Join(usize),
    Die(usize),
    /// Everybody takes what the plan gives it, or lets go of what the plan moves away.
    Take,
    HandOver,
    /// Both, many times.
    Settle,
}

fn change() -> impl Strategy<Value = Change> {
    let label = prop::option::of(prop::sample::select(vec!["gpu", "site"]));
    let offer = prop::option::of((0..8_usize, prop::option::weighted(0.7, 0..12_u64)));
    let offer = offer.prop_map(|offer| offer.map(|(to, load)| (to, load.unwrap_or(u64::MAX))));
    prop_oneof![
        6 => (0..60_usize, 0..9_usize).prop_map(|(at, to)| Change::Hold(at, to)),
        6 => (0..60_usize, offer).prop_map(|(at, offer)| Change::Free(at, offer)),
        2 => (0..60_usize, 0..5_u32).prop_map(|(at, weight)| Change::Weigh(at, weight)),
        2 => (0..60_usize, label).prop_map(|(at, label)| Change::Require(at, label)),
        2 => (0..60_usize, prop::option::of(0..8_usize)).prop_map(|(at, to)| Change::Pin(at, to)),
        2 => (0..60_usize, prop::bool::ANY).prop_map(|(at, paused)| Change::Pause(at, paused)),
        1 => (0..60_usize, prop::bool::ANY, prop::collection::vec(0..3_usize, 0..3))
            .prop_map(|(at, declared, by)| Change::Declare(at, declared, by)),
        4 => (0..1000_usize, 0..4_u32).prop_map(|(number, weight)| Change::Add(number, weight)),
        4 => (0..60_usize).prop_map(Change::Remove),
        2 => (0..8_usize, 0..7_usize).prop_map(|(at, flag)| Change::Flag(at, flag)),
        1 => (0..8_usize, prop::option::of(0..12_u64)).prop_map(|(at, most)| Change::Capacity(at, most)),
        1 => (0..8_usize).prop_map(Change::Join),
        1 => (0..8_usize).prop_map(Change::Die),
        4 => Just(Change::Take),
        2 => Just(Change::HandOver),
        3 => Just(Change::Settle),
    ]
}

impl Change {
    fn happen(&self, facts: &mut Facts) {
        match self {
            Self::Hold(at, to) => on(facts, *at, |resource| {
                (resource.holder, resource.offer) = (Some(member_id(*to)), None);
            }),
            Self::Free(at, offer) => on(facts, *at, |resource| {
                let offer = offer.map(|(to, load)| Offer { to: member_id(to), load });
                (resource.holder, resource.offer) = (None, offer);
            }),
            Self::Weigh(at, weight) => on(facts, *at, |resource| resource.weight = *weight),
            Self::Require(at, label) => on(facts, *at, |resource| {
                resource.requires = label.map(requires).unwrap_or_default();
            }),
            Self::Pin(at, to) => on(facts, *at, |resource| resource.pinned = to.map(name)),
            Self::Pause(at, paused) => on(facts, *at, |resource| resource.paused = *paused),
            Self::Declare(at, declared, by) => on(facts, *at, |resource| {
                (resource.declared, resource.listed_by) = (*declared, by.clone().into());
            }),
            Self::Add(number, weight) => {
                if facts.resources.iter().all(|other| other.id != resource_id(*number)) {
                    facts.resources.push(resource(*number, *weight));
                }
            }
            Self::Remove(at) if !facts.resources.is_empty() => {
                facts.resources.remove(at % facts.resources.len());
            }
            Self::Flag(at, flag) => on_member(facts, *at, |member| match flag {
                0 => member.ready ^= true,
                1 => member.settled ^= true,
                2 => member.leaving ^= true,
                3 => member.drained ^= true,
                4 => member.cordoned ^= true,
                5 => member.listing = Some(member.listing.map_or(0, |listing| (listing + 1) % 3)),
                _ => member.labels = BTreeMap::from([("gpu".to_owned(), "yes".to_owned())]),
            }),
            Self::Capacity(at, most) => on_member(facts, *at, |member| member.capacity = *most),
            Self::Join(number) => {
                if facts.members.iter().all(|other| other.id != member_id(*number)) {
                    facts.members.push(member(*number));
                }
            }
            Self::Die(at) if !facts.members.is_empty() => {
                let gone = facts.members.remove(at % facts.members.len());
                let holds = |resource: &&mut Resource| resource.holder.as_ref() == Some(&gone.id);
                facts.resources.iter_mut().filter(holds).for_each(|resource| resource.holder = None);
            }
            Self::Take => place(facts, &Plan::compute(facts)),
            Self::HandOver => {
                let plan = Plan::compute(facts);
                plan.moves().iter().filter(|step| step.now).for_each(|step| release(facts, step));
                plan.drops().iter().for_each(|step| at(facts, &step.resource).holder = None);
            }
            Self::Settle => {
                for _ in 0..ROUNDS {
                    Self::HandOver.happen(facts);
                    Self::Take.happen(facts);
                }
            }
            Self::Remove(_) | Self::Die(_) => {}
        }
    }
}

fn on(facts: &mut Facts, at: usize, change: impl FnOnce(&mut Resource)) {
    let count = facts.resources.len().max(1);
    if let Some(resource) = facts.resources.get_mut(at % count) {
        change(resource);
    }
}

fn on_member(facts: &mut Facts, at: usize, change: impl FnOnce(&mut leasehold::plan::Member)) {
    let count = facts.members.len().max(1);
    if let Some(member) = facts.members.get_mut(at % count) {
        change(member);
    }
}

/// Tells the planner what is other than before, and nothing else.
fn tell(planner: &mut Planner, before: &Facts, now: &Facts) {
    let old: BTreeMap<&ResourceId, &Resource> = before.resources.iter().map(|one| (&one.id, one)).collect();
    for resource in &now.resources {
        if old.get(&resource.id) != Some(&resource) {
            planner.put(resource.clone());
        }
    }
    let left: BTreeSet<&ResourceId> = now.resources.iter().map(|one| &one.id).collect();
    old.keys().filter(|id| !left.contains(*id)).for_each(|id| planner.remove(id));
    planner.set_members(now.members.clone());
}

fn in_order(facts: &Facts) -> Facts {
    let mut facts = facts.clone();
    facts.members.sort_by_key(|member| member.id.clone());
    facts.resources.sort_by_key(|resource| resource.id.clone());
    facts
}

fn free(facts: &Facts) -> BTreeSet<&ResourceId> {
    facts.resources.iter().filter(|resource| resource.holder.is_none()).map(|resource| &resource.id).collect()
}

/// What holds after every change.
fn agrees(planner: &mut Planner, facts: &Facts) -> Result<(), TestCaseError> {
    prop_assert_eq!(planner.plan(), Plan::compute(facts));
    prop_assert_eq!(in_order(planner.facts()), in_order(facts));
    let found: Vec<&ResourceId> = planner.free().into_iter().map(|resource| &resource.id).collect();
    prop_assert_eq!((found.len(), found.into_iter().collect()), (free(facts).len(), free(facts)));
    Ok(())
}

fn budgets() -> impl Strategy<Value = usize> {
    prop_oneof![Just(usize::MAX), 0..4_usize, Just(32)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn what_is_planned_from_changes_is_what_is_planned_from_nothing(
        facts in any_pool(),
        budget in budgets(),
        settled in prop::bool::ANY,
        changes in prop::collection::vec(change(), 1..60),
    ) {
        let mut facts = Facts { budget, ..facts };
        if settled {
            Change::Settle.happen(&mut facts);
        }
        let mut planner = Planner::new(facts.clone());
        agrees(&mut planner, &facts)?;
        for change in changes {
            let before = facts.clone();
            change.happen(&mut facts);
            tell(&mut planner, &before, &facts);
            agrees(&mut planner, &facts)?;
        }
    }

    // proves C18, for a member that has seen the pool change
    #[test]
    fn a_join_after_many_changes_moves_exactly_the_newcomers_share(
        members in 1..8_usize,
        resources in 1..80_usize,
        freed in prop::collection::vec(0..80_usize, 0..20),
    ) {
        let mut facts = pool(members, &vec![1; resources]);
        settle(&mut facts);
        let mut planner = Planner::new(facts.clone());
        for at in freed {
            let before = facts.clone();
            Change::Free(at, None).happen(&mut facts);
            tell(&mut planner, &before, &facts);
            let (freed, plan) = (facts.clone(), planner.plan());
            prop_assert!(plan.moves().is_empty());
            place(&mut facts, &plan);
            tell(&mut planner, &freed, &facts);
        }
        let before = facts.clone();
        facts.members.push(member(members));
        tell(&mut planner, &before, &facts);
        let plan = planner.plan();
        let newcomer: MemberId = member_id(members);
        prop_assert_eq!(plan.moves().len(), resources / (members + 1));
        prop_assert!(plan.moves().iter().all(|step| step.to == newcomer && step.now));
    }
}
