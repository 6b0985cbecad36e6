//! Who takes what has no owner, or should have another one.

use std::cmp::Reverse;

use super::board::{Board, Item, NOBODY, Standing};
use super::eligible::{Class, Fit};
use super::outcome::{DropReason, MoveReason, UnplaceableReason};
use super::quota::{Vessel, fill};
use super::rendezvous::score;

/// How much a member can take.
type Room = fn(&Board<'_>, u32) -> u64;

/// Places what is free: first where its last holder meant it to go, then by preference within fair shares.
pub(super) fn place_free(board: &mut Board<'_>) {
    honour_offers(board);
    for (class, homeless) in by_class(board, |item| item.standing == Standing::Free) {
        let left = share_out(board, homeless, |class| &class.wanted, class);
        // A pin to somebody who is full does not leave the work alone.
        let left = share_out(board, left, |class| &class.able, class);
        let reason = match (board.members.is_empty(), board.classes[class].able.is_empty()) {
            (true, _) => UnplaceableReason::NoMembers,
            (false, true) => UnplaceableReason::NobodyEligible,
            (false, false) => UnplaceableReason::NoCapacity,
        };
        for at in left {
            board.items[at].standing = Standing::Alone(reason);
        }
    }
}

/// A successor takes what it was offered only if that evens out, counted one at a time.
///
/// Invariant: a taker that follows this rule on its own true load never makes anything less even, whatever
/// the donor believed.
pub(super) fn evens_out(taker: u64, donor: u64, weight: u64) -> bool {
    donor == u64::MAX || taker.saturating_add(weight) <= donor.saturating_sub(weight)
}

fn honour_offers(board: &mut Board<'_>) {
    for at in 0..board.items.len() {
        let item = &board.items[at];
        let Some(offer) = &board.facts.resources[item.resource as usize].offer else { continue };
        if item.standing != Standing::Free {
            continue;
        }
        let Ok(to) = board.members.binary_search_by(|member| member.id.cmp(&offer.to)) else { continue };
        let (member, class) = (to as u32, board.class(item));
        let pin_has_room = || class.wanted.iter().any(|wanted| board.has_room(*wanted, item.weight));
        let eligible = class.wanted.binary_search(&member).is_ok()
            || (class.able.binary_search(&member).is_ok() && !pin_has_room());
        if eligible
            && board.has_room(member, item.weight)
            && evens_out(board.occupied[to], offer.load, item.weight)
        {
            board.assign(at, member);
            board.items[at].standing = Standing::Offered;
        }
    }
}

/// Finds somebody else for what should change hands; where nobody has room it stays, because work is never
/// left alone, unless its holder does not even know it any more.
///
/// `reserved` is the room that each member makes for what is pinned to it.
pub(super) fn place_evicted(board: &mut Board<'_>, reserved: &[u64]) {
    let surplus = |item: &Item| item.standing == Standing::Evicted(MoveReason::Capacity);
    // What makes room goes first, and must not find the very room it made.
    board.load.iter_mut().zip(reserved).for_each(|(load, reserved)| *load += reserved);
    rehouse(board, surplus);
    board.load.iter_mut().zip(reserved).for_each(|(load, reserved)| *load -= reserved);
    rehouse(board, |item| matches!(item.standing, Standing::Evicted(_)) && !surplus(item));
}

fn rehouse(board: &mut Board<'_>, homeless: impl Fn(&Item) -> bool) {
    for (class, homeless) in by_class(board, homeless) {
        let left = share_out(board, homeless, |class| &class.settled, class);
        let left = share_out(board, left, |class| &class.wanted, class);
        let (pinned, left) =
            left.into_iter().partition(|at| board.items[*at].standing == Standing::Evicted(MoveReason::Pin));
        let left = share_out(board, left, |class| &class.able, class);
        for at in [pinned, left].concat() {
            let item = &board.items[at];
            if board.class(item).fits[item.holder as usize] == Fit::Unlisted {
                board.assign(at, NOBODY);
                board.items[at].standing = Standing::Dropped(DropReason::Unlisted);
            } else {
                board.items[at].standing = Standing::Stuck;
            }
        }
    }
}

fn by_class(board: &Board<'_>, homeless: impl Fn(&Item) -> bool) -> Vec<(usize, Vec<usize>)> {
    let mut groups = vec![Vec::new(); board.classes.len()];
    for (at, item) in board.items.iter().enumerate() {
        if homeless(item) {
            groups[item.class as usize].push(at);
        }
    }
    groups.into_iter().enumerate().filter(|(_, group)| !group.is_empty()).collect()
}

/// Shares resources of one class out among some members; gives back those for which nobody has room.
fn share_out(
    board: &mut Board<'_>,
    homeless: Vec<usize>,
    among: impl Fn(&Class) -> &Vec<u32>,
    class: usize,
) -> Vec<usize> {
    // Only what is pinned, and safe where it is, waits for room that is yet to be made.
    let waits = board.classes[class].pinned && homeless.iter().all(|at| board.items[*at].holder != NOBODY);
    let room: Room =
        if waits { |board, member| board.room_later(member) } else { |board, member| board.room(member) };
    let among = among(&board.classes[class]).clone();
    if among.is_empty() || homeless.is_empty() {
        return homeless;
    }
    let weight = homeless.iter().map(|at| board.items[*at].weight).sum();
    let lightest = homeless.iter().map(|at| board.items[*at].weight).min().unwrap_or(1);
    let mut shares = Shares::of(board, &among, weight, lightest, room);
    let mut left = Vec::new();
    for at in homeless {
        let item = &board.items[at];
        match shares.preferred(board, item).or_else(|| least_loaded(board, &among, item, room)) {
            Some(member) => {
                board.assign(at, member);
                shares.close(board, member);
            }
            None => left.push(at),
        }
    }
    left
}

/// The members that are still below their fair share.
struct Shares {
    /// Hash, place and quota of each.
    open: Vec<(u64, u32, u64)>,
    lightest: u64,
}

impl Shares {
    fn of(board: &Board<'_>, among: &[u32], weight: u64, lightest: u64, room: Room) -> Self {
        let vessel = |member: &u32| {
            let at = *member as usize;
            let capacity = board.load[at].saturating_add(room(board, *member));
            Vessel { load: board.load[at], capacity, hash: board.hashes[at] }
        };
        let vessels: Vec<Vessel> = among.iter().map(vessel).collect();
        let quotas = fill(&vessels, weight);
        let open =
            among.iter().zip(quotas).map(|(member, quota)| (board.hashes[*member as usize], *member, quota));
        let mut shares = Self { open: open.collect(), lightest };
        shares.open.retain(|(_, member, quota)| board.load[*member as usize] + lightest <= *quota);
        shares
    }

    /// The member that is preferred most of those with enough left of their share.
    fn preferred(&self, board: &Board<'_>, item: &Item) -> Option<u32> {
        let (mut best, mut highest) = (None, 0);
        for (hash, member, quota) in &self.open {
            let score = score(*hash, item.hash);
            // Members come in the order of their ids, so a tie goes to the lower id.
            if (score > highest || best.is_none()) && board.load[*member as usize] + item.weight <= *quota {
                (best, highest) = (Some(*member), score);
            }
        }
        best
    }

    fn close(&mut self, board: &Board<'_>, member: u32) {
        let load = board.load[member as usize];
        if let Some(at) = self.open.iter().position(|(_, other, _)| *other == member)
            && load + self.lightest > self.open[at].2
        {
            self.open.remove(at);
        }
    }
}

fn least_loaded(board: &Board<'_>, among: &[u32], item: &Item, room: Room) -> Option<u32> {
    let fits = |member: &&u32| item.weight <= room(board, **member);
    let order =
        |member: &&u32| (board.load[**member as usize], Reverse(board.score(**member, item)), **member);
    among.iter().filter(fits).min_by_key(order).copied()
}
