//! What stays with its holder, counted and not listed.

use std::collections::BTreeMap;

/// Resources that are alike to the plan for as long as it leaves them where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lot {
    /// Who has them, by its place in the order of ids.
    pub(super) holder: u32,
    pub(super) class: u32,
    /// What each of them weighs.
    pub(super) weight: u64,
}

/// How many there are of each lot.
#[derive(Debug, Default)]
pub(super) struct Kept {
    lots: BTreeMap<Lot, usize>,
}

/// For whoever lists everything.
pub(super) static NOTHING: Kept = Kept { lots: BTreeMap::new() };

impl Kept {
    pub(super) fn is_empty(&self) -> bool {
        self.lots.is_empty()
    }

    pub(super) fn lots(&self) -> impl Iterator<Item = (Lot, usize)> + '_ {
        self.lots.iter().map(|(lot, count)| (*lot, *count))
    }

    /// How much of it each of so many members has, by weight.
    pub(super) fn loads(&self, members: usize) -> Vec<u64> {
        let mut loads = vec![0; members];
        for (lot, count) in self.lots() {
            loads[lot.holder as usize] += lot.weight * count as u64;
        }
        loads
    }

    pub(super) fn add(&mut self, lot: Lot) {
        *self.lots.entry(lot).or_default() += 1;
    }

    pub(super) fn take(&mut self, lot: Lot) {
        if let Some(count) = self.lots.get_mut(&lot) {
            *count -= 1;
            if *count == 0 {
                self.lots.remove(&lot);
            }
        }
    }
}
