//! Fair shares: weight is poured in like water, the lowest first, and never above a capacity.

/// One vessel: a member's load so far, the most it takes, and its hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vessel {
    pub(super) load: u64,
    pub(super) capacity: u64,
    pub(super) hash: u64,
}

impl Vessel {
    fn takes(&self, level: u64) -> u64 {
        level.min(self.capacity).saturating_sub(self.load)
    }
}

/// The highest whole level to which `weight` fills the vessels, and what is left over above it.
pub(super) fn level(vessels: &[Vessel], weight: u64) -> (u64, u64) {
    let taken = |level| vessels.iter().fold(0_u64, |sum, vessel| sum.saturating_add(vessel.takes(level)));
    let top = vessels.iter().map(|vessel| vessel.load).max().unwrap_or(0).saturating_add(weight);
    let (mut low, mut high) = (0, top);
    while low < high {
        let middle = high - (high - low) / 2;
        if taken(middle) <= weight {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    (low, weight - taken(low))
}

/// How much each vessel should hold once `weight` has been poured in.
///
/// What does not divide evenly goes first to those that hold more already, so that they need not give it away.
pub(super) fn fill(vessels: &[Vessel], weight: u64) -> Vec<u64> {
    let (level, extra) = level(vessels, weight);
    let mut quotas: Vec<u64> = vessels.iter().map(|vessel| vessel.load + vessel.takes(level)).collect();
    let mut open: Vec<usize> =
        (0..vessels.len()).filter(|at| vessels[*at].load <= level && level < vessels[*at].capacity).collect();
    open.sort_by_key(|at| (std::cmp::Reverse((vessels[*at].load, vessels[*at].hash)), *at));
    for at in open.into_iter().take(usize::try_from(extra).unwrap_or(usize::MAX)) {
        quotas[at] += 1;
    }
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vessels(loads: &[(u64, u64)]) -> Vec<Vessel> {
        loads.iter().map(|(load, capacity)| Vessel { load: *load, capacity: *capacity, hash: 0 }).collect()
    }

    const OPEN: u64 = u64::MAX;

    // proves C10, C17
    #[test]
    fn shares_are_the_floor_or_the_ceiling_of_the_ideal() {
        assert_eq!(fill(&vessels(&[(0, OPEN), (0, OPEN), (0, OPEN)]), 10), [4, 3, 3]);
        assert_eq!(fill(&vessels(&[(0, OPEN), (0, OPEN), (0, OPEN)]), 9), [3, 3, 3]);
    }

    #[test]
    fn the_lowest_are_filled_first() {
        assert_eq!(fill(&vessels(&[(10, OPEN), (0, OPEN), (2, OPEN)]), 5), [10, 3, 4]);
    }

    // proves C10
    #[test]
    fn nobody_is_filled_above_its_capacity() {
        assert_eq!(fill(&vessels(&[(0, 2), (0, OPEN), (1, 1)]), 10), [2, 8, 1]);
        assert_eq!(fill(&vessels(&[(0, 2), (0, 3)]), 10), [2, 3]);
    }

    #[test]
    fn what_does_not_divide_evenly_stays_with_those_that_hold_more() {
        assert_eq!(fill(&vessels(&[(1, OPEN), (2, OPEN), (0, OPEN)]), 4), [2, 3, 2]);
        assert_eq!(fill(&[], 4), Vec::<u64>::new());
    }
}
