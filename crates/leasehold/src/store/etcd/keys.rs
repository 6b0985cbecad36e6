//! Where everything lies under the prefix.
//!
//! Invariant: no id holds a `/`, and every range that is read ends with one, so that no pool, member or resource is taken for
//! another whose name it begins.

use crate::lease::{MemberId, Nonce, Pool, ResourceId};
use crate::store::{ListingId, MarkKind};

/// A key as etcd has it.
pub(super) type Key = Vec<u8>;

/// The keys under one prefix.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    fn key(&self, rest: &str) -> Key {
        format!("{}/{rest}", self.prefix).into_bytes()
    }

    /// Everything.
    pub(super) fn all(&self) -> Key {
        self.key("")
    }

    /// The ranges in which something may happen that is worth a hint: everything but the ledger and listings.
    pub(super) fn watched(&self) -> Vec<(Key, Key)> {
        let families = ["lease/", "mark/", "resource/", "session/"].map(|family| self.key(family));
        let mut ranges: Vec<(Key, Key)> =
            families.into_iter().map(|family| (family.clone(), end_of(&family))).collect();
        ranges.push((self.era(), Vec::new()));
        ranges
    }

    pub(super) fn era(&self) -> Key {
        self.key("era")
    }

    /// An era that is over.
    pub(super) fn past(&self, nonce: Nonce) -> Key {
        self.key(&format!("past/{nonce}"))
    }

    /// Which pool a member's session is in. Written once with the session, so it never changes.
    pub(super) fn pool_of(&self, member: &MemberId) -> Key {
        self.key(&format!("of/{member}"))
    }

    pub(super) fn session(&self, pool: &Pool, member: &MemberId) -> Key {
        self.key(&format!("session/{pool}/{member}"))
    }

    pub(super) fn sessions(&self, pool: &Pool) -> Key {
        self.key(&format!("session/{pool}/"))
    }

    pub(super) fn all_sessions(&self) -> Key {
        self.key("session/")
    }

    pub(super) fn lease(&self, pool: &Pool, resource: &ResourceId) -> Key {
        self.key(&format!("lease/{pool}/{resource}"))
    }

    pub(super) fn leases(&self, pool: &Pool) -> Key {
        self.key(&format!("lease/{pool}/"))
    }

    pub(super) fn mark(&self, pool: &Pool, kind: MarkKind, subject: &str) -> Key {
        self.key(&format!("mark/{pool}/{}/{subject}", kind.as_str()))
    }

    pub(super) fn marks(&self, pool: &Pool) -> Key {
        self.key(&format!("mark/{pool}/"))
    }

    pub(super) fn resource(&self, pool: &Pool, resource: &ResourceId) -> Key {
        self.key(&format!("resource/{pool}/{resource}"))
    }

    pub(super) fn resources(&self, pool: &Pool) -> Key {
        self.key(&format!("resource/{pool}/"))
    }

    /// The key that is written together with anything under this range, so that nobody has to read a large range to learn
    /// that nothing in it has changed. Only ranges that may be large have one.
    pub(super) fn touched(&self, range: &[u8]) -> Option<Key> {
        let range = after(range, &self.all())?;
        let large = ["lease/", "resource/"].iter().any(|family| range.starts_with(family));
        large.then(|| self.key(&format!("touched/{range}")))
    }

    /// The same for the range that a key lies in.
    pub(super) fn touched_with(&self, key: &[u8]) -> Option<Key> {
        let last = key.iter().rposition(|byte| *byte == b'/')?;
        self.touched(key.get(..=last)?)
    }

    /// The families that make a pool known.
    pub(super) fn of_pools(&self) -> [Key; 3] {
        ["lease/", "resource/", "session/"].map(|family| self.key(family))
    }

    /// Says that all parts of a listing are there, and how many.
    pub(super) fn listing(&self, pool: &Pool, id: &ListingId) -> Key {
        self.key(&format!("listing/{pool}/{}", id.0))
    }

    pub(super) fn listing_part(&self, pool: &Pool, id: &ListingId, part: usize) -> Key {
        self.key(&format!("part/{pool}/{}/{part:06}", id.0))
    }

    pub(super) fn listing_parts(&self, pool: &Pool, id: &ListingId) -> Key {
        self.key(&format!("part/{pool}/{}/", id.0))
    }

    pub(super) fn all_parts(&self, pool: &Pool) -> Key {
        self.key(&format!("part/{pool}/"))
    }

    /// The number of a pool's newest row.
    pub(super) fn rows(&self, pool: &Pool) -> Key {
        self.key(&format!("rows/{pool}"))
    }

    pub(super) fn row(&self, pool: &Pool, row: u64) -> Key {
        self.key(&format!("row/{pool}/{row:020}"))
    }

    pub(super) fn all_rows(&self, pool: &Pool) -> Key {
        self.key(&format!("row/{pool}/"))
    }

    /// The number of the row with a member's last heartbeat.
    pub(super) fn renewed(&self, pool: &Pool, member: &MemberId) -> Key {
        self.key(&format!("renewed/{pool}/{member}"))
    }
}

/// Where the range of keys that begin with `prefix` ends.
pub(super) fn end_of(prefix: &[u8]) -> Key {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // Every key begins with nothing.
    vec![0]
}

/// What follows `prefix` in `key`, as text.
pub(super) fn after<'a>(key: &'a [u8], prefix: &[u8]) -> Option<&'a str> {
    std::str::from_utf8(key.strip_prefix(prefix)?).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_written_in_a_large_range_touches_it_and_nothing_else_does() {
        let keys = Keys::new("lh");
        let pool = Pool::new("a").unwrap();
        let lease = keys.lease(&pool, &ResourceId::new("x:1").unwrap());
        assert_eq!(keys.touched_with(&lease), keys.touched(&keys.leases(&pool)));
        assert_eq!(keys.touched_with(&lease), Some(b"lh/touched/lease/a/".to_vec()));
        let session = keys.session(&pool, &MemberId::generate());
        assert_eq!((keys.touched_with(&session), keys.touched_with(&keys.era())), (None, None));
    }

    use super::*;

    #[test]
    fn a_range_ends_before_the_next_name_that_begins_alike() {
        let keys = Keys::new("leasehold");
        let (one, ten) = (Pool::new("t1").unwrap(), Pool::new("t10").unwrap());
        let range = keys.sessions(&one)..end_of(&keys.sessions(&one));
        let member = MemberId::new("m").unwrap();
        assert!(range.contains(&keys.session(&one, &member)));
        assert!(!range.contains(&keys.session(&ten, &member)));
        assert_eq!((end_of(b"a\xff"), end_of(b"\xff")), (b"b".to_vec(), vec![0]));
    }
}
