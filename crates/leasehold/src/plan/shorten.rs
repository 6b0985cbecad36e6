//! Leaving out detours: where one resource goes from `x` to `y` and another of the same weight from `y` to `z`, the
//! first can often go to `z` itself, and the second stays. The loads are the same with one handoff less.

use std::collections::{BTreeMap, BTreeSet};

use super::balance::is_rebalanced;
use super::board::Board;

/// What comes to each member to even out the load, by weight.
type Coming = BTreeMap<(u32, u64), BTreeSet<usize>>;

/// Leaves out detours until there are none.
pub(super) fn shorten(board: &mut Board<'_>) {
    let mut coming = Coming::new();
    for (at, item) in board.items.iter().enumerate() {
        if is_rebalanced(item.standing, item.holder, item.at) {
            coming.entry((item.at, item.weight)).or_default().insert(at);
        }
    }
    let mut moved: Vec<usize> = coming.values().flatten().copied().collect();
    moved.sort_unstable();
    // Every detour that is left out brings a resource home, so this ends.
    loop {
        let left_out = moved.iter().filter(|at| leave_out(board, &mut coming, **at)).count();
        if left_out == 0 {
            break;
        }
    }
}

/// Lets the resource stay if another that comes to its holder can go where it was to go.
fn leave_out(board: &mut Board<'_>, coming: &mut Coming, second: usize) -> bool {
    let item = board.items[second];
    if item.at == item.holder {
        return false;
    }
    let fits = |first: &&usize| {
        let first = &board.items[**first];
        first.holder == item.at || board.class(first).settled.binary_search(&item.at).is_ok()
    };
    let Some(first) = coming.get(&(item.holder, item.weight)).and_then(|all| all.iter().find(fits)).copied()
    else {
        return false;
    };
    for (at, to) in [(second, item.holder), (first, item.at)] {
        let weight = item.weight;
        if let Some(before) = coming.get_mut(&(board.items[at].at, weight)) {
            before.remove(&at);
        }
        board.assign(at, to);
        if board.items[at].holder != to {
            coming.entry((to, weight)).or_default().insert(at);
        }
    }
    true
}
