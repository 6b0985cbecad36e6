//! Who takes what has no owner, or should have another one.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::board::{Board, Item, NOBODY, Standing};
use super::eligible::{Class, Fit};
use super::outcome::{DropReason, MoveReason, UnplaceableReason};
use super::quota::{Vessel, fill};
use super::rendezvous::score;

/// Places what has no owner, then what should have another one.
pub(super) fn place(board: &mut Board<'_>) {
    honour_offers(board);
    // Before others take the room at the members that an operator chose.
    follow_pins(board, is_free);
    let pinned = follow_pins(board, is_evicted);
    place_free(board);
    // But work that nobody does comes before work that somebody else should do.
    if board.items.iter().any(finds_no_room) {
        pinned.into_iter().for_each(|at| board.assign(at, board.items[at].holder));
        place_leftovers(board);
    }
    place_evicted(board);
}

/// Tries again for what found no room, now that others may have been placed elsewhere.
pub(super) fn place_leftovers(board: &mut Board<'_>) {
    for at in 0..board.items.len() {
        let item = board.items[at];
        if !finds_no_room(&item) {
            continue;
        }
        let class = board.class(&item);
        let to =
            least_loaded(board, &class.wanted, &item).or_else(|| least_loaded(board, &class.able, &item));
        if let Some(to) = to {
            board.items[at].standing = Standing::Free;
            board.assign(at, to);
        }
    }
}

fn finds_no_room(item: &Item<'_>) -> bool {
    item.standing == Standing::Alone(UnplaceableReason::NoCapacity)
}

/// Places what is pinned with those it is pinned to, if they have room; gives back what was placed.
fn follow_pins(board: &mut Board<'_>, homeless: fn(&Item<'_>) -> bool) -> Vec<usize> {
    let mut placed = Vec::new();
    if !board.classes.iter().any(|class| class.pinned) {
        return placed;
    }
    for (class, homeless) in by_class(board, homeless) {
        if board.classes[class].pinned {
            let left = share_out(board, homeless.clone(), |class| &class.wanted, class);
            let left: BTreeSet<usize> = left.into_iter().collect();
            placed.extend(homeless.into_iter().filter(|at| !left.contains(at)));
        }
    }
    placed
}

fn is_free(item: &Item<'_>) -> bool {
    item.standing == Standing::Free && item.at == NOBODY
}

fn is_evicted(item: &Item<'_>) -> bool {
    matches!(item.standing, Standing::Evicted(_)) && item.at == item.holder
}

/// Places what is free by preference within fair shares.
fn place_free(board: &mut Board<'_>) {
    for (class, homeless) in by_class(board, is_free) {
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
        let Some(offer) = &item.resource.offer else { continue };
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
fn place_evicted(board: &mut Board<'_>) {
    for (class, homeless) in by_class(board, is_evicted) {
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

fn by_class(board: &Board<'_>, homeless: impl Fn(&Item<'_>) -> bool) -> Vec<(usize, Vec<usize>)> {
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
    let among = among(&board.classes[class]).clone();
    if among.is_empty() || homeless.is_empty() {
        return homeless;
    }
    let weight = homeless.iter().map(|at| board.items[*at].weight).sum();
    let lightest = homeless.iter().map(|at| board.items[*at].weight).min().unwrap_or(1);
    let mut shares = Shares::of(board, &among, weight, lightest);
    let mut left = Vec::new();
    for at in homeless {
        let item = &board.items[at];
        if let Some(best) = shares.preferred(board, item) {
            board.assign(at, shares.open[best].member);
            shares.note(board, best);
        } else if let Some(member) = least_loaded(board, &among, item) {
            board.assign(at, member);
        } else {
            left.push(at);
        }
    }
    left
}

/// The members that are still below their fair share.
struct Shares {
    open: Vec<Share>,
    /// How many members may still go to their ceiling.
    extra: u64,
    lightest: u64,
}

struct Share {
    hash: u64,
    member: u32,
    floor: u64,
    ceiling: u64,
}

impl Shares {
    fn of(board: &Board<'_>, among: &[u32], weight: u64, lightest: u64) -> Self {
        let vessel = |member: &u32| {
            let load = board.load[*member as usize];
            Vessel { load, capacity: load.saturating_add(board.room(*member)) }
        };
        let vessels: Vec<Vessel> = among.iter().map(vessel).collect();
        let (quotas, extra) = fill(&vessels, weight);
        let share = |(member, (floor, ceiling)): (&u32, (u64, u64))| Share {
            hash: board.hashes[*member as usize],
            member: *member,
            floor,
            ceiling,
        };
        let open = among.iter().zip(quotas).map(share).collect();
        let mut shares = Self { open, extra, lightest };
        shares.close(board);
        shares
    }

    fn limit(&self, share: &Share) -> u64 {
        if self.extra > 0 { share.ceiling } else { share.floor }
    }

    /// The place of the member that is preferred most of those with enough left of their share.
    fn preferred(&self, board: &Board<'_>, item: &Item<'_>) -> Option<usize> {
        let (mut best, mut highest) = (None, 0);
        for (at, share) in self.open.iter().enumerate() {
            let score = score(share.hash, item.hash);
            // Members come in the order of their ids, so a tie goes to the lower id.
            if (score > highest || best.is_none())
                && board.load[share.member as usize] + item.weight <= self.limit(share)
            {
                (best, highest) = (Some(at), score);
            }
        }
        best
    }

    /// Notes that a member got something.
    fn note(&mut self, board: &Board<'_>, at: usize) {
        let share = &self.open[at];
        let load = board.load[share.member as usize];
        if load > share.floor {
            self.extra -= 1;
            if self.extra == 0 {
                self.close(board);
                return;
            }
        }
        if load + self.lightest > self.limit(&self.open[at]) {
            self.open.remove(at);
        }
    }

    /// Forgets those that can get no more.
    fn close(&mut self, board: &Board<'_>) {
        let (extra, lightest) = (self.extra, self.lightest);
        self.open.retain(|share| {
            let limit = if extra > 0 { share.ceiling } else { share.floor };
            board.load[share.member as usize] + lightest <= limit
        });
    }
}

fn least_loaded(board: &Board<'_>, among: &[u32], item: &Item<'_>) -> Option<u32> {
    let fits = |member: &&u32| board.has_room(**member, item.weight);
    let order =
        |member: &&u32| (board.load[**member as usize], Reverse(board.score(**member, item)), **member);
    among.iter().filter(fits).min_by_key(order).copied()
}
