//! The acts, and the words for them: the same on the command line, over HTTP, on the page and in the ledger.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lease::{MemberName, ResourceId};
use crate::store::MarkKind;

/// The one resource of an election's pool.
pub(crate) const SEAT: &str = "leader";
/// What the drain of a leader that is to resign says before the token that it is to resign from.
pub(crate) const RESIGNS: &str = "resigns from ";

/// The word for an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// A member hands off what it holds and gets nothing.
    Drain,
    /// It takes part again.
    Undrain,
    /// A member keeps what it holds and gets nothing new.
    Cordon,
    /// It gets new work again.
    Uncordon,
    /// A resource belongs to one member whenever that is there.
    Pin,
    /// It may be anywhere.
    Unpin,
    /// Nobody holds a resource.
    Pause,
    /// It is shared out again.
    Resume,
    /// A holder must let go of a resource.
    Revoke,
    /// The leader of an election hands its seat over.
    Resign,
}

impl Word {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Drain,
        Self::Undrain,
        Self::Cordon,
        Self::Uncordon,
        Self::Pin,
        Self::Unpin,
        Self::Pause,
        Self::Resume,
        Self::Revoke,
        Self::Resign,
    ];

    /// The word itself.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Undrain => "undrain",
            Self::Cordon => "cordon",
            Self::Uncordon => "uncordon",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Revoke => "revoke",
            Self::Resign => "resign",
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something an operator does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is what its word says, of what it names")]
pub enum Act {
    Drain { member: MemberName },
    Undrain { member: MemberName },
    Cordon { member: MemberName },
    Uncordon { member: MemberName },
    Pin { resource: ResourceId, member: MemberName },
    Unpin { resource: ResourceId },
    Pause { resource: ResourceId },
    Resume { resource: ResourceId },
    Revoke { resource: ResourceId },
    Resign,
}

/// A word without what it needs, or with what it does not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ActError(String);

impl Act {
    /// The act of a word on what it names.
    ///
    /// # Errors
    /// Something is missing, or too much.
    pub fn new(
        word: Word,
        member: Option<MemberName>,
        resource: Option<ResourceId>,
    ) -> Result<Self, ActError> {
        let wrong = |needs: &str| Err(ActError(format!("{word} needs {needs}")));
        match (word, member, resource) {
            (Word::Drain, Some(member), None) => Ok(Self::Drain { member }),
            (Word::Undrain, Some(member), None) => Ok(Self::Undrain { member }),
            (Word::Cordon, Some(member), None) => Ok(Self::Cordon { member }),
            (Word::Uncordon, Some(member), None) => Ok(Self::Uncordon { member }),
            (Word::Drain | Word::Undrain | Word::Cordon | Word::Uncordon, ..) => {
                wrong("a member and no resource")
            }
            (Word::Pin, Some(member), Some(resource)) => Ok(Self::Pin { resource, member }),
            (Word::Pin, ..) => wrong("a resource and a member"),
            (Word::Unpin, None, Some(resource)) => Ok(Self::Unpin { resource }),
            (Word::Pause, None, Some(resource)) => Ok(Self::Pause { resource }),
            (Word::Resume, None, Some(resource)) => Ok(Self::Resume { resource }),
            (Word::Revoke, None, Some(resource)) => Ok(Self::Revoke { resource }),
            (Word::Unpin | Word::Pause | Word::Resume | Word::Revoke, ..) => {
                wrong("a resource and no member")
            }
            (Word::Resign, None, None) => Ok(Self::Resign),
            (Word::Resign, ..) => wrong("neither a member nor a resource: a pool has one leader"),
        }
    }

    /// Its word.
    #[must_use]
    pub fn word(&self) -> Word {
        match self {
            Self::Drain { .. } => Word::Drain,
            Self::Undrain { .. } => Word::Undrain,
            Self::Cordon { .. } => Word::Cordon,
            Self::Uncordon { .. } => Word::Uncordon,
            Self::Pin { .. } => Word::Pin,
            Self::Unpin { .. } => Word::Unpin,
            Self::Pause { .. } => Word::Pause,
            Self::Resume { .. } => Word::Resume,
            Self::Revoke { .. } => Word::Revoke,
            Self::Resign => Word::Resign,
        }
    }

    /// The mark that it sets, or removes where there is no value; none for what is no mark.
    #[must_use]
    pub fn mark(&self) -> Option<(MarkKind, &str, Option<&str>)> {
        match self {
            Self::Drain { member } => Some((MarkKind::Drain, member.as_str(), Some(""))),
            Self::Undrain { member } => Some((MarkKind::Drain, member.as_str(), None)),
            Self::Cordon { member } => Some((MarkKind::Cordon, member.as_str(), Some(""))),
            Self::Uncordon { member } => Some((MarkKind::Cordon, member.as_str(), None)),
            Self::Pin { resource, member } => Some((MarkKind::Pin, resource.as_str(), Some(member.as_str()))),
            Self::Unpin { resource } => Some((MarkKind::Pin, resource.as_str(), None)),
            Self::Pause { resource } => Some((MarkKind::Pause, resource.as_str(), Some(""))),
            Self::Resume { resource } => Some((MarkKind::Pause, resource.as_str(), None)),
            Self::Revoke { .. } | Self::Resign => None,
        }
    }

    /// The resource that it is about.
    #[must_use]
    pub fn resource(&self) -> Option<&ResourceId> {
        match self {
            Self::Pin { resource, .. }
            | Self::Unpin { resource }
            | Self::Pause { resource }
            | Self::Resume { resource }
            | Self::Revoke { resource } => Some(resource),
            _ => None,
        }
    }

    /// What takes it back, where that is possible.
    #[must_use]
    pub fn undo(&self) -> Option<Self> {
        match self.clone() {
            Self::Drain { member } => Some(Self::Undrain { member }),
            Self::Undrain { member } => Some(Self::Drain { member }),
            Self::Cordon { member } => Some(Self::Uncordon { member }),
            Self::Uncordon { member } => Some(Self::Cordon { member }),
            Self::Pin { resource, .. } => Some(Self::Unpin { resource }),
            Self::Pause { resource } => Some(Self::Resume { resource }),
            Self::Resume { resource } => Some(Self::Pause { resource }),
            Self::Unpin { .. } | Self::Revoke { .. } | Self::Resign => None,
        }
    }

    /// What it means once it is done, in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Drain { member } => format!("{member} hands off what it holds and gets nothing"),
            Self::Undrain { member } => format!("{member} takes part again"),
            Self::Cordon { member } => format!("{member} keeps what it holds and gets nothing new"),
            Self::Uncordon { member } => format!("{member} gets new work again"),
            Self::Pin { resource, member } => {
                format!("{resource} belongs to {member} whenever that member is there")
            }
            Self::Unpin { resource } => format!("{resource} may be anywhere"),
            Self::Pause { resource } => format!("{resource} is given to nobody"),
            Self::Resume { resource } => format!("{resource} is shared out again"),
            Self::Revoke { resource } => format!("the holder of {resource} lets go of it"),
            Self::Resign => "the leader hands its seat over and is a candidate again".to_owned(),
        }
    }

    /// What the ledger says of it. Marks are named as they always were: `drain: a`, `drain undone: a`, `pin: r to a`.
    #[must_use]
    pub fn detail(&self, by: &str) -> String {
        let what = match (self, self.mark()) {
            (_, Some((kind, subject, value))) => {
                let undone = if value.is_none() { " undone" } else { "" };
                let to = value.filter(|value| !value.is_empty());
                let to = to.map(|value| format!(" to {value}")).unwrap_or_default();
                format!("{}{undone}: {subject}{to}", kind.as_str())
            }
            (Self::Revoke { resource }, None) => format!("revoke: {resource}"),
            (_, None) => self.word().to_string(),
        };
        format!("{what}, by {by}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every() -> Vec<Act> {
        let (member, resource): (MemberName, ResourceId) = ("m".parse().unwrap(), "r".parse().unwrap());
        let with = |word: &Word| {
            let tries = [(Some(member.clone()), None), (None, Some(resource.clone())), (None, None)];
            let both = (Some(member.clone()), Some(resource.clone()));
            tries
                .into_iter()
                .chain([both])
                .filter_map(|(m, r)| Act::new(*word, m, r).ok())
                .collect::<Vec<_>>()
        };
        Word::ALL.iter().flat_map(with).collect()
    }

    #[test]
    fn every_word_is_one_act_on_exactly_what_it_needs() {
        let acts = every();
        assert_eq!(acts.iter().map(Act::word).collect::<Vec<_>>(), Word::ALL);
    }

    #[test]
    fn what_is_taken_back_touches_the_same_mark() {
        for act in every() {
            let Some(undo) = act.undo() else { continue };
            let (one, two) = (act.mark().unwrap(), undo.mark().unwrap());
            assert_eq!((one.0, one.1), (two.0, two.1), "{act:?}");
            assert_ne!(one.2.is_some(), two.2.is_some(), "{act:?}");
        }
    }

    #[test]
    fn the_ledger_names_what_was_done_and_by_whom() {
        let details: Vec<String> = every().iter().map(|act| act.detail("ann")).collect();
        assert_eq!(details[0], "drain: m, by ann");
        assert_eq!(details[1], "drain undone: m, by ann");
        assert_eq!(details[4], "pin: r to m, by ann");
        assert_eq!(details[8..], ["revoke: r, by ann", "resign, by ann"]);
    }
}
