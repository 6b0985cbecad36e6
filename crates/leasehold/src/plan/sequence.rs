//! The order in which the plan's moves are carried out, and which of them can start at once.
//!
//! A move to even out the load starts only if it does so with what members really hold at present, or if it
//! clears the way for one that does: the far end of a chain goes first and carries the load of the chain's head.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::balance::is_rebalanced;
use super::board::{Board, Standing};
use super::outcome::{Move, MoveReason};

/// Puts the moves into order and cuts them off where the budget ends.
pub(super) fn order_moves(board: &Board<'_>, budget: usize) -> Vec<Move> {
    let mut sequence = Sequence::new(board, budget);
    sequence.evict();
    sequence.rebalance();
    sequence.moves
}

/// From whom, to whom, how heavy.
type Edge = (u32, u32, u64);

struct Sequence<'b, 'a> {
    board: &'b Board<'a>,
    /// The least that each member has while the moves are carried out.
    surely: Vec<u64>,
    /// The most that each member has while the moves are carried out.
    perhaps: Vec<u64>,
    pending: BTreeMap<Edge, Vec<usize>>,
    budget: usize,
    moves: Vec<Move>,
}

impl<'b, 'a> Sequence<'b, 'a> {
    fn new(board: &'b Board<'a>, budget: usize) -> Self {
        let (mut surely, perhaps) = (board.kept.loads(board.members.len()), board.occupied.clone());
        let mut pending: BTreeMap<Edge, Vec<usize>> = BTreeMap::new();
        for (at, item) in board.items.iter().enumerate() {
            if matches!(item.standing, Standing::Kept | Standing::Stuck) {
                surely[item.holder as usize] += item.weight;
            }
            if is_rebalanced(item.standing, item.holder, item.at) {
                pending.entry((item.holder, item.at, item.weight)).or_default().push(at);
            }
        }
        Self { board, surely, perhaps, pending, budget, moves: Vec::new() }
    }

    fn evict(&mut self) {
        let mut evicted: Vec<(MoveReason, usize)> = Vec::new();
        for (at, item) in self.board.items.iter().enumerate() {
            if let Standing::Evicted(reason) = item.standing
                && item.at != item.holder
            {
                evicted.push((reason, at));
            }
        }
        evicted.sort_unstable();
        let mut present = self.perhaps.clone();
        for (_, at) in &evicted {
            let item = &self.board.items[*at];
            present[item.at as usize] -= item.weight;
        }
        for (reason, at) in evicted {
            let item = &self.board.items[at];
            let to = item.at as usize;
            let now = present[to].saturating_add(item.weight) <= self.board.capacity[to];
            if now {
                present[to] += item.weight;
            }
            self.push(at, u64::MAX, reason, now);
        }
    }

    fn rebalance(&mut self) {
        while self.budget > 0 && (self.singles() || self.chain()) {}
        if self.budget == usize::MAX {
            for ((from, ..), rest) in std::mem::take(&mut self.pending) {
                for at in rest {
                    self.push(at, self.surely[from as usize], MoveReason::Rebalance, false);
                }
            }
        }
    }

    /// All moves that even out by themselves, the most loaded donors first.
    fn singles(&mut self) -> bool {
        let mut edges: Vec<Edge> = self.pending.keys().copied().collect();
        edges.sort_unstable_by_key(|edge| (Reverse(self.surely[edge.0 as usize]), *edge));
        let before = self.moves.len();
        for edge in edges {
            let (from, to, weight) = edge;
            while self.budget > 0 && self.may_go(from, to, weight) {
                let Some(at) = self.next(edge) else { break };
                self.push(at, self.surely[from as usize], MoveReason::Rebalance, true);
                self.shift(from, to, weight);
            }
        }
        self.moves.len() > before
    }

    /// One chain: its far end now, the rest later.
    fn chain(&mut self) -> bool {
        let edges: Vec<Edge> = self.pending.keys().copied().collect();
        for (from, to, weight) in edges {
            let Some(path) = self.path_back(from, to, weight) else { continue };
            let head = path[path.len() - 1].0;
            let load = self.surely[head as usize];
            for (step, edge) in path.into_iter().enumerate() {
                if let Some(at) = self.next(edge) {
                    self.push(at, load, MoveReason::Rebalance, step == 0);
                }
            }
            self.shift(head, to, weight);
            return true;
        }
        false
    }

    /// The shortest way back from the far end of a chain to a head that has enough more than the far end.
    fn path_back(&self, from: u32, to: u32, weight: u64) -> Option<Vec<Edge>> {
        let mut next: BTreeMap<u32, u32> = BTreeMap::from([(from, to)]);
        let mut queue = VecDeque::from([from]);
        while let Some(member) = queue.pop_front() {
            if self.may_go(member, to, weight) {
                let mut path = Vec::new();
                let mut at = member;
                while at != to {
                    path.push((at, next[&at], weight));
                    at = next[&at];
                }
                path.reverse();
                return Some(path);
            }
            for (earlier, here, w) in self.pending.keys() {
                if *here == member && *w == weight && *earlier != to && !next.contains_key(earlier) {
                    next.insert(*earlier, member);
                    queue.push_back(*earlier);
                }
            }
        }
        None
    }

    fn may_go(&self, head: u32, to: u32, weight: u64) -> bool {
        let even = self.perhaps[to as usize].saturating_add(2 * weight) <= self.surely[head as usize];
        even && self.has_room(to, weight)
    }

    fn has_room(&self, member: u32, weight: u64) -> bool {
        self.perhaps[member as usize].saturating_add(weight) <= self.board.capacity[member as usize]
    }

    /// Until a move is done its weight may be on either side: neither counts on it.
    fn shift(&mut self, from: u32, to: u32, weight: u64) {
        self.surely[from as usize] -= weight;
        self.perhaps[to as usize] += weight;
    }

    fn next(&mut self, edge: Edge) -> Option<usize> {
        let left = self.pending.get_mut(&edge)?;
        let at = left.pop();
        if left.is_empty() {
            self.pending.remove(&edge);
        }
        at
    }

    fn push(&mut self, at: usize, load: u64, reason: MoveReason, now: bool) {
        if self.budget == 0 {
            return;
        }
        let item = &self.board.items[at];
        self.moves.push(Move {
            resource: item.resource.id.clone(),
            from: self.board.members[item.holder as usize].id.clone(),
            to: self.board.members[item.at as usize].id.clone(),
            load,
            reason,
            now,
        });
        if now && self.budget != usize::MAX {
            self.budget -= 1;
        }
    }
}
