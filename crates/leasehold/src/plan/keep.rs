//! Which of the resources that may stay have to go because there is no room for them.

use std::collections::BTreeMap;

use super::board::{Board, Standing};
use super::outcome::MoveReason;

/// Marks for eviction what a member holds above its capacity, and what must make room for resources that an
/// operator pinned to it. What is pinned stays; of the rest, what the member is least preferred for goes first.
///
/// Gives back the room that is being made for pins, by member.
pub(super) fn shed_surplus(board: &mut Board<'_>) -> Vec<u64> {
    let mut surplus = BTreeMap::new();
    let expected = expected_by_pin(board);
    for (member, expected) in (0..).zip(&expected) {
        let wanted = board.load[member as usize].saturating_add(*expected);
        let over = wanted.saturating_sub(board.capacity[member as usize]);
        if over > 0 {
            surplus.insert(member, (over, Vec::new()));
        }
    }
    if surplus.is_empty() {
        return expected;
    }
    for (at, item) in board.items.iter().enumerate() {
        if item.standing == Standing::Kept
            && !board.class(item).pinned
            && let Some((_, candidates)) = surplus.get_mut(&item.at)
        {
            candidates.push((board.score(item.at, item), at));
        }
    }
    for (mut over, mut candidates) in surplus.into_values() {
        candidates.sort_unstable();
        for (_, at) in candidates {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(board.items[at].weight);
            board.items[at].standing = Standing::Evicted(MoveReason::Capacity);
        }
    }
    expected
}

/// The weight that pins would bring to each member; only where a pin leaves no choice of members.
fn expected_by_pin(board: &Board<'_>) -> Vec<u64> {
    let mut expected = vec![0; board.members.len()];
    if !board.classes.iter().any(|class| class.pinned) {
        return expected;
    }
    for item in &board.items {
        let class = board.class(item);
        let comes = matches!(item.standing, Standing::Free | Standing::Evicted(_));
        if let ([only], true) = (&class.wanted[..], class.pinned && comes)
            && item.weight <= board.capacity[*only as usize]
        {
            expected[*only as usize] += item.weight;
        }
    }
    expected
}
