//! What the values of keys are: JSON, for people with `etcdctl` too.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::lease::{MemberId, Nonce, Pool, ResourceId, Term, Token};
use crate::store::{Era, LeaseRecord, Offer, OpenSession, Profile, SessionRecord, StoreError, Version};

/// The shape of records that this version reads and writes.
pub(super) const FORMAT: u32 = 1;

/// Which unbroken memory this is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EraValue {
    pub(super) format: u32,
    /// The id of the cluster that the era was written to.
    pub(super) cluster: u64,
    /// How far the cluster's own log and terms had come when the era was last written: they never fall, but begin anew in
    /// a cluster that is made from a snapshot.
    pub(super) raft_term: u64,
    pub(super) raft_index: u64,
    pub(super) nonce: Nonce,
    pub(super) frozen: bool,
    pub(super) token_base: u64,
    pub(super) ttl_max_ms: u64,
}

impl EraValue {
    /// The era as readers see it.
    pub(super) fn shown(&self) -> Era {
        let ttl_max = Duration::from_millis(self.ttl_max_ms);
        Era { nonce: self.nonce, frozen: self.frozen, ttl_max }
    }
}

/// A member's session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionValue {
    pub(super) ttl_ms: u64,
    pub(super) beat: u64,
    pub(super) ended: bool,
    /// The nonce of the freeze in which the session last said what it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reasserted: Option<Nonce>,
    /// The revoked terms it holds, so that a beat learns of them from its own record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) revoked: Vec<Term>,
    /// Whether the last change was a beat and nothing else: that is worth no hint.
    #[serde(default)]
    pub(super) quiet: bool,
    pub(super) profile: Profile,
}

impl SessionValue {
    pub(super) fn new(open: &OpenSession) -> Self {
        Self {
            ttl_ms: millis(open.ttl),
            beat: 0,
            ended: false,
            reasserted: None,
            revoked: Vec::new(),
            quiet: false,
            profile: open.profile.clone(),
        }
    }

    pub(super) fn shown(self, id: MemberId) -> SessionRecord {
        let ttl = Duration::from_millis(self.ttl_ms);
        let beat = crate::lease::BeatNumber(self.beat);
        SessionRecord { id, ttl, beat, ended: self.ended, profile: self.profile }
    }
}

/// A lease. It is never deleted: a token outlives its holder, and the resource too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeaseValue {
    pub(super) token: Token,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) holder: Option<MemberId>,
    pub(super) ttl_ms: u64,
    #[serde(default)]
    pub(super) revoked: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) offer: Option<Offer>,
}

impl LeaseValue {
    /// As it is from a grant until anything about it changes.
    pub(super) fn granted(holder: &MemberId, ttl_ms: u64, token: Token) -> Self {
        Self { token, holder: Some(holder.clone()), ttl_ms, revoked: false, offer: None }
    }

    /// The same with nobody in it.
    pub(super) fn free(self, offer: Option<Offer>) -> Self {
        Self { holder: None, revoked: false, offer, ..self }
    }

    pub(super) fn shown(self, resource: ResourceId) -> LeaseRecord {
        let ttl = Duration::from_millis(self.ttl_ms);
        let Self { token, holder, revoked, offer, .. } = self;
        LeaseRecord { resource, token, holder, ttl, revoked, offer }
    }
}

/// Where a member's session is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PoolValue {
    pub(super) pool: Pool,
}

/// An operator's mark.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct MarkValue {
    #[serde(default)]
    pub(super) value: Option<String>,
    pub(super) version: Version,
}

/// Whole milliseconds, rounded up: a listener may wait longer than a session asked for, never shorter.
pub(super) fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value)
        .map_err(|error| StoreError::misconfigured("a record cannot be written as JSON").caused_by(error))
}

pub(super) fn decode<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(value).map_err(|error| unreadable(key).caused_by(error))
}

/// A key holds something that we did not write.
pub(super) fn unreadable(key: &[u8]) -> StoreError {
    let key = String::from_utf8_lossy(key);
    StoreError::misconfigured(format!(
        "the etcd key {key:?} holds what Leasehold did not write; give the store a prefix of its own"
    ))
}
