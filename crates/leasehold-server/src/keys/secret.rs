//! The text of a key, and its hash.
//!
//! A key has 256 random bits, so a fast hash is enough: there is nothing to guess.

use std::fmt;

use leasehold::store::StoreError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What every key begins with, so that people and scanners know one when they see it.
const PREFIX: &str = "lh_";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;

/// The text of a key. Nothing prints it by mistake.
pub struct Secret(String);

impl Secret {
    /// The text itself, for whoever asked for the key.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

fn random(bytes: usize) -> Result<String, StoreError> {
    let mut random = vec![0_u8; bytes];
    getrandom::fill(&mut random).map_err(|error| {
        StoreError::misconfigured(format!(
            "this system gives no random bytes, so no key can be made: {error}"
        ))
    })?;
    Ok(hex(&random))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A new key and its id.
pub(super) fn generate() -> Result<(String, Secret), StoreError> {
    let id = random(ID_BYTES)?;
    let secret = generate_for(&id)?;
    Ok((id, secret))
}

/// A new key with an id that is there already.
pub(super) fn generate_for(id: &str) -> Result<Secret, StoreError> {
    Ok(Secret(format!("{PREFIX}{id}_{}", random(SECRET_BYTES)?)))
}

/// The id that a key names, if it looks like one at all.
pub(crate) fn id_of(key: &str) -> Option<&str> {
    let (id, secret) = key.strip_prefix(PREFIX)?.split_once('_')?;
    let hex = |text: &str, bytes: usize| {
        text.len() == 2 * bytes && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    (hex(id, ID_BYTES) && hex(secret, SECRET_BYTES)).then_some(id)
}

/// What is kept of a key.
#[derive(Clone, Copy)]
pub(crate) struct Hash([u8; 32]);

impl Hash {
    /// No key has it, as far as anybody knows.
    pub(crate) const NONE: Self = Self([0; 32]);

    pub(crate) fn of(key: &str) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// Whether they are the same, in a time that does not say where they differ.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let digits = text.is_ascii() && text.len() == 64;
        let byte = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = (0..64).step_by(2).map(byte).collect();
        let bytes = bytes.filter(|_| digits).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("no hash"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_id_and_prints_nothing() {
        let (id, secret) = generate().unwrap();
        assert_eq!(id_of(secret.expose()), Some(id.as_str()));
        assert_eq!(secret.expose().len(), 3 + 12 + 1 + 64);
        assert_eq!(format!("{secret:?} {:?}", Hash::of(secret.expose())), "Secret Hash");
        for no_key in ["", "lh_", "lh_0_0", &secret.expose()[1..], &format!("{}0", secret.expose())] {
            assert_eq!(id_of(no_key), None, "{no_key:?}");
        }
    }

    #[test]
    fn a_hash_comes_back_as_it_was_and_differs_for_other_keys() {
        let hash = Hash::of("a");
        let back: Hash = serde_json::from_str(&serde_json::to_string(&hash).unwrap()).unwrap();
        assert!(hash.is(&back));
        assert!(!hash.is(&Hash::of("b")));
        for bad in ["\"\"", "\"zz\"", &format!("\"{}\"", "ü".repeat(32))] {
            assert!(serde_json::from_str::<Hash>(bad).is_err(), "{bad}");
        }
    }
}
