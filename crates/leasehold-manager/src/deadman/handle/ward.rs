//! One group in the deadman's care, from the start of its leader until that may be reaped.
//!
//! Invariant: once the deadman has been told to forget the group, nothing more is said of it. Otherwise a deadman
//! could come to watch a number that is somebody else's by now.

use std::sync::{Mutex, PoisonError};

use leasehold::clock::Moment;
use tokio::sync::oneshot;

use super::{Deadman, DeadmanError};
use crate::deadman::watch::{Deadline, Line};
use crate::group::GroupId;

/// One group in the deadman's care.
#[derive(Debug)]
pub(crate) struct Ward {
    deadman: Deadman,
    group: GroupId,
    forgotten: Mutex<bool>,
}

impl Ward {
    pub(super) fn new(deadman: Deadman, group: GroupId) -> Self {
        Self { deadman, group, forgotten: Mutex::new(false) }
    }

    /// The deadline of all children.
    pub(crate) fn until(&self) -> Option<Deadline> {
        self.deadman.until()
    }

    /// Returns when the group dies by the deadline of all, if anything of it still runs.
    pub(crate) async fn watch(&self) -> Result<(), DeadmanError> {
        self.heard(self.say(Line::Watch(self.group))).await
    }

    /// Returns when the group dies only with the supervisor or by its own stop.
    pub(crate) async fn free(&self) -> Result<(), DeadmanError> {
        self.heard(self.say(Line::Free(self.group))).await
    }

    /// Returns when the group dies at `kill_at`, whatever its deadline was before.
    pub(crate) async fn lasting(&self, kill_at: Moment) -> Result<(), DeadmanError> {
        self.heard(self.say(Line::Lasting(self.group, kill_at))).await
    }

    /// Says that the group has been told to stop leading and is killed at `kill_at` unless it is freed before.
    pub(crate) fn demoting(&self, kill_at: Moment) {
        self.say(Line::Demoting(self.group, kill_at));
    }

    /// Says that the group has been asked to end and is killed at `kill_at`.
    pub(crate) fn stopping(&self, kill_at: Moment) {
        self.say(Line::Stopping(self.group, kill_at));
    }

    /// Returns when no deadman watches the group any more, so that its leader may be reaped.
    pub(crate) async fn forget(&self) {
        if let Some(heard) = self.say(Line::Forget(self.group)) {
            let _ = heard.await;
        }
    }

    /// `None` if there is nothing more to say of the group.
    fn say(&self, line: Line) -> Option<oneshot::Receiver<()>> {
        let mut forgotten = self.forgotten.lock().unwrap_or_else(PoisonError::into_inner);
        if *forgotten {
            return None;
        }
        *forgotten = matches!(line, Line::Forget(_));
        Some(self.deadman.say(line))
    }

    async fn heard(&self, answer: Option<oneshot::Receiver<()>>) -> Result<(), DeadmanError> {
        match answer {
            Some(answer) => answer.await.map_err(|_| self.deadman.silence()),
            None => Ok(()),
        }
    }
}
