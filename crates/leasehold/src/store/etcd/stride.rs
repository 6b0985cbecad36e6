//! How far a request for a page reaches.
//!
//! etcd walks over everything in the range that it is asked for, to count it, however little of it fits into the page. So a page is asked
//! for in a range that should hold little more, going by how far the last one came. That is a guess: where it falls short, the next
//! request goes on where the range ended, and reaches further.

use super::keys::Key;

/// How many times the distance of the last page a request reaches, and how many times further the next one does if that was too short.
const AHEAD: u64 = 2;
const FURTHER: u64 = 4;
/// How many bytes of a key are reckoned with.
const WIDTH: usize = size_of::<u64>();

/// A distance between keys: a number, in the bytes from a certain one on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stride {
    from: usize,
    distance: u64,
}

impl Stride {
    /// For after a page with this first and last key.
    pub(super) fn of(first: &[u8], last: &[u8]) -> Self {
        let common = first.iter().zip(last).take_while(|(one, other)| one == other).count();
        // One byte more, for the carry.
        let from = common.saturating_sub(1);
        let distance = number(last, from).saturating_sub(number(first, from)).max(1);
        Self { from, distance: distance.saturating_mul(AHEAD) }
    }

    /// For after a range that held less than a page.
    pub(super) fn further(self) -> Self {
        Self { distance: self.distance.saturating_mul(FURTHER), ..self }
    }

    /// Where a range ends that begins at `key`: beyond it, and not beyond `end`.
    pub(super) fn end_after(self, key: &[u8], end: &Key) -> Key {
        let Some(reached) = number(key, self.from).checked_add(self.distance) else { return end.clone() };
        let mut reached_key = key.get(..self.from).unwrap_or_default().to_vec();
        reached_key.extend(reached.to_be_bytes());
        if reached_key.as_slice() > key { reached_key.min(end.clone()) } else { end.clone() }
    }
}

/// The bytes of a key from a certain one on, as a number.
fn number(key: &[u8], from: usize) -> u64 {
    let mut bytes = [0; WIDTH];
    for (byte, found) in bytes.iter_mut().zip(key.iter().skip(from)) {
        *byte = *found;
    }
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        format!("p/m{:03}-{:07}", number / 1000, number % 1000).into_bytes()
    }

    #[test]
    fn a_range_goes_on_where_the_page_ended_and_never_beyond_the_end() {
        let end = b"p0".to_vec();
        let stride = Stride::of(&key(100), &key(199));
        let reached = stride.end_after(&key(200), &end);
        assert!(reached > key(299) && reached < key(1000), "{}", String::from_utf8_lossy(&reached));
        let mut wide = stride;
        for _ in 0..40 {
            wide = wide.further();
            let reached = wide.end_after(&key(200), &end);
            assert!(reached > key(200) && reached <= end);
        }
        assert_eq!(wide.end_after(&key(200), &end), end, "in the end all of it");
        for (first, last) in
            [(&b""[..], &b""[..]), (b"a", b"a"), (b"a", b"a\xff\xff"), (b"\xff", b"\xff\xff")]
        {
            let reached = Stride::of(first, last).end_after(last, &vec![0xff; 12]);
            assert!(reached.as_slice() > last, "{last:?} to {reached:?}");
        }
    }

    #[test]
    fn many_keys_are_walked_over_a_few_times_only() {
        let (end, limit) = (b"p0".to_vec(), 500);
        let keys: Vec<Key> = (0..100_000).map(key).collect();
        let (mut from, mut range_end, mut stride) = (key(0), end.clone(), Stride::of(b"", b""));
        let (mut seen, mut walked, mut requests) = (0, 0, 0);
        loop {
            let found: Vec<&Key> = keys.iter().filter(|key| **key >= from && **key < range_end).collect();
            (walked, requests) = (walked + found.len(), requests + 1);
            let page = &found[..found.len().min(limit)];
            seen += page.len();
            if found.len() > limit {
                stride = Stride::of(page[0], page[limit - 1]);
                from = [page[limit - 1].as_slice(), &[0]].concat();
            } else if range_end == end {
                break;
            } else {
                stride = stride.further();
                from = range_end;
            }
            range_end = stride.end_after(&from, &end);
        }
        assert_eq!(seen, keys.len(), "every key once");
        assert!(walked < 8 * keys.len() && requests < 1500, "walked over {walked} in {requests} requests");
    }
}
