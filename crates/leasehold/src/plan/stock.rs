//! What each member would have, sorted so that the right resource to give away is found quickly.

use std::collections::BTreeMap;

use super::board::{Board, Item, Standing};
use super::kept::Lot;

/// How many resources are compared before the best of them are given away.
const LOOK_AT_MAX: usize = 16_384;
/// How many of them are kept ready for one receiver.
const READY_MAX: usize = 256;

/// In whose hands a resource is that may be given to somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hands {
    /// In nobody's; it may also go to members that have not settled yet.
    None,
    /// In those of somebody who should not have it.
    Wrong,
    /// In those of somebody who may keep it.
    Right,
}

/// Resources that may go to the same members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) class: u32,
    pub(super) hands: Hands,
}

impl Kind {
    /// The kind of a resource, if the plan may give it to somebody else to even out the load.
    pub(super) fn of(item: &Item<'_>, board: &Board<'_>) -> Option<Self> {
        let hands = match item.standing {
            Standing::Free => Hands::None,
            Standing::Evicted(_) if item.at != item.holder => Hands::Wrong,
            Standing::Kept if !board.members[item.holder as usize].cordoned => Hands::Right,
            _ => return None,
        };
        Some(Self { class: item.class, hands })
    }

    /// The same for what is kept and was not laid out.
    pub(super) fn of_kept(lot: Lot, board: &Board<'_>) -> Option<Self> {
        let movable = !board.members[lot.holder as usize].cordoned;
        movable.then_some(Self { class: lot.class, hands: Hands::Right })
    }

    pub(super) fn receivers<'b>(&self, board: &'b Board<'_>) -> &'b [u32] {
        let class = &board.classes[self.class as usize];
        if self.hands == Hands::None { &class.wanted } else { &class.settled }
    }

    /// Whether it has no place yet, so that giving it to somebody else costs nothing.
    pub(super) fn is_loose(&self) -> bool {
        self.hands != Hands::Right
    }
}

/// What a member has of one kind and weight.
#[derive(Debug, Default)]
struct Shelf {
    /// Also contains resources that have gone since.
    items: Vec<u32>,
    /// How many are really there.
    count: usize,
    /// Where to look next.
    looked_at: usize,
    /// The next ones to give away, for each receiver, the best last.
    ready: BTreeMap<u32, Vec<(u8, u64, u32)>>,
}

impl Shelf {
    /// Looks at some of the resources and gets the best of them ready: looking at all of them for each receiver
    /// would make a plan that moves nearly everything take minutes.
    fn refill(&mut self, board: &Board<'_>, from: u32, to: u32) {
        if self.items.len() > 2 * self.count + READY_MAX {
            self.items.retain(|at| board.items[*at as usize].at == from);
        }
        let start = self.looked_at % self.items.len().max(1);
        let mut looked_at = 0;
        let mut ready = Vec::with_capacity(self.count.min(LOOK_AT_MAX));
        for at in self.items[start..].iter().chain(&self.items[..start]) {
            if ready.len() == LOOK_AT_MAX {
                break;
            }
            looked_at += 1;
            let item = &board.items[*at as usize];
            if item.at == from {
                let moves_anyway = u8::from(item.standing != Standing::Kept || item.holder != item.at);
                ready.push((moves_anyway, board.score(to, item), *at));
            }
        }
        self.looked_at = start + looked_at;
        if ready.len() > READY_MAX {
            ready.select_nth_unstable_by(READY_MAX, |one, two| two.cmp(one));
            ready.truncate(READY_MAX);
        }
        ready.sort_unstable();
        self.ready.insert(to, ready);
    }
}

/// What every member has.
pub(super) struct Stock {
    shelves: Vec<BTreeMap<(Kind, u64), Shelf>>,
    kinds: Vec<Kind>,
}

impl Stock {
    /// Takes stock of all resources that may be moved.
    pub(super) fn take(board: &Board<'_>, loose_only: bool) -> Self {
        let mut shelves: Vec<BTreeMap<(Kind, u64), Shelf>> = Vec::new();
        shelves.resize_with(board.members.len(), BTreeMap::new);
        let mut kinds = Vec::new();
        for (at, item) in (0..).zip(&board.items) {
            let Some(kind) = Kind::of(item, board).filter(|kind| kind.is_loose() || !loose_only) else {
                continue;
            };
            let shelf = shelves[item.at as usize].entry((kind, item.weight)).or_default();
            if shelf.items.is_empty() {
                kinds.push(kind);
            }
            shelf.items.push(at);
            shelf.count += 1;
        }
        for (lot, count) in board.kept.lots().filter(|_| !loose_only) {
            let Some(kind) = Kind::of_kept(lot, board) else { continue };
            shelves[lot.holder as usize].entry((kind, lot.weight)).or_default().count += count;
            kinds.push(kind);
        }
        kinds.sort_unstable();
        kinds.dedup();
        Self { shelves, kinds }
    }

    /// All kinds there are.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.kinds.iter().copied()
    }

    /// The kinds that a member has, each as often as it has weights of it.
    pub(super) fn kinds_at(&self, member: u32) -> impl Iterator<Item = Kind> + '_ {
        let mut last = None;
        let there = self.shelves[member as usize].iter().filter(|(_, shelf)| shelf.count > 0);
        there.map(|((kind, _), _)| *kind).filter(move |kind| last.replace(*kind) != Some(*kind))
    }

    /// The kinds of which a member has something of that weight.
    pub(super) fn kinds_with(&self, member: u32, weight: u64) -> impl Iterator<Item = Kind> + '_ {
        let there = self.shelves[member as usize].iter();
        there.filter(move |((_, w), shelf)| *w == weight && shelf.count > 0).map(|((kind, _), _)| *kind)
    }

    /// The lightest weights that a member has.
    pub(super) fn weights(&self, member: u32, most: usize) -> Vec<u64> {
        let there = self.shelves[member as usize].iter().filter(|(_, shelf)| shelf.count > 0);
        let mut weights: Vec<u64> = there.map(|((_, weight), _)| *weight).collect();
        weights.sort_unstable();
        weights.dedup();
        weights.truncate(most);
        weights
    }

    /// The heaviest weight a member has of that kind, up to a bound.
    pub(super) fn heaviest(&self, member: u32, kind: Kind, bound: u64) -> Option<u64> {
        let up_to = self.shelves[member as usize].range((kind, 0)..=(kind, bound));
        up_to.rev().find(|(_, shelf)| shelf.count > 0).map(|((_, weight), _)| *weight)
    }

    /// Takes from a shelf what the receiver is preferred for most: resources that are on the move anyway before
    /// those that would have to be moved.
    pub(super) fn best(
        &mut self,
        board: &Board<'_>,
        from: u32,
        to: u32,
        kind: Kind,
        weight: u64,
    ) -> Option<usize> {
        let shelf = self.shelves[from as usize].get_mut(&(kind, weight))?;
        for _ in 0..2 {
            let ready = shelf.ready.entry(to).or_default();
            while let Some((_, _, at)) = ready.pop() {
                if board.items[at as usize].at == from {
                    shelf.count -= 1;
                    return Some(at as usize);
                }
            }
            shelf.refill(board, from, to);
        }
        None
    }

    /// Puts a resource on a shelf.
    pub(super) fn arrive(&mut self, member: u32, kind: Kind, weight: u64, at: usize) {
        let shelf = self.shelves[member as usize].entry((kind, weight)).or_default();
        shelf.items.push(at as u32);
        shelf.count += 1;
    }
}
