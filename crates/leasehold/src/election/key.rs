//! What an election is about: a key, which need not be an id.

use std::fmt;
use std::str::FromStr;

use crate::lease::{ID_MAX, Pool, ResourceId};

/// Why a string is not the key of an election.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The string is empty.
    #[error("the key of an election is empty; give one, as in /ccm/scheduler/leader")]
    Empty,
    /// The string holds a control character.
    #[error("the key {shown:?} of an election contains a control character; use printable ones")]
    Control {
        /// The key.
        shown: String,
    },
    /// The string is too long.
    #[error(
        "the key of an election has {length} characters once its special ones are written as ids need it; at most {ID_MAX} are allowed"
    )]
    Long {
        /// How many characters its pool's id would have.
        length: usize,
    },
}

/// The key of an election: `/ccm/scheduler/leader`. Every key is a pool of its own with one resource, the leader's seat.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    text: String,
    pool: Pool,
    seat: ResourceId,
}

impl Key {
    /// Checks and takes a key.
    ///
    /// # Errors
    /// It is empty, too long, or contains control characters.
    pub fn new(text: impl AsRef<str>) -> Result<Self, KeyError> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(KeyError::Empty);
        }
        if text.chars().any(char::is_control) {
            return Err(KeyError::Control { shown: text.chars().take(ID_MAX).collect() });
        }
        let id = as_id(text);
        let long = |_| KeyError::Long { length: id.len() };
        let pool = Pool::new(&id).map_err(long)?;
        let seat = ResourceId::new("leader").map_err(long)?;
        Ok(Self { text: text.to_owned(), pool, seat })
    }

    /// The key as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The pool in which candidates meet.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The one resource of that pool.
    #[must_use]
    pub fn seat(&self) -> &ResourceId {
        &self.seat
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::new(text)
    }
}

/// Two keys have two ids: a slash is a dot, letters, digits and dashes are themselves, and every other byte is an
/// underscore and two hexadecimal digits.
fn as_id(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'/' => ".".to_owned(),
            b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
            other => format!("_{other:02x}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    // proves R114, R123
    #[test]
    fn keys_are_pools_and_different_keys_are_different_ones() {
        assert_eq!(Key::new("/ccm/scheduler/leader").unwrap().pool().as_str(), ".ccm.scheduler.leader");
        let keys = ["/a/b", "a/b", "/a.b", ".a.b", "/a_2eb", "a b", "a_20b", "/a/b/", "ä", "_c3_a4"];
        let pools: HashSet<Pool> = keys.iter().map(|key| Key::new(key).unwrap().pool().clone()).collect();
        assert_eq!(pools.len(), keys.len(), "{pools:?}");
    }

    #[test]
    fn what_is_no_key_is_refused_with_a_sentence() {
        assert_eq!(Key::new(""), Err(KeyError::Empty));
        assert!(Key::new("a\nb").unwrap_err().to_string().contains("control character"));
        assert_eq!(Key::new("x".repeat(129)), Err(KeyError::Long { length: 129 }));
        assert_eq!(Key::new("ä".repeat(22)), Err(KeyError::Long { length: 132 }));
    }
}
