//! Making room: what goes because a member holds more than its capacity, or because an operator pinned something
//! else to it. It goes only if somebody has room for it, for work is never left alone.

use std::cmp::Reverse;

use super::board::{Board, Standing};
use super::outcome::MoveReason;

/// Gives away what members hold above their capacity, then makes room for what is pinned to members that are
/// full, if that can be done.
pub(super) fn make_room(board: &mut Board<'_>) {
    let over = |at: usize| board.load[at].saturating_sub(board.capacity[at]);
    let full: Vec<(u32, u64)> =
        (0..).zip((0..board.members.len()).map(over)).filter(|one| one.1 > 0).collect();
    let misplaced = |at: &usize| {
        let item = &board.items[*at];
        let class = board.class(item);
        let stuck = class.pinned && item.standing == Standing::Stuck;
        stuck && class.wanted.binary_search(&item.holder).is_err()
    };
    let misplaced: Vec<usize> = (0..board.items.len()).filter(misplaced).collect();
    if full.is_empty() && misplaced.is_empty() {
        return;
    }
    if !board.kept.is_empty() {
        board.missed = true;
        return;
    }
    let spare = what_may_go(board);
    for (member, over) in full {
        give_away(board, &spare, member, over);
    }
    for at in misplaced {
        follow_pin(board, &spare, at);
    }
}

/// What each member could do without: what is not pinned, those first that it is least preferred for.
fn what_may_go(board: &Board<'_>) -> Vec<Vec<usize>> {
    let mut spare = vec![Vec::new(); board.members.len()];
    for (at, item) in board.items.iter().enumerate() {
        if item.standing == Standing::Kept && !board.class(item).pinned {
            spare[item.at as usize].push(at);
        }
    }
    for (member, items) in (0..).zip(&mut spare) {
        items.sort_by_cached_key(|at| (board.score(member, &board.items[*at]), *at));
    }
    spare
}

/// Moves a pinned resource to the first of the members it is pinned to that can make room for it.
fn follow_pin(board: &mut Board<'_>, spare: &[Vec<usize>], at: usize) {
    let weight = board.items[at].weight;
    for member in board.class(&board.items[at]).wanted.clone() {
        if weight > board.capacity[member as usize] {
            continue;
        }
        let given = give_away(board, spare, member, weight.saturating_sub(board.room_later(member)));
        if weight <= board.room_later(member) {
            board.items[at].standing = Standing::Evicted(MoveReason::Pin);
            board.assign(at, member);
            return;
        }
        // In vain: nothing is moved that does not help.
        for at in given {
            board.assign(at, member);
            board.items[at].standing = Standing::Kept;
        }
    }
}

/// Finds other members for resources of a member until it is rid of `weight` or nothing more can go.
fn give_away(board: &mut Board<'_>, spare: &[Vec<usize>], member: u32, weight: u64) -> Vec<usize> {
    let (mut given, mut gone) = (Vec::new(), 0);
    for at in spare[member as usize].iter().copied() {
        if gone >= weight {
            break;
        }
        let item = board.items[at];
        if item.at != member {
            continue;
        }
        let fits = |other: &&u32| **other != member && board.has_room(**other, item.weight);
        let order =
            |other: &&u32| (board.load[**other as usize], Reverse(board.score(**other, &item)), **other);
        if let Some(to) = board.class(&item).settled.iter().filter(fits).min_by_key(order).copied() {
            board.items[at].standing = Standing::Evicted(MoveReason::Capacity);
            board.assign(at, to);
            given.push(at);
            gone += item.weight;
        }
    }
    given
}
