//! What is written down of a key, and what may be said of it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use leasehold::store::{Mark, MarkKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::secret::Hash;
use crate::holders::wall_time;

/// What a key may do. Each role may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look.
    Read,
    /// Hold leases, and take part.
    Member,
    /// Declare resources, set marks and settings, revoke leases.
    Operator,
    /// Make and revoke keys.
    Admin,
}

impl Role {
    const ALL: [Self; 4] = [Self::Read, Self::Member, Self::Operator, Self::Admin];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Member => "member",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no role; give read, member, operator or admin")]
pub struct RoleError(String);

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(word: &str) -> Result<Self, RoleError> {
        Self::ALL.into_iter().find(|role| role.as_str() == word).ok_or_else(|| RoleError(word.to_owned()))
    }
}

/// What is written down of a key. One with a field that this version does not know is not taken: it may be a restriction.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) hash: Hash,
    pub(crate) role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pools: Option<BTreeSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    #[serde(rename = "created")]
    pub(crate) created_ms: u64,
    #[serde(rename = "expires", default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<Previous>,
    /// The key that this is a log-in with; none for a key.
    #[serde(rename = "session", default, skip_serializing_if = "Option::is_none")]
    pub(crate) session_of: Option<String>,
}

/// The secret that was in use before, for as long as it is still taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Previous {
    pub(crate) hash: Hash,
    #[serde(rename = "until")]
    pub(crate) until_ms: u64,
}

/// What may be said of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct KeyInfo {
    /// Names it, and is no secret.
    #[schema(example = "5a0e6fd98c31")]
    pub id: String,
    /// What people call it.
    #[schema(example = "trackers")]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// In which pools; null for all.
    pub pools: Option<BTreeSet<String>>,
    /// Whose pools; null for those of nobody.
    pub tenant: Option<String>,
    /// When it was made.
    #[schema(example = "2026-01-22T10:15:30.000Z")]
    pub created_at: String,
    /// When it ends; null for never.
    pub expires_at: Option<String>,
    /// Until when the secret before the last rotation is taken, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_until: Option<String>,
}

impl Record {
    /// The record that a mark holds, if it holds one.
    pub(crate) fn of(mark: &Mark) -> Option<Self> {
        let value = mark.value.as_deref().filter(|_| mark.kind == MarkKind::Key)?;
        let record = serde_json::from_str(value);
        if record.is_err() {
            tracing::warn!(key = mark.subject, "the record of a key cannot be read, so it is not taken");
        }
        record.ok()
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn info(&self, id: &str) -> KeyInfo {
        let time = |millis: u64| wall_time(millis.saturating_mul(1_000_000));
        KeyInfo {
            id: id.to_owned(),
            name: self.name.clone(),
            role: self.role,
            pools: self.pools.clone(),
            tenant: self.tenant.clone(),
            created_at: time(self.created_ms),
            expires_at: self.expires_ms.map(time),
            previous_until: self.previous.as_ref().map(|previous| time(previous.until_ms)),
        }
    }
}
