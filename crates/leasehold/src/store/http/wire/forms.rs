//! How numbers are written that not every language's numbers can hold.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::lease::{Nonce, TOKEN_MAX};
use crate::store::Cursor;

/// A nonce as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Nonce, value_type = String, pattern = "^[0-9a-f]{16}$"))]
pub struct Hex(pub Nonce);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u64::from_str_radix(&text, 16) {
            Ok(number) if digits => Ok(Self(Nonce(number))),
            _ => Err(de::Error::custom("a nonce is 16 hexadecimal digits")),
        }
    }
}

/// A cursor as a decimal string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Cursor, value_type = String, pattern = "^[0-9]{1,20}$"))]
pub struct Position(pub Cursor);

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0.0)
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits => Ok(Self(Cursor(number))),
            _ => Err(de::Error::custom("a cursor is a decimal number in quotes, \"0\" for the beginning")),
        }
    }
}

/// A duration in whole milliseconds, rounded up: who is heard for longer is ended later, never sooner.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).min(TOKEN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_and_cursors_are_written_as_text_and_read_back() {
        let (nonce, cursor) = (Hex(Nonce(u64::MAX - 1)), Position(Cursor(u64::MAX)));
        assert_eq!(serde_json::to_string(&nonce).unwrap(), "\"fffffffffffffffe\"");
        assert_eq!(serde_json::to_string(&cursor).unwrap(), "\"18446744073709551615\"");
        assert_eq!(serde_json::from_str::<Hex>("\"fffffffffffffffe\"").unwrap(), nonce);
        assert_eq!(serde_json::from_str::<Position>("\"18446744073709551615\"").unwrap(), cursor);
        for bad in ["7", "\"7\"", "\"+00000000000000f\"", "\"00000000000000fg\"", "\"0000000000000000f\""] {
            assert!(serde_json::from_str::<Hex>(bad).is_err(), "{bad} was taken");
        }
        for bad in ["7", "\"\"", "\"+7\"", "\"-1\"", "\"18446744073709551616\""] {
            assert!(serde_json::from_str::<Position>(bad).is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn durations_are_rounded_up() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_millis(3)), 3);
        assert_eq!(millis(Duration::MAX), TOKEN_MAX);
    }
}
