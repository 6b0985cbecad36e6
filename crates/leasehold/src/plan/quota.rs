//! Fair shares: weight is poured in like water, the lowest first, and never above a capacity.

/// One vessel: a member's load so far, and the most it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vessel {
    pub(super) load: u64,
    pub(super) capacity: u64,
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

/// How much each vessel should hold once `weight` has been poured in: the least and the most.
///
/// The second value says how many vessels get the most; they differ by one unit from the others.
pub(super) fn fill(vessels: &[Vessel], weight: u64) -> (Vec<(u64, u64)>, u64) {
    let (level, extra) = level(vessels, weight);
    let quota = |vessel: &Vessel| {
        let floor = vessel.load + vessel.takes(level);
        let open = extra > 0 && vessel.load <= level && level < vessel.capacity;
        (floor, floor + u64::from(open))
    };
    (vessels.iter().map(quota).collect(), extra)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(vessels: &[(u64, u64)], weight: u64) -> (Vec<(u64, u64)>, u64) {
        let vessels: Vec<Vessel> =
            vessels.iter().map(|(load, capacity)| Vessel { load: *load, capacity: *capacity }).collect();
        fill(&vessels, weight)
    }

    const OPEN: u64 = u64::MAX;

    // proves C10, C17
    #[test]
    fn shares_are_the_floor_or_the_ceiling_of_the_ideal() {
        assert_eq!(filled(&[(0, OPEN), (0, OPEN), (0, OPEN)], 10), (vec![(3, 4), (3, 4), (3, 4)], 1));
        assert_eq!(filled(&[(0, OPEN), (0, OPEN), (0, OPEN)], 9), (vec![(3, 3), (3, 3), (3, 3)], 0));
    }

    #[test]
    fn the_lowest_are_filled_first() {
        assert_eq!(filled(&[(10, OPEN), (0, OPEN), (2, OPEN)], 5), (vec![(10, 10), (3, 4), (3, 4)], 1));
    }

    // proves C10
    #[test]
    fn nobody_is_filled_above_its_capacity() {
        assert_eq!(filled(&[(0, 2), (0, OPEN), (1, 1)], 10), (vec![(2, 2), (8, 8), (1, 1)], 0));
        assert_eq!(filled(&[(0, 2), (0, 3)], 10), (vec![(2, 2), (3, 3)], 5));
        assert_eq!(filled(&[], 4), (vec![], 4));
    }
}
