//! Where a camera goes: to the shard that has the fewest. It stays there.

/// The shard that has the fewest of those with room, without the one that is to be avoided; among equals the first.
#[must_use]
pub fn place(loads: &[usize], most: usize, avoid: Option<usize>) -> Option<usize> {
    let shards = loads.iter().enumerate().filter(|(shard, load)| **load < most && Some(*shard) != avoid);
    shards.min_by_key(|(shard, load)| (**load, *shard)).map(|(shard, _)| shard)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves R221
    #[test]
    fn cameras_are_spread_evenly_and_no_shard_has_too_many() {
        let mut loads = [0; 4];
        for _ in 0..10 {
            let shard = place(&loads, 3, None).expect("room");
            loads[shard] += 1;
        }
        assert_eq!(loads, [3, 3, 2, 2]);
        assert_eq!(place(&[3, 3], 3, None), None);
        assert_eq!(place(&[], 3, None), None);
    }

    #[test]
    fn the_shard_that_just_died_is_avoided() {
        assert_eq!(place(&[0, 2], 3, Some(0)), Some(1));
        assert_eq!(place(&[0], 3, Some(0)), None);
    }
}
