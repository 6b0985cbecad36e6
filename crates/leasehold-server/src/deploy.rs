//! Blue and green: which version of a deployment group is to have the cameras.
//!
//! A mark of kind `deployment` on the group, in the pool of the tenant's cameras, says what is going on. It moves nothing by itself:
//! the plan takes runners of one version for drained, or for cordoned, and cameras change hands as they always do, within the
//! budget, to somebody who waits for them. So nothing is unowned for longer than a handoff, and to abort is to plan the other
//! way round.
//!
//! Pure but for `read` and `write`: `leasehold deploy` and every replica use the same rules.

mod steps;

use std::collections::BTreeSet;

use leasehold::store::{Cursor, Mark, MarkKind, Marked, Store, StoreError, Version};
use leasehold::{MemberName, Pool};
use serde::{Deserialize, Serialize};

pub use self::steps::{Group, Status};
pub use crate::cameras::RunnerSeen;

/// How far a deployment has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Phase {
    /// The new version's runners come, and get nothing yet.
    Warming,
    /// They take over, camera by camera; the others hand over.
    Promoting,
    /// They have everything.
    Promoted,
    /// The others have everything back, or get it back.
    Aborted,
}

/// A deployment of one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// The version that is to have the cameras.
    pub version: String,
    /// How far it has come.
    pub phase: Phase,
    /// The runners of the new version that were there when it was promoted: if one fails before it is done, everything goes back.
    #[serde(default)]
    pub runners: BTreeSet<MemberName>,
    /// Why it was aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a runner may do while a deployment is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Duty {
    /// What it may do anyway.
    Usual,
    /// It keeps what it has, and gets nothing.
    Waits,
    /// It hands over what it has, and gets nothing.
    HandsOver,
}

/// A step cannot be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeployError {
    /// Not from here.
    #[error("{0}")]
    Refused(String),
    /// Somebody else was faster.
    #[error("somebody else changed the deployment at the same time; look and try again")]
    Changed,
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Deployment {
    /// Begins to deploy a version, unless another deployment is going on.
    ///
    /// # Errors
    /// One is.
    pub fn start(before: Option<&Self>, version: &str) -> Result<Self, DeployError> {
        MemberName::new(version)
            .map_err(|error| DeployError::Refused(error.to_string().replacen("member name", "version", 1)))?;
        match before {
            Some(before) if matches!(before.phase, Phase::Warming | Phase::Promoting) => {
                Err(DeployError::Refused(format!(
                    "{} is being deployed; promote or abort that first",
                    before.version
                )))
            }
            _ => Ok(Self {
                version: version.to_owned(),
                phase: Phase::Warming,
                runners: BTreeSet::new(),
                reason: None,
            }),
        }
    }

    /// Has the new version take over. `ready` are its runners.
    ///
    /// # Errors
    /// It is not warming up, or nobody is there to take over.
    pub fn promote(&self, ready: BTreeSet<MemberName>) -> Result<Self, DeployError> {
        if self.phase != Phase::Warming {
            return Err(DeployError::Refused(format!(
                "{} is not warming up; start a deployment first",
                self.version
            )));
        }
        if ready.is_empty() {
            return Err(DeployError::Refused(format!(
                "no runner of {} has registered; start some first",
                self.version
            )));
        }
        Ok(Self { phase: Phase::Promoting, runners: ready, ..self.clone() })
    }

    /// Gives everything back.
    ///
    /// # Errors
    /// There is nothing to abort.
    pub fn abort(&self, reason: &str) -> Result<Self, DeployError> {
        match self.phase {
            Phase::Warming | Phase::Promoting => {
                Ok(Self { phase: Phase::Aborted, reason: Some(reason.to_owned()), ..self.clone() })
            }
            _ => Err(DeployError::Refused(format!("{} is not being deployed any more", self.version))),
        }
    }

    /// What becomes of it by itself: everything goes back if a new runner has failed while somebody of the version before is
    /// there, and it is done when nobody else has a camera. `living` are the runners that are heard of, with their version and
    /// how many cameras each has.
    #[must_use]
    pub fn next(&self, living: &[(MemberName, String, usize)]) -> Option<Self> {
        if self.phase != Phase::Promoting {
            return None;
        }
        let is_new = |version: &str| version == self.version;
        let others = || living.iter().filter(|(_, version, _)| !is_new(version));
        let failed =
            |name: &&MemberName| !living.iter().any(|(one, version, _)| one == *name && is_new(version));
        if let Some(name) = self.runners.iter().find(failed).filter(|_| others().next().is_some()) {
            return self.abort(&format!("the runner {name} of {} has failed", self.version)).ok();
        }
        let is_done = others().all(|(_, _, cameras)| *cameras == 0);
        is_done.then(|| Self { phase: Phase::Promoted, ..self.clone() })
    }

    /// What a runner of this version may do.
    #[must_use]
    pub fn duty(&self, version: &str) -> Duty {
        let is_new = version == self.version;
        match self.phase {
            Phase::Warming if is_new => Duty::Waits,
            Phase::Promoting | Phase::Promoted if !is_new => Duty::HandsOver,
            Phase::Aborted if is_new => Duty::HandsOver,
            _ => Duty::Usual,
        }
    }

    /// What a mark says, if it is one of these.
    #[must_use]
    pub fn of(mark: &Mark) -> Option<Self> {
        let value = mark.value.as_deref().filter(|_| mark.kind == MarkKind::Deployment)?;
        serde_json::from_str(value).ok()
    }
}

/// The deployment of a group, and the version of its record.
///
/// # Errors
/// The store does not answer.
pub(crate) async fn read(
    store: &dyn Store,
    pool: &Pool,
    group: &str,
) -> Result<(Option<Deployment>, Version), StoreError> {
    let marks = store.marks(pool, Cursor::START).await?.items;
    let found = marks.into_iter().find(|mark| mark.kind == MarkKind::Deployment && mark.subject == group);
    Ok(found.map_or((None, Version(0)), |mark| (Deployment::of(&mark), mark.version)))
}

/// Writes a deployment down, if nobody else did meanwhile.
///
/// # Errors
/// Somebody did, or the store does not answer.
pub(crate) async fn write(
    store: &dyn Store,
    pool: &Pool,
    group: &str,
    deployment: &Deployment,
    expected: Version,
) -> Result<(), DeployError> {
    let value = serde_json::to_string(deployment).unwrap_or_default();
    match store.set_mark(pool, MarkKind::Deployment, group, Some(&value), expected).await? {
        Marked::Set(_) => Ok(()),
        Marked::Conflict(_) => Err(DeployError::Changed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<MemberName> {
        names.iter().map(|name| MemberName::new(name).unwrap()).collect()
    }

    fn living(runners: &[(&str, &str, usize)]) -> Vec<(MemberName, String, usize)> {
        runners
            .iter()
            .map(|(name, version, held)| (MemberName::new(name).unwrap(), (*version).to_owned(), *held))
            .collect()
    }

    // proves R235
    #[test]
    fn a_version_warms_up_takes_over_and_is_done() {
        let warming = Deployment::start(None, "v2").unwrap();
        assert_eq!((warming.duty("v2"), warming.duty("v1")), (Duty::Waits, Duty::Usual));
        assert!(Deployment::start(Some(&warming), "v3").is_err());
        assert!(warming.promote(BTreeSet::new()).is_err());
        let promoting = warming.promote(names(&["new"])).unwrap();
        assert_eq!((promoting.duty("v2"), promoting.duty("v1")), (Duty::Usual, Duty::HandsOver));
        assert_eq!(promoting.next(&living(&[("old", "v1", 3), ("new", "v2", 1)])), None);
        let promoted = promoting.next(&living(&[("old", "v1", 0), ("new", "v2", 4)])).unwrap();
        assert_eq!((promoted.phase, promoted.duty("v1")), (Phase::Promoted, Duty::HandsOver));
        assert!(promoted.abort("too late").is_err() && Deployment::start(Some(&promoted), "v3").is_ok());
    }

    // proves R235
    #[test]
    fn everything_goes_back_when_it_is_aborted_or_a_new_runner_fails() {
        let promoting = Deployment::start(None, "v2").unwrap().promote(names(&["new", "newer"])).unwrap();
        let aborted = promoting.next(&living(&[("old", "v1", 3), ("new", "v2", 1)])).unwrap();
        assert_eq!(
            (aborted.phase, aborted.duty("v2"), aborted.duty("v1")),
            (Phase::Aborted, Duty::HandsOver, Duty::Usual)
        );
        assert!(aborted.reason.unwrap().contains("newer"));
        // With nobody to go back to it goes on.
        assert_eq!(promoting.next(&living(&[("new", "v2", 1)])).unwrap().phase, Phase::Promoted);
        assert_eq!(promoting.abort("by hand").unwrap().phase, Phase::Aborted);
        assert!(Deployment::start(None, "a b").is_err());
    }
}
