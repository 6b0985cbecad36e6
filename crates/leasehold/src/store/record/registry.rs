//! What surrounds ownership: marks, declared resources, listings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::lease::{IdError, ResourceId};

/// Counts the changes of one record; `Version(0)` is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Version(pub u64);

/// The pool of the control plane's own records. It lists no work, and the control plane's routes refuse it, as they do
/// every pool whose name begins with `_`.
pub const SERVER_POOL: &str = "_leasehold";

/// What a mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum MarkKind {
    /// A member (by name) hands off what it holds and gets nothing.
    Drain,
    /// A member (by name) keeps what it holds and gets nothing new.
    Cordon,
    /// A resource belongs to the member whose name is the value.
    Pin,
    /// A resource is held by nobody.
    Pause,
    /// A resource kept killing its worker; the value says how. Set by the holder, for people to see.
    Quarantine,
    /// No term of a resource is granted under the token that is the value, or a lower one: a fence has seen it, and the
    /// store has forgotten.
    Floor,
    /// A key to the control plane (by its id): JSON. In [`SERVER_POOL`] only, as are all that follow; no plan
    /// reacts to them.
    Key,
    /// How far a relay of events (`<sink>:<pool>`) has come: JSON.
    Relay,
    /// The silences that the control plane observed in a pool; of [`SERVER_POOL`] its own sign of life: JSON.
    Silence,
    /// The settings of a pool, such as `{"mode":"static"}`: JSON.
    Pool,
    /// A zone of a site (`<site>:<zone>`): JSON. In pools of cameras, as are all that follow; no plan of members reacts to
    /// them.
    Zone,
    /// What the holder of a camera's lease said last about its work: JSON.
    Heartbeat,
    /// Which version of a deployment group is to have the cameras: JSON.
    Deployment,
}

impl MarkKind {
    const ALL: [Self; 13] = [
        Self::Drain,
        Self::Cordon,
        Self::Pin,
        Self::Pause,
        Self::Quarantine,
        Self::Floor,
        Self::Key,
        Self::Relay,
        Self::Silence,
        Self::Pool,
        Self::Zone,
        Self::Heartbeat,
        Self::Deployment,
    ];

    /// The word used in stores and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Cordon => "cordon",
            Self::Pin => "pin",
            Self::Pause => "pause",
            Self::Quarantine => "quarantine",
            Self::Floor => "floor",
            Self::Key => "key",
            Self::Relay => "relay",
            Self::Silence => "silence",
            Self::Pool => "pool",
            Self::Zone => "zone",
            Self::Heartbeat => "heartbeat",
            Self::Deployment => "deployment",
        }
    }

    /// The kind with that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// An operator's mark on a member's name or a resource, or a record of the control plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// What it says.
    pub kind: MarkKind,
    /// A member's name or a resource's id; of a record, what its kind says.
    pub subject: String,
    /// The pinned member's name, a remark or a record's JSON; `None` once removed.
    pub value: Option<String>,
    /// Counts its changes.
    pub version: Version,
}

/// A resource that was declared in the store rather than listed by a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Declared {
    /// The resource.
    pub resource: ResourceId,
    /// How much of a member's capacity it takes, at least 1.
    pub weight: u32,
    /// Labels a member must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requires: BTreeMap<String, String>,
    /// What describes it, for people and their programs; no plan looks at it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What its owner needs to know of it. JSON's `null` is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<serde_json::Value>,
    /// Whether it was removed.
    #[serde(default)]
    pub removed: bool,
    /// Counts its changes.
    #[serde(default)]
    pub version: Version,
}

impl Declared {
    /// A resource that weighs 1, asks for nothing and is not declared yet.
    #[must_use]
    pub fn new(resource: ResourceId) -> Self {
        Self {
            resource,
            weight: 1,
            requires: BTreeMap::new(),
            labels: BTreeMap::new(),
            document: None,
            removed: false,
            version: Version(0),
        }
    }
}

/// What became of a compare-and-set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Marked {
    /// Written; this is the version now.
    Set(Version),
    /// Somebody else was faster; this is the version now.
    Conflict(Version),
}

/// Names a listing by its content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct ListingId(pub String);

/// What one source lists: sorted, each id once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Listing(Vec<ResourceId>);

impl Listing {
    /// Sorts the ids. An id that appears twice is given back as the error.
    ///
    /// # Errors
    /// The first id that was listed twice.
    pub fn new(mut ids: Vec<ResourceId>) -> Result<Self, ResourceId> {
        ids.sort_unstable();
        match ids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(pair[0].clone()),
            None => Ok(Self(ids)),
        }
    }

    /// Takes lines of text, one id each; empty lines and lines that begin with `#` do not count.
    ///
    /// # Errors
    /// Says which line is wrong and why.
    pub fn parse(text: &str) -> Result<Self, ListingError> {
        let mut ids = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let id = ResourceId::new(line).map_err(|source| ListingError::Id { line: number + 1, source })?;
            ids.push(id);
        }
        Self::new(ids).map_err(ListingError::Twice)
    }

    /// The ids, sorted.
    #[must_use]
    pub fn ids(&self) -> &[ResourceId] {
        &self.0
    }

    /// Whether the resource is in it.
    #[must_use]
    pub fn contains(&self, resource: &ResourceId) -> bool {
        self.0.binary_search(resource).is_ok()
    }

    /// The id of this content: two 64-bit hashes over the length-prefixed ids, and how many there are.
    #[must_use]
    pub fn id(&self) -> ListingId {
        let (mut one, mut two) = (0_u64, 0_u64);
        for id in &self.0 {
            let hash = crate::plan::rendezvous::hash_id(id.as_str());
            one = crate::plan::rendezvous::mix(one ^ hash);
            two = crate::plan::rendezvous::mix(two.rotate_left(17).wrapping_add(hash));
        }
        ListingId(format!("{}-{one:016x}{two:016x}", self.0.len()))
    }
}

/// A list of resources cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListingError {
    /// A line is not a resource id.
    #[error("line {line} is not a resource")]
    Id {
        /// Which line, counted from 1.
        line: usize,
        /// What is wrong with it.
        source: IdError,
    },
    /// An id is listed twice.
    #[error("resource {0} is listed twice; remove one of them")]
    Twice(ResourceId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_mark_is_found_by_its_word() {
        for kind in MarkKind::ALL {
            assert_eq!(MarkKind::parse(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).expect("a word"), kind.as_str());
        }
        assert_eq!(MarkKind::parse("Drain"), None);
    }
}
