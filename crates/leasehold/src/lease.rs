//! The words of the product as types: pool, resource, member, token, term.
//!
//! Ids are checked here, at the edge, and nowhere else: whoever holds an id of one of these types holds a
//! valid one.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize, Serializer};

use crate::clock;

/// The most characters an id may have.
pub const ID_MAX: usize = 128;
/// Tokens stay below this bound, so that every language's numbers can hold them.
pub const TOKEN_MAX: u64 = (1 << 53) - 1;

/// Why a string is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The string is empty.
    #[error("{what} is empty; give 1 to {ID_MAX} characters of {alphabet}")]
    Empty {
        /// Which kind of id was expected.
        what: &'static str,
        /// The characters that are allowed.
        alphabet: &'static str,
    },
    /// The string is too long.
    #[error("{what} has {length} bytes; at most {ID_MAX} are allowed")]
    Long {
        /// Which kind of id was expected.
        what: &'static str,
        /// How many bytes were given.
        length: usize,
    },
    /// The string holds a character outside the alphabet.
    #[error("{what} {shown:?} contains {found:?}; use only {alphabet}")]
    Character {
        /// Which kind of id was expected.
        what: &'static str,
        /// The offending id.
        shown: String,
        /// The first character that is not allowed.
        found: char,
        /// The characters that are allowed.
        alphabet: &'static str,
    },
}

const PLAIN: &str = "letters, digits, '.', '_' and '-'";
const EXTENDED: &str = "letters, digits, '.', '_', '-', ':', '@', '+' and '='";

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn is_extended(c: char) -> bool {
    is_plain(c) || matches!(c, ':' | '@' | '+' | '=')
}

fn check(
    what: &'static str,
    text: &str,
    allowed: fn(char) -> bool,
    alphabet: &'static str,
) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { what, alphabet });
    }
    if text.len() > ID_MAX {
        return Err(IdError::Long { what, length: text.len() });
    }
    match text.chars().find(|c| !allowed(*c)) {
        Some(found) => Err(IdError::Character { what, shown: text.to_owned(), found, alphabet }),
        None => Ok(()),
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $allowed:ident, $alphabet:ident, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "openapi", schema(value_type = String, min_length = 1, max_length = 128, pattern = $pattern))]
        #[serde(try_from = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes an id.
            ///
            /// # Errors
            /// Says which character or length is wrong and what is allowed.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                let text = text.as_ref();
                check($what, text, $allowed, $alphabet)?;
                Ok(Self(text.into()))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

id!(
    /// A set of resources that a group of members shares out.
    Pool, "pool", is_plain, PLAIN, "^[A-Za-z0-9._-]+$"
);
id!(
    /// One piece of work in a pool.
    ResourceId, "resource id", is_extended, EXTENDED, "^[A-Za-z0-9._:@+=-]+$"
);
id!(
    /// The stable name of a member, the same after a restart.
    MemberName, "member name", is_plain, PLAIN, "^[A-Za-z0-9._-]+$"
);
id!(
    /// One incarnation of a member in a pool: `hostname-bootnanos-8hex`, never reused. A member's session
    /// carries the member's id, so the two are one type; a member that lost its session goes on under a new id.
    MemberId, "member id", is_plain, PLAIN, "^[A-Za-z0-9._-]+$"
);

impl MemberName {
    /// The host's name, made to fit.
    #[must_use]
    pub fn of_host() -> Self {
        Self(short_label(&host_name()).into())
    }
}

impl MemberId {
    /// Makes an id that no other process, start or session has: host name, nanoseconds, random suffix.
    ///
    /// Long names are cut to 40 characters, the rest folded into a short hash, so that ids stay below 80.
    #[must_use]
    pub fn generate() -> Self {
        Self::beginning_with(&host_name())
    }

    /// The same with a member's name in front, for those who look for it by that.
    #[must_use]
    pub fn generate_for(name: &MemberName) -> Self {
        Self::beginning_with(name.as_str())
    }

    /// A new id for a session that is kept for somebody else. They sort by the time of their making, so that those who come
    /// and go together lie together.
    #[must_use]
    pub fn generate_in_order() -> Self {
        Self(format!("lease-{}-{:08x}", clock::unix_nanos(), from_stock()).into())
    }

    fn beginning_with(label: &str) -> Self {
        let mut suffix = [0_u8; 4];
        // Without a random source the nanosecond stamp still tells two starts on one host apart.
        let _ = getrandom::fill(&mut suffix);
        let suffix = u32::from_le_bytes(suffix);
        Self(format!("{}-{}-{suffix:08x}", short_label(label), clock::unix_nanos()).into())
    }
}

/// A random number out of those that were fetched together: where many ids are made, the system is not asked for each.
fn from_stock() -> u32 {
    static STOCK: Mutex<Vec<[u8; 4]>> = Mutex::new(Vec::new());
    let mut stock = STOCK.lock().unwrap_or_else(PoisonError::into_inner);
    if stock.is_empty() {
        let mut bytes = [0_u8; 256];
        // Without a random source the nanosecond stamp still tells most of them apart.
        let _ = getrandom::fill(&mut bytes);
        stock.extend(bytes.as_chunks().0);
    }
    u32::from_le_bytes(stock.pop().unwrap_or_default())
}

/// The host's name as the system gives it, or `localhost`.
#[must_use]
pub fn host_name() -> String {
    #[cfg(unix)]
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").ok();
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}

fn short_label(name: &str) -> String {
    let clean: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    if clean.len() <= 40 {
        return clean;
    }
    let hash = crate::plan::rendezvous::hash_id(name);
    format!("{}{:08x}", &clean[..40], hash as u32)
}

/// The fencing token: rises with every change of hands of a resource, never falls, never repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Token(pub u64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits && number <= TOKEN_MAX => Ok(Self(number)),
            _ => Err(TokenError { shown: text.chars().take(40).collect() }),
        }
    }
}

/// A string is not a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{shown:?} is not a token; a token is a whole decimal number up to {TOKEN_MAX}")]
pub struct TokenError {
    shown: String,
}

/// A resource together with a token: one tenure of one holder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Term {
    /// The resource that is held.
    pub resource: ResourceId,
    /// The token it is held under.
    pub token: Token,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.resource, self.token)
    }
}

/// The counter a heartbeat raises; supplied by the member itself, only ever rising.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct BeatNumber(pub u64);

/// Names one era of a store: one unbroken memory of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonce(pub u64);

impl Nonce {
    /// A nonce that no era had before. It stays in the range of a signed 64-bit column.
    #[must_use]
    pub fn generate() -> Self {
        let mut bytes = [0_u8; 8];
        if getrandom::fill(&mut bytes).is_err() {
            bytes = clock::unix_nanos().to_le_bytes();
        }
        Self(u64::from_le_bytes(bytes) >> 1)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_outside_the_alphabet_are_refused_with_a_sentence() {
        for bad in ["", "a/b", "a b", "a\nb", "ü", "a\0", &"x".repeat(129)] {
            assert!(ResourceId::new(bad).is_err(), "{bad:?} was taken");
            assert!(Pool::new(bad).is_err(), "{bad:?} was taken");
        }
        assert!(ResourceId::new("cam:7@site+1=x").is_ok());
        assert!(Pool::new("a:b").is_err());
        let said = ResourceId::new("a/b").unwrap_err().to_string();
        assert_eq!(
            said,
            "resource id \"a/b\" contains '/'; use only letters, digits, '.', '_', '-', ':', '@', '+' and '='"
        );
    }

    // proves R068, R076, C11
    #[test]
    fn member_ids_are_unique_short_and_valid() {
        let one = MemberId::generate();
        assert_ne!(one, MemberId::generate());
        assert!(MemberId::new(one.as_str()).is_ok());
        assert!(one.as_str().len() < 80);
        let long = short_label(&"very-long-host-name".repeat(10));
        assert_eq!(long.len(), 48);
        assert_ne!(long, short_label(&"very-long-host-namf".repeat(10)));
    }

    #[test]
    fn ids_that_are_made_in_order_are_valid_and_none_is_made_twice() {
        let ids: Vec<MemberId> = (0..1000).map(|_| MemberId::generate_in_order()).collect();
        assert!(ids.iter().all(|id| MemberId::new(id.as_str()).is_ok() && id.as_str().len() < 40));
        let suffixes: std::collections::HashSet<_> =
            ids.iter().filter_map(|id| id.as_str().rsplit_once('-')).map(|(_, suffix)| suffix).collect();
        // Of a thousand random numbers of 32 bits hardly two are the same.
        assert!(suffixes.len() > 990, "{}", suffixes.len());
    }

    #[test]
    fn tokens_are_plain_decimal_numbers_below_the_bound() {
        assert_eq!("42".parse(), Ok(Token(42)));
        for bad in ["", "+1", "-1", " 1", "1e3", "0x1", "9007199254740992", "99999999999999999999999"] {
            assert!(bad.parse::<Token>().is_err(), "{bad:?} was taken");
        }
    }
}
