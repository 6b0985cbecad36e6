//! Resources that others keep on the store's own Redis server: sessions, or a plain set or hash.
//!
//! They are read on a connection of their own. What cannot be used is reported once and left out; the rest is not disturbed
//! by it.

mod collection;
mod duty;
mod events;
mod reports;
mod session;
mod sessions;

use async_trait::async_trait;
use serde_json::Value;

pub use self::collection::RedisCollection;
pub use self::session::SessionKeys;
pub use self::sessions::RedisSessions;
use super::{Source, SourceError};
use crate::lease::ResourceId;

/// The most resources that are taken from one source.
const FOUND_MAX: usize = 100_000;
/// How many values are asked for together.
const TOGETHER: usize = 256;
/// The most bytes that one value may have.
const VALUE_MAX: usize = 64 * 1024;

/// What is kept about a resource.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// Nothing: it is there no longer, or cannot be used.
    Gone,
    /// It rests for now.
    Paused,
    /// A JSON object, or `{"address": TEXT}` where there is only text.
    Kept(Value),
}

/// A source that keeps something about each resource, such as where to find it.
#[async_trait]
pub trait Targets: Source {
    /// What is kept about these now; answer `i` is about resource `i`.
    async fn records(&self, ids: &[ResourceId]) -> Result<Vec<Record>, SourceError>;
}
