//! What should move, computed from members, resources and leases by a pure function.
//!
//! No clock, no randomness, no I/O, and nothing depends on the order of the facts: every member that reads the
//! same facts computes the same plan and does its own part of it. What must hold:
//!
//! - A holder keeps what it has unless it may not hold it or somebody has too little. A join moves exactly the
//!   newcomer's share, a leave exactly what the leaver held.
//! - Loads end within one unit of the ideal wherever eligibility, capacity and pins allow it.
//! - Every move makes things more even, so members with different views never send work in circles.
//! - Work is never left alone: what should move stays until somebody can take it.
//!
//! Whoever plans again and again keeps a [`Planner`], which is told what changed and comes to the same plan.
//!
//! The steps follow the data: lay out the facts ([`Facts`]), let holders keep what they may, place what is free,
//! find somebody for what must go, make room, even out, and put the moves into order.

mod balance;
mod board;
mod eligible;
mod explain;
mod facts;
mod kept;
mod outcome;
mod place;
mod planner;
mod quota;
mod rank;
pub mod rendezvous;
mod room;
mod sequence;
mod shorten;
mod stock;

use std::collections::BTreeMap;

pub use eligible::{Obstacle, may_take};
pub use explain::{Candidate, Explanation, Outlook, Whereabouts, explain};
pub use facts::{Facts, Member, NAME_LABEL, Resource};
pub use outcome::{Drop, DropReason, Move, MoveReason, Placement, Quota, Unplaceable, UnplaceableReason};
pub use planner::Planner;
pub use rank::{rank, rank_of};

use crate::lease::MemberId;
use board::{Board, NOBODY, Standing};
use quota::Vessel;

/// The version of the plan. Members publish the newest they can compute and use the lowest that is published.
pub const VERSION: u16 = 1;

/// Whether a taker should accept an offer: its own load and the weight are no more than the donor's load less
/// the weight. A donor that wants to hold nothing offers `u64::MAX`.
///
/// The plan asks this of every offer; only those that pass are placed as [`Placement::offered`]. A placement that
/// is not must not be measured by it again, or work that nobody else should take is left alone.
#[must_use]
pub fn accepts(taker: u64, offered: u64, weight: u32) -> bool {
    place::evens_out(taker, offered, u64::from(weight.max(1)))
}

/// What should happen to every resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    moves: Vec<Move>,
    drops: Vec<Drop>,
    placements: Vec<Placement>,
    unplaceable: Vec<Unplaceable>,
    shares: BTreeMap<MemberId, Share>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Share {
    load: u64,
    planned: u64,
    quota: Quota,
}

impl Plan {
    /// Computes the plan.
    #[must_use]
    pub fn compute(facts: &Facts) -> Self {
        Self::on(&mut Board::lay_out(facts), facts.budget)
    }

    fn on(board: &mut Board<'_>, budget: usize) -> Self {
        place::place(board);
        room::make_room(board);
        let budget = match budget {
            usize::MAX => usize::MAX,
            budget => budget.saturating_sub(in_flight(board)),
        };
        // No more is evened out than can be carried out; the rest is for the next plan.
        let held_max = if budget == 0 { 0 } else { budget.saturating_mul(2).saturating_add(64) };
        balance::even_out(board, held_max);
        shorten::shorten(board);
        place::place_leftovers(board);
        let mut plan = Self { moves: sequence::order_moves(board, budget), ..Self::default() };
        plan.shares = shares(board);
        plan.collect(board);
        plan
    }

    fn collect(&mut self, board: &Board<'_>) {
        for item in &board.items {
            let resource = || item.resource.id.clone();
            match item.standing {
                Standing::Free | Standing::Offered => {
                    let to = board.members[item.at as usize].id.clone();
                    let offered = item.standing == Standing::Offered;
                    self.placements.push(Placement { resource: resource(), to, offered });
                }
                Standing::Dropped(reason) => {
                    let from = board.members[item.holder as usize].id.clone();
                    self.drops.push(Drop { resource: resource(), from, reason });
                }
                Standing::Alone(reason) => {
                    self.unplaceable.push(Unplaceable { resource: resource(), reason })
                }
                Standing::Kept | Standing::Evicted(_) | Standing::Stuck | Standing::Foreign => {}
            }
        }
    }

    /// Held resources that should change hands, in the order in which to start: at most the budget less what
    /// is in flight already. Later steps of a chain follow the one that can start now.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Resources whose holder must let go with nobody to take over.
    #[must_use]
    pub fn drops(&self) -> &[Drop] {
        &self.drops
    }

    /// Free resources and who should take each.
    #[must_use]
    pub fn placements(&self) -> &[Placement] {
        &self.placements
    }

    /// Free resources that nobody can take, and why.
    #[must_use]
    pub fn unplaceable(&self) -> &[Unplaceable] {
        &self.unplaceable
    }

    /// A member's fair share by weight, eligibility aside.
    #[must_use]
    pub fn quota(&self, member: &MemberId) -> Quota {
        self.share(member).quota
    }

    /// What a member holds at present, by weight.
    #[must_use]
    pub fn load(&self, member: &MemberId) -> u64 {
        self.share(member).load
    }

    /// What a member would hold once the plan has been carried out, by weight.
    #[must_use]
    pub fn planned(&self, member: &MemberId) -> u64 {
        self.share(member).planned
    }

    fn share(&self, member: &MemberId) -> Share {
        self.shares.get(member).copied().unwrap_or_default()
    }
}

/// How many handoffs are under way: their resource is free, and the successor that was named is alive.
fn in_flight(board: &Board<'_>) -> usize {
    let under_way = |item: &&board::Item<'_>| {
        let offer = &item.resource.offer;
        let alive = |id: &MemberId| board.members.binary_search_by(|member| member.id.cmp(id)).is_ok();
        item.holder == NOBODY
            && item.standing != Standing::Foreign
            && offer.as_ref().is_some_and(|offer| alive(&offer.to))
    };
    board.items.iter().filter(under_way).count()
}

/// What each member has and should have. Who takes nothing new counts only for what it holds.
fn shares(board: &Board<'_>) -> BTreeMap<MemberId, Share> {
    let takes = |at: &usize| {
        let member = board.members[*at];
        member.ready && !member.leaving && !member.drained && !member.cordoned
    };
    let fair: Vec<usize> = (0..board.members.len()).filter(takes).collect();
    let vessel = |at: &usize| Vessel { load: 0, capacity: board.capacity[*at] };
    let vessels: Vec<Vessel> = fair.iter().map(vessel).collect();
    let weight = fair.iter().map(|at| board.load[*at]).sum();
    let (quotas, _) = quota::fill(&vessels, weight);
    let mut quota: Vec<Quota> =
        board.load.iter().map(|load| Quota { floor: *load, ceiling: *load }).collect();
    for (at, (floor, ceiling)) in fair.into_iter().zip(quotas) {
        quota[at] = Quota { floor, ceiling };
    }
    let share = |at: usize| Share { load: board.held[at], planned: board.load[at], quota: quota[at] };
    (0..board.members.len()).map(|at| (board.members[at].id.clone(), share(at))).collect()
}
