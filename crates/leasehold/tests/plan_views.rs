//! Members whose views differ: each acts on what it last read, the store decides, and nothing goes in circles.

#[path = "plan/world.rs"]
mod world;

use std::collections::BTreeMap;

use leasehold::lease::{MemberId, ResourceId};
use leasehold::plan::{Facts, Move, Placement, Plan, accepts};
use proptest::prelude::*;
use world::*;

/// The store's truth, everything it once was, and members that read it late.
struct Late {
    truth: Facts,
    history: Vec<Facts>,
    handoffs: usize,
    /// What each donor really held when it let go.
    donors: BTreeMap<ResourceId, u64>,
}

impl Late {
    fn new(truth: Facts) -> Self {
        Self { history: vec![truth.clone()], truth, handoffs: 0, donors: BTreeMap::new() }
    }

    /// What the truth was `lag` turns ago, except that a member knows what it holds itself.
    fn view(&self, me: &MemberId, lag: usize) -> Facts {
        let mut view = self.history[self.history.len().saturating_sub(lag + 1)].clone();
        for (seen, true_one) in view.resources.iter_mut().zip(&self.truth.resources) {
            if [&seen.holder, &true_one.holder].contains(&&Some(me.clone())) {
                *seen = true_one.clone();
            }
        }
        view
    }

    /// One member reads (late), plans, and does its own part; says whether it did anything.
    fn turn(&mut self, me: &MemberId, lag: usize) -> bool {
        let plan = Plan::compute(&self.view(me, lag));
        let mut acted = false;
        for placement in plan.placements().iter().filter(|placement| placement.to == *me) {
            acted |= self.take(me, placement);
        }
        let mine = |step: &&Move| step.now && step.from == *me;
        for step in plan.moves().iter().filter(mine) {
            self.donors.insert(step.resource.clone(), load(&self.truth, me));
            release(&mut self.truth, step);
            self.handoffs += 1;
            acted = true;
        }
        self.history.push(self.truth.clone());
        acted
    }

    fn take(&mut self, me: &MemberId, placement: &Placement) -> bool {
        let mine = load(&self.truth, me);
        let id = &placement.resource;
        let resource = at(&mut self.truth, id);
        if resource.holder.is_some() {
            return false;
        }
        if let Some(offer) = resource.offer.as_ref().filter(|_| placement.offered) {
            // The offer may be another than the one in the view.
            if offer.to != *me || !accepts(mine, offer.load, resource.weight) {
                return false;
            }
            let (donor, weight) = (self.donors[id], u64::from(resource.weight));
            assert!(mine + weight <= donor - weight, "{id} makes {me} with {mine} heavier than {donor}");
        }
        (resource.holder, resource.offer) = (Some(me.clone()), None);
        true
    }
}

fn unevenness(facts: &Facts) -> u64 {
    loads(facts).iter().map(|load| load * load).sum()
}

fn held_by(members: usize, weights: &[u32], holders: &[usize]) -> Facts {
    let mut facts = pool(members, weights);
    for (resource, holder) in facts.resources.iter_mut().zip(holders) {
        resource.holder = Some(member_id(holder % members));
    }
    facts
}

fn any_held() -> impl Strategy<Value = (Facts, usize)> {
    let resources = prop::collection::vec((1..4_u32, 0..3_usize), 1..30);
    (2..6_usize, resources, prop::bool::ANY, 1..4_usize).prop_map(|(members, resources, weighted, budget)| {
        let weights: Vec<u32> =
            resources.iter().map(|(weight, _)| if weighted { *weight } else { 1 }).collect();
        let holders: Vec<usize> = resources.iter().map(|(_, holder)| *holder).collect();
        let facts = held_by(members, &weights, &holders);
        (Facts { budget: if weighted { usize::MAX } else { budget }, ..facts }, members)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    // proves C28, R065, R085
    #[test]
    fn late_views_cost_time_but_send_nothing_in_circles(
        (facts, members) in any_held(),
        lags in prop::collection::vec(0..12_usize, 400),
    ) {
        let start = unevenness(&facts);
        let mut late = Late::new(facts);
        for (turn, lag) in lags.iter().enumerate() {
            late.turn(&member_id(turn % members), *lag);
        }
        // Views agree from here on.
        let (mut turns, mut quiet) = (0, 0);
        let before = late.handoffs;
        let rest = unevenness(&late.truth) / 2 + 1;
        while quiet < 2 * members {
            quiet = if late.turn(&member_id(turns % members), 0) { 0 } else { quiet + 1 };
            turns += 1;
            prop_assert!(turns < 2_000, "goes in circles: {:?}", loads(&late.truth));
        }
        prop_assert!(late.handoffs - before <= rest as usize);
        prop_assert!(late.truth.resources.iter().all(|resource| resource.holder.is_some()), "left alone");
        prop_assert!(unevenness(&late.truth) <= start);
        prop_assert!(Plan::compute(&late.truth).moves().is_empty());
    }

    // proves C28
    #[test]
    fn views_that_are_always_a_little_late_still_come_to_rest(
        (facts, members) in any_held(),
        lags in prop::collection::vec(0..4_usize, 61),
    ) {
        let mut late = Late::new(facts);
        let (mut turns, mut quiet) = (0, 0);
        while quiet < 8 * members {
            let lag = lags[turns % lags.len()];
            quiet = if late.turn(&member_id(turns % members), lag) { 0 } else { quiet + 1 };
            turns += 1;
            prop_assert!(turns < 4_000, "goes in circles: {:?}", loads(&late.truth));
        }
        prop_assert!(Plan::compute(&late.truth).moves().is_empty());
    }
}
