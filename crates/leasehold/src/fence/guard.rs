//! The same rule inside the things that people write to, so that nothing can come between the check and the write.
//!
//! | what is written to | what refuses |
//! |---|---|
//! | PostgreSQL | [`POSTGRES`]: a function and a trigger, within the writer's own transaction |
//! | Redis | [`REDIS`]: a script that runs the writer's command |
//! | etcd | [`EtcdTerm`]: a comparison and a write for the writer's own transaction |
//! | a file | [`GuardedFile`]: compare-and-swap on a sidecar, under its lock |
//!
//! Where the leases themselves are on the same server, [`Guard`](crate::store::Guard) needs nothing besides.

mod file;

pub use file::GuardedFile;

use crate::lease::{ResourceId, Token};

/// What makes a PostgreSQL database refuse stale terms. Run it once; it can be run again.
pub const POSTGRES: &str = include_str!("guard/postgres.sql");

/// A script for Redis that runs a command if its term is not stale.
pub const REDIS: &str = include_str!("guard/redis.lua");

/// What an etcd transaction compares and writes under a term. All tokens have the same number of digits, so that they compare as text.
///
/// ```
/// use leasehold::fence::guard::EtcdTerm;
/// use leasehold::{ResourceId, Token};
///
/// let term = EtcdTerm::new("fence/", &ResourceId::new("scene-01")?, Token(42));
/// // The transaction succeeds only if value(key) < below, and puts `value` there besides what it is about.
/// assert_eq!((term.key.as_str(), term.below.as_str()), ("fence/scene-01", "0000000000000043"));
/// assert_eq!((term.value.as_str(), EtcdTerm::FIRST), ("0000000000000042", "0000000000000000"));
/// # Ok::<(), leasehold::lease::IdError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdTerm {
    /// The key that has the newest token.
    pub key: String,
    /// Its value must be less than this.
    pub below: String,
    /// Its value becomes this.
    pub value: String,
}

impl EtcdTerm {
    /// What the key is created with, by a transaction of its own that compares `create_revision(key) = 0`: of a key that is not there etcd
    /// compares no value.
    pub const FIRST: &str = "0000000000000000";

    /// The comparison and the write for a term, with the token of each resource behind `prefix`.
    #[must_use]
    pub fn new(prefix: &str, resource: &ResourceId, token: Token) -> Self {
        let digits = |token: u64| format!("{token:016}");
        Self { key: format!("{prefix}{resource}"), below: digits(token.0 + 1), value: digits(token.0) }
    }
}
