//! What a store's own settings say about how well it can keep its word.

use serde::Serialize;

use super::Grade;

/// What was found when a store was looked over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checkup {
    /// What answers there, with its version.
    pub server: String,
    /// How well it keeps its word with these settings.
    pub grade: Grade,
    /// What was looked at, in the order in which it was.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether it weakens a guarantee.
    pub weak: bool,
    /// What was found, in a sentence.
    pub what: String,
    /// What to do about it, where something should be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn good(what: impl Into<String>) -> Self {
        Self { weak: false, what: what.into(), advice: None }
    }

    /// Something that weakens a guarantee, and what to do about it.
    pub fn weak(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { weak: true, what: what.into(), advice: Some(advice.into()) }
    }
}
