//! A transaction while it is being decided: what was read, what would be written.
//!
//! Invariant: what is committed rests on what was read. Every key that a decision rests on is compared in the transaction
//! that carries it out, except facts that cannot change any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::keys::Key;
use super::record::{decode, encode};
use crate::store::StoreError;

/// Why a decision could not be made.
#[derive(Debug)]
pub(super) enum Stop {
    /// These keys must be read first.
    Need(Vec<Key>),
    Failed(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// A key's value and the revision of its last change; 0 and nothing if there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Versioned {
    pub(super) revision: i64,
    pub(super) value: Option<Arc<[u8]>>,
}

#[derive(Debug)]
struct Read {
    found: Versioned,
    /// Which answer brought it; 0 is an earlier call's.
    answer: u64,
    used: bool,
    compared: bool,
}

/// What becomes of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Write {
    /// With the etcd lease that it is on, 0 for none.
    Put(Arc<[u8]>, i64),
    Delete,
}

/// What was read and what would be written.
#[derive(Debug, Default)]
pub(super) struct Draft {
    reads: BTreeMap<Key, Read>,
    writes: BTreeMap<Key, Write>,
    answers: u64,
}

impl Draft {
    /// Begins a decision anew on what is known.
    pub(super) fn begin(&mut self) {
        self.writes.clear();
        for read in self.reads.values_mut() {
            (read.used, read.compared) = (false, false);
        }
    }

    /// Forgets everything that was read.
    pub(super) fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
    }

    /// Takes in what an earlier call knew.
    pub(super) fn suppose(&mut self, key: Key, found: Versioned) {
        self.reads.insert(key, Read { found, answer: 0, used: false, compared: false });
    }

    /// Takes in what one answer of the server said about some keys.
    pub(super) fn learn(&mut self, found: impl IntoIterator<Item = (Key, Versioned)>) {
        self.answers += 1;
        let answer = self.answers;
        for (key, found) in found {
            self.reads.insert(key, Read { found, answer, used: false, compared: false });
        }
    }

    /// Asks for keys that will be looked at, all at once.
    pub(super) fn need(&self, keys: impl IntoIterator<Item = Key>) -> Result<(), Stop> {
        let mut lacking: Vec<Key> = keys.into_iter().filter(|key| !self.reads.contains_key(key)).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        lacking.sort_unstable();
        lacking.dedup();
        Err(Stop::Need(lacking))
    }

    /// Looks at a key on whose value nothing that is written rests.
    pub(super) fn peek<T: DeserializeOwned>(&mut self, key: &Key) -> Result<Option<T>, Stop> {
        match self.bytes(key)? {
            Some(bytes) => Ok(Some(decode(key, &bytes)?)),
            None => Ok(None),
        }
    }

    /// Looks at a key that must still be the same when this is committed.
    pub(super) fn read<T: DeserializeOwned>(&mut self, key: &Key) -> Result<Option<T>, Stop> {
        let value = self.peek(key)?;
        self.compare(key);
        Ok(value)
    }

    /// A key's value as it would be after this.
    pub(super) fn bytes(&mut self, key: &Key) -> Result<Option<Arc<[u8]>>, Stop> {
        self.need([key.clone()])?;
        if let Some(read) = self.reads.get_mut(key) {
            read.used = true;
        }
        Ok(match self.writes.get(key) {
            Some(Write::Put(value, _)) => Some(Arc::clone(value)),
            Some(Write::Delete) => None,
            None => self.reads.get(key).and_then(|read| read.found.value.clone()),
        })
    }

    /// A key that was looked at must still be the same when this is committed.
    pub(super) fn compare(&mut self, key: &Key) {
        if let Some(read) = self.reads.get_mut(key) {
            read.compared = true;
        }
    }

    pub(super) fn put(&mut self, key: Key, value: &impl Serialize) -> Result<(), Stop> {
        self.writes.insert(key, Write::Put(encode(value)?.into(), 0));
        Ok(())
    }

    /// Puts bytes on an etcd lease.
    pub(super) fn put_on_lease(&mut self, key: Key, value: &[u8], lease: i64) {
        self.writes.insert(key, Write::Put(value.into(), lease));
    }

    pub(super) fn delete(&mut self, key: Key) {
        self.writes.insert(key, Write::Delete);
    }

    pub(super) fn writes(&self) -> &BTreeMap<Key, Write> {
        &self.writes
    }

    /// Whether nothing is written and everything it rests on was true at one instant of this call.
    pub(super) fn is_settled(&self) -> bool {
        let mut answers = self.reads.values().filter(|read| read.used).map(|read| read.answer);
        let first = answers.next();
        self.writes.is_empty() && first != Some(0) && answers.all(|answer| Some(answer) == first)
    }

    /// What must still hold. A decision that writes nothing rests on everything that it looked at.
    pub(super) fn compares(&self) -> Vec<(&Key, &Versioned)> {
        let all = self.writes.is_empty();
        let reads = self.reads.iter().filter(|(_, read)| read.compared || (all && read.used));
        reads.map(|(key, read)| (key, &read.found)).collect()
    }

    /// A key as it is once this was committed at `revision`.
    pub(super) fn after(&self, key: &Key, revision: i64) -> Option<Versioned> {
        match self.writes.get(key) {
            Some(Write::Put(value, _)) => Some(Versioned { revision, value: Some(Arc::clone(value)) }),
            Some(Write::Delete) => None,
            None => self.reads.get(key).map(|read| read.found.clone()).filter(|found| found.revision > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(revision: i64, text: &str) -> Versioned {
        Versioned { revision, value: Some(text.as_bytes().into()) }
    }

    fn key(name: &str) -> Key {
        name.as_bytes().to_vec()
    }

    #[test]
    fn what_was_not_read_is_asked_for_and_what_is_written_is_seen() {
        let mut draft = Draft::default();
        assert!(matches!(draft.read::<u64>(&key("a")), Err(Stop::Need(keys)) if keys == [key("a")]));
        draft.learn([(key("a"), found(3, "7"))]);
        assert_eq!(draft.read::<u64>(&key("a")).unwrap(), Some(7));
        draft.put(key("a"), &8_u64).unwrap();
        assert_eq!(draft.read::<u64>(&key("a")).unwrap(), Some(8));
        assert_eq!(draft.compares(), [(&key("a"), &found(3, "7"))]);
    }

    #[test]
    fn an_answer_that_writes_nothing_is_given_only_for_one_instant() {
        let mut draft = Draft::default();
        draft.suppose(key("a"), found(3, "7"));
        let _ = draft.peek::<u64>(&key("a"));
        assert!(!draft.is_settled(), "an earlier call's knowledge may be old");
        assert_eq!(draft.compares(), [(&key("a"), &found(3, "7"))], "and is compared");
        draft.learn([(key("a"), found(4, "8")), (key("b"), Versioned::default())]);
        let _ = (draft.peek::<u64>(&key("a")), draft.peek::<u64>(&key("b")));
        assert!(draft.is_settled());
        draft.learn([(key("c"), Versioned::default())]);
        let _ = draft.peek::<u64>(&key("c"));
        assert!(!draft.is_settled(), "two answers are two instants");
        draft.put(key("d"), &1_u64).unwrap();
        assert_eq!(draft.compares(), [], "nothing was read that the write rests on");
    }
}
