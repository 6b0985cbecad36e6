//! Evening out: from those with most to those with least, and only while that makes things more even.
//!
//! A resource of weight `w` moves from `x` to `z` only if `load(z) + w <= load(x) - w`, so the sum of the squares
//! of the loads falls with every step and the search ends. Where `x` and `z` have no resource in common that
//! both may hold, a chain of equal weights through others does the same.
//!
//! Invariant: at the end no single resource can be moved that way, and no chain of unit weights either.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::board::{Board, Item, NOBODY, Standing};
use super::stock::{Hands, Kind, Stock};

/// Chains are looked for among that many of the lightest weights of a donor: with many different weights
/// there is little to gain from the others, and much to search.
const CHAIN_WEIGHTS_MAX: usize = 8;

/// Evens out: first by placing elsewhere what has no place yet, then by moving held resources, at most `held_max` times.
pub(super) fn even_out(board: &mut Board<'_>, held_max: usize) {
    for (loose_only, steps_max) in [(true, usize::MAX), (false, held_max)] {
        if steps_max > 0 && can_improve(board, loose_only) {
            Search::new(board, loose_only).run(steps_max);
        }
    }
}

/// Whether the loads leave anything to do at all, which is cheap to know.
fn can_improve(board: &Board<'_>, loose_only: bool) -> bool {
    let movable = |item: &&Item<'_>| Kind::of(item, board).is_some_and(|kind| kind.is_loose() || !loose_only);
    // Resources are ordered by weight, so the last is the lightest.
    let last = board.items.iter().rev().find(movable).map(|item| item.weight);
    let kept = board.kept.lots().filter(|(lot, _)| !loose_only && Kind::of_kept(*lot, board).is_some());
    let Some(lightest) = kept.map(|(lot, _)| lot.weight).chain(last).min() else { return false };
    let active = || (0..board.members.len()).filter(|at| board.members[*at].ready);
    let most = active().map(|at| board.load[at]).max().unwrap_or(0);
    let least = active().map(|at| board.load[at]).min().unwrap_or(0);
    most - least >= 2 * lightest
}

/// A way for one unit of load from a donor to whoever ends up with it.
type Path = Vec<(u32, u32, Kind)>;

struct Search<'b, 'a> {
    board: &'b mut Board<'a>,
    stock: Stock,
    /// Whether chains can reach anybody that single moves cannot.
    chains: bool,
}

impl<'b, 'a> Search<'b, 'a> {
    fn new(board: &'b mut Board<'a>, loose_only: bool) -> Self {
        let stock = Stock::take(board, loose_only);
        let first = stock.kinds().next().map(|kind| kind.receivers(board));
        let chains = stock.kinds().any(|kind| Some(kind.receivers(board)) != first);
        Self { stock, chains, board }
    }

    fn run(&mut self, steps_max: usize) {
        let mut stuck = vec![false; self.board.members.len()];
        let (mut steps, mut fresh) = (0, false);
        while steps < steps_max {
            let donors = (0..self.board.members.len()).filter(|at| !stuck[*at]);
            let most = donors.max_by_key(|at| (self.board.load[*at], Reverse(*at)));
            let Some(donor) = most else {
                if !fresh {
                    break;
                }
                // What was done since may have opened ways for those that had none.
                (stuck, fresh) = (vec![false; self.board.members.len()], false);
                continue;
            };
            match self.step(donor as u32) {
                Some((_, path)) if self.misses(&path) => {
                    self.board.missed = true;
                    break;
                }
                Some((weight, path)) => {
                    self.walk(weight, &path);
                    (steps, fresh) = (steps + 1, true);
                }
                None => stuck[donor] = true,
            }
        }
    }

    fn step(&self, donor: u32) -> Option<(u64, Path)> {
        if let Some((weight, to, kind)) = self.single(donor) {
            return Some((weight, vec![(donor, to, kind)]));
        }
        if !self.chains {
            return None;
        }
        let weights = self.stock.weights(donor, CHAIN_WEIGHTS_MAX);
        weights.into_iter().find_map(|weight| Some((weight, self.chain(donor, weight)?)))
    }

    /// The best single move: to the least loaded; a free resource rather than a held one; as heavy as evens out.
    fn single(&self, donor: u32) -> Option<(u64, u32, Kind)> {
        let load = self.board.load[donor as usize];
        let mut best: Option<(u64, Hands, Reverse<u64>, u32, Kind)> = None;
        for kind in self.stock.kinds_at(donor) {
            for to in kind.receivers(self.board) {
                let least = self.board.load[*to as usize];
                if least >= load || best.is_some_and(|best| best.0 < least) {
                    continue;
                }
                let room = self.room(*to, kind);
                let Some(weight) = self.stock.heaviest(donor, kind, room.min((load - least) / 2)) else {
                    continue;
                };
                let found = (least, kind.hands, Reverse(weight), *to, kind);
                if best.is_none_or(|best| found < best) {
                    best = Some(found);
                }
            }
        }
        best.map(|(_, _, Reverse(weight), to, kind)| (weight, to, kind))
    }

    fn room(&self, member: u32, kind: Kind) -> u64 {
        if kind.is_loose() { self.board.room(member) } else { self.board.room_later(member) }
    }

    /// The shortest chain to the least loaded member that can be reached with resources of one weight.
    fn chain(&self, donor: u32, weight: u64) -> Option<Path> {
        let mut came: Vec<Option<(u32, Kind)>> = vec![None; self.board.members.len()];
        let mut tried: Vec<Kind> = Vec::new();
        let mut queue = VecDeque::from([donor]);
        let mut best: Option<(u64, u32)> = None;
        while let Some(from) = queue.pop_front() {
            // What has no place yet is taken at once: the room for it cannot come from what is still held.
            let full = came[from as usize]
                .is_some_and(|(_, kind)| kind.is_loose() && weight > self.room(from, kind));
            for kind in self.stock.kinds_with(from, weight) {
                // Whoever offers this kind later reaches nobody new.
                if tried.contains(&kind) || (full && !kind.is_loose()) {
                    continue;
                }
                tried.push(kind);
                for to in kind.receivers(self.board) {
                    if *to == donor || came[*to as usize].is_some() {
                        continue;
                    }
                    came[*to as usize] = Some((from, kind));
                    queue.push_back(*to);
                    let load = self.board.load[*to as usize];
                    let fits = weight <= self.room(*to, kind);
                    if fits && best.is_none_or(|best| load < best.0) {
                        best = Some((load, *to));
                    }
                }
            }
        }
        let (least, mut to) = best?;
        if least + 2 * weight > self.board.load[donor as usize] {
            return None;
        }
        let mut path = Vec::new();
        while let Some((from, kind)) = came[to as usize].filter(|_| to != donor) {
            path.push((from, to, kind));
            to = from;
        }
        Some(path)
    }

    /// Whether the path moves what is kept and was not laid out.
    fn misses(&self, path: &Path) -> bool {
        !self.board.kept.is_empty() && path.iter().any(|(.., kind)| !kind.is_loose())
    }

    /// Carries a path out, its far end first, so that nobody passes on what it just got.
    fn walk(&mut self, weight: u64, path: &Path) {
        for (from, to, kind) in path {
            if let Some(at) = self.stock.best(self.board, *from, *to, *kind, weight) {
                self.board.assign(at, *to);
                self.stock.arrive(*to, *kind, weight, at);
            }
        }
    }
}

/// Whether the plan moves this held resource to even out the load.
pub(super) fn is_rebalanced(standing: Standing, holder: u32, at: u32) -> bool {
    standing == Standing::Kept && holder != at && at != NOBODY
}
