//! The facts laid out for planning: members by id, resources in the order in which they are placed, and who
//! would have what.
//!
//! Nothing here depends on the order of the facts: members are sorted by id, resources by weight, hash and id.
//!
//! What simply stays with its holder need not be laid out: all that the steps ask of it before they move it is how much of
//! it there is, and that is counted ([`Kept`]). A step that would move it says so instead ([`Board::missed`]).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::eligible::{Class, Fit, classify};
use super::facts::{Facts, Member, Resource};
use super::kept::{Kept, NOTHING};
use super::outcome::{DropReason, MoveReason, UnplaceableReason};
use super::rendezvous::{hash_id, score};

/// Stands for no member.
pub(super) const NOBODY: u32 = u32::MAX;

/// How things stand with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Free; whoever it is placed with may still be changed.
    Free,
    /// Free, and the successor its last holder named will take it.
    Offered,
    /// Its holder may keep it; it moves only to even out the load.
    Kept,
    /// Its holder should not have it.
    Evicted(MoveReason),
    /// Its holder should not have it, but nobody else can.
    Stuck,
    /// Its holder must let go.
    Dropped(DropReason),
    /// Held by somebody who is no member: not ours to move.
    Foreign,
    /// Free, and nobody can take it.
    Alone(UnplaceableReason),
}

impl Standing {
    /// How things stand with a resource before anything is done about it.
    pub(super) fn of(resource: &Resource, holder: u32, class: &Class) -> Self {
        if holder == NOBODY {
            return match (&resource.holder, resource.paused) {
                (Some(_), _) => Self::Foreign,
                (None, true) => Self::Alone(UnplaceableReason::Paused),
                (None, false) => Self::Free,
            };
        }
        match class.fits[holder as usize] {
            _ if resource.paused => Self::Dropped(DropReason::Paused),
            Fit::Keep => Self::Kept,
            Fit::Evict(reason) => Self::Evicted(reason),
            Fit::Unlisted => Self::Evicted(MoveReason::Ineligible),
        }
    }
}

/// One resource.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) resource: &'a Resource,
    pub(super) class: u32,
    pub(super) hash: u64,
    pub(super) weight: u64,
    /// Who holds it.
    pub(super) holder: u32,
    /// Who would have it.
    pub(super) at: u32,
    pub(super) standing: Standing,
}

/// Everything the steps of the plan work on.
pub(super) struct Board<'a> {
    pub(super) members: Vec<&'a Member>,
    pub(super) hashes: Vec<u64>,
    pub(super) capacity: Vec<u64>,
    pub(super) classes: Arc<[Class]>,
    pub(super) items: Vec<Item<'a>>,
    /// What is not among the items because it stays with its holder.
    pub(super) kept: &'a Kept,
    /// Whether a step would move some of that, so that everything has to be laid out.
    pub(super) missed: bool,
    /// What each member holds at present.
    pub(super) held: Vec<u64>,
    /// What each member would have.
    pub(super) load: Vec<u64>,
    /// What each member has in its hands, and what it would get besides, free or evicted.
    pub(super) occupied: Vec<u64>,
}

impl<'a> Board<'a> {
    /// Lays out the facts and decides for each held resource whether its holder may keep it.
    pub(super) fn lay_out(facts: &'a Facts) -> Self {
        let mut members: Vec<&Member> = facts.members.iter().collect();
        members.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let (classes, class_of) = classify(&members, &facts.resources);
        let all = 0..facts.resources.len() as u32;
        let items = arrange(&facts.resources, all, &members, &class_of);
        Self::with(members, classes.into(), items, &NOTHING)
    }

    /// Lays out some of the resources of facts whose members are in order; the others are kept, or foreign.
    pub(super) fn lay_out_some(
        facts: &'a Facts,
        some: impl Iterator<Item = u32>,
        classes: Arc<[Class]>,
        class_of: &[u32],
        kept: &'a Kept,
    ) -> Self {
        let members: Vec<&Member> = facts.members.iter().collect();
        let items = arrange(&facts.resources, some, &members, class_of);
        Self::with(members, classes, items, kept)
    }

    fn with(members: Vec<&'a Member>, classes: Arc<[Class]>, items: Vec<Item<'a>>, kept: &'a Kept) -> Self {
        let load = kept.loads(members.len());
        let mut board = Self {
            hashes: members.iter().map(|member| hash_id(member.id.as_str())).collect(),
            capacity: members.iter().map(|member| member.capacity.unwrap_or(u64::MAX)).collect(),
            held: load.clone(),
            occupied: load.clone(),
            load,
            items,
            members,
            classes,
            kept,
            missed: false,
        };
        board.judge();
        board
    }

    fn judge(&mut self) {
        for item in &mut self.items {
            item.standing = Standing::of(item.resource, item.holder, &self.classes[item.class as usize]);
            if item.holder == NOBODY {
                continue;
            }
            let holder = item.holder as usize;
            self.held[holder] += item.weight;
            self.occupied[holder] += item.weight;
            // What should go counts where it is until somebody else is found for it.
            if !matches!(item.standing, Standing::Dropped(_)) {
                item.at = item.holder;
                self.load[holder] += item.weight;
            }
        }
    }

    pub(super) fn class(&self, item: &Item<'_>) -> &Class {
        &self.classes[item.class as usize]
    }

    /// How much the member is preferred for the resource.
    pub(super) fn score(&self, member: u32, item: &Item<'_>) -> u64 {
        score(self.hashes[member as usize], item.hash)
    }

    /// Whether the member has room for it already.
    pub(super) fn has_room(&self, member: u32, weight: u64) -> bool {
        weight <= self.room(member)
    }

    /// How much the member can take while it still has in its hands what should go.
    pub(super) fn room(&self, member: u32) -> u64 {
        let at = member as usize;
        self.capacity[at].saturating_sub(self.load[at].max(self.occupied[at]))
    }

    /// How much the member can take once it has given away what should go.
    pub(super) fn room_later(&self, member: u32) -> u64 {
        self.capacity[member as usize].saturating_sub(self.load[member as usize])
    }

    /// Gives the resource to a member, and takes it from whomever it was planned for.
    pub(super) fn assign(&mut self, at: usize, to: u32) {
        let Item { holder, weight, standing, at: before, .. } = self.items[at];
        for (member, gains) in [(before, false), (to, true)] {
            if member == NOBODY {
                continue;
            }
            let change = |sum: &mut u64| *sum = if gains { *sum + weight } else { *sum - weight };
            change(&mut self.load[member as usize]);
            // What its holder has in its hands is counted already.
            if standing != Standing::Kept && member != holder {
                change(&mut self.occupied[member as usize]);
            }
        }
        self.items[at].at = to;
    }
}

/// The resources, heaviest first, then in the order of their hashes: sorting numbers is much cheaper than
/// sorting ids, which decide only where hashes collide.
fn arrange<'a>(
    resources: &'a [Resource],
    some: impl Iterator<Item = u32>,
    members: &[&Member],
    class_of: &[u32],
) -> Vec<Item<'a>> {
    let places: HashMap<&str, u32> = members.iter().map(|member| member.id.as_str()).zip(0..).collect();
    let resource = |at: u32| &resources[at as usize];
    let mut order: Vec<(Reverse<u32>, u64, u32)> =
        some.map(|at| (Reverse(resource(at).weight.max(1)), hash_id(resource(at).id.as_str()), at)).collect();
    order.sort_unstable_by(|one, two| {
        (one.0, one.1).cmp(&(two.0, two.1)).then_with(|| resource(one.2).id.cmp(&resource(two.2).id))
    });
    let item = |(_, hash, at): (Reverse<u32>, u64, u32)| {
        let resource = resource(at);
        let holder = resource.holder.as_ref().and_then(|id| places.get(id.as_str()));
        Item {
            resource,
            class: class_of[at as usize],
            hash,
            weight: resource.load(),
            holder: holder.copied().unwrap_or(NOBODY),
            at: NOBODY,
            standing: Standing::Free,
        }
    };
    order.into_iter().map(item).collect()
}
