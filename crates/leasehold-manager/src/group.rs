//! A process group: the one place that sends signals to processes.
//!
//! Invariant: a group is signalled only while its leader is unreaped, so that its number cannot have been given
//! to somebody else.

use std::fmt;
use std::io;
use std::process::{Child, ExitStatus};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getpgid};

mod prepared;

use prepared::is_prepared_for;

/// The number of a process group, which is the process id of its leader.
///
/// Invariant: above 1. To the kernel, group 0 is the caller's own and group 1 is every process there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupId(i32);

impl GroupId {
    pub(crate) fn new(number: i32) -> Option<Self> {
        (number > 1).then_some(Self(number))
    }

    pub(crate) fn number(self) -> u32 {
        self.0.unsigned_abs()
    }

    fn pid(self) -> Pid {
        Pid::from_raw(self.0)
    }

    /// Sends `signal` to every process of the group. A group without processes is fine.
    ///
    /// Only for callers who know that the leader is unreaped; others go through [`Group::signal`].
    pub(crate) fn signal(self, signal: Signal) {
        match killpg(self.pid(), signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => {
                tracing::warn!(group = self.0, %signal, %errno, "a process group could not be signalled")
            }
        }
    }

    /// Asks every process of the group to end, also those that are paused.
    pub(crate) fn ask_to_end(self) {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
    }

    /// Whether a process belongs to the group; `None` if there is no such process any more.
    pub(crate) fn has(self, process: Pid) -> Option<bool> {
        // To the kernel, process 0 would be the caller.
        if process.as_raw() <= 0 {
            return Some(false);
        }
        match getpgid(Some(process)) {
            Ok(group) => Some(group == self.pid()),
            Err(Errno::ESRCH) => None,
            Err(_) => Some(false),
        }
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for GroupId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        text.parse().ok().and_then(Self::new).ok_or(())
    }
}

/// The process group of one child of ours, from its start until it is reaped.
#[derive(Debug)]
pub(crate) struct Group {
    id: GroupId,
    reaped: Mutex<bool>,
}

impl Group {
    /// The group that `child` leads.
    pub(crate) fn of(child: &Child) -> io::Result<Self> {
        let id = i32::try_from(child.id()).ok().and_then(GroupId::new);
        let id = id.ok_or_else(|| io::Error::other(format!("process {} cannot lead a group", child.id())))?;
        Ok(Self { id, reaped: Mutex::new(false) })
    }

    pub(crate) fn id(&self) -> GroupId {
        self.id
    }

    fn reaped(&self) -> MutexGuard<'_, bool> {
        self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends `signal` to every process of the group, unless the leader has been reaped.
    pub(crate) fn signal(&self, signal: Signal) {
        let reaped = self.reaped();
        if !*reaped {
            self.id.signal(signal);
        }
    }

    /// Asks every process of the group to end, unless the leader has been reaped.
    pub(crate) fn ask_to_end(&self) {
        let reaped = self.reaped();
        if !*reaped {
            self.id.ask_to_end();
        }
    }

    /// Sends `signal` to the leader alone, if it is prepared for it: a signal that merely tells something would end
    /// every other process. `false` if it was not sent.
    pub(crate) fn tell_leader(&self, signal: Signal) -> bool {
        let reaped = self.reaped();
        !*reaped && is_prepared_for(self.id.number(), signal) && kill(self.id.pid(), signal).is_ok()
    }

    /// Whether the leader has ended. Does not reap it.
    pub(crate) fn leader_has_exited(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
        // Any other answer, an error too, is about a process that has ended: a real-time signal has no name there.
        waitid(Id::Pid(self.id.pid()), flags) != Ok(WaitStatus::StillAlive)
    }

    /// Reaps the leader, which has exited. From here on nothing is sent to the group.
    pub(crate) fn reap(&self, leader: &mut Child) -> io::Result<ExitStatus> {
        let mut reaped = self.reaped();
        *reaped = true;
        leader.wait()
    }

    /// Whether no process of the group runs any more. Asked after the leader was reaped and the others killed.
    pub(crate) fn is_gone(&self) -> bool {
        self.reap_adopted();
        killpg(self.id.pid(), None) == Err(Errno::ESRCH) || !runs_somewhere(self.id)
    }

    /// Orphans of the group become ours if this process is the first of its container; nobody else reaps them.
    fn reap_adopted(&self) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
        loop {
            match waitid(Id::PGid(self.id.pid()), flags) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
                _ => {}
            }
        }
    }
}

/// Whether `/proc` shows a process of the group that is more than an entry waiting to be reaped: in a container
/// whose first process reaps nobody, such entries stay for ever.
fn runs_somewhere(group: GroupId) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return true;
    };
    processes.flatten().any(|process| {
        std::fs::read_to_string(process.path().join("stat")).is_ok_and(|stat| is_running_member(&stat, group))
    })
}

fn is_running_member(stat: &str, group: GroupId) -> bool {
    // The name is in brackets and may itself contain brackets and spaces.
    let Some((_, rest)) = stat.rsplit_once(')') else {
        return false;
    };
    let mut fields = rest.split_whitespace();
    let (state, member_of) = (fields.next(), fields.nth(1));
    !matches!(state, Some("Z" | "X")) && member_of.and_then(|number| number.parse().ok()) == Some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_mean_more_than_one_group_are_refused() {
        for number in [i32::MIN, -7, -1, 0, 1] {
            assert_eq!(GroupId::new(number), None);
            assert_eq!(number.to_string().parse::<GroupId>(), Err(()));
        }
        assert_eq!("2".parse(), Ok(GroupId(2)));
    }

    #[test]
    fn a_sender_that_nobody_can_name_is_of_no_group() {
        let own = GroupId(nix::unistd::getpgrp().as_raw());
        assert_eq!(own.has(Pid::this()), Some(true));
        assert_eq!(own.has(Pid::from_raw(0)), Some(false));
        assert_eq!(GroupId(i32::MAX).has(Pid::this()), Some(false));
        assert_eq!(own.has(Pid::from_raw(i32::MAX)), None);
    }

    #[test]
    fn a_process_belongs_to_its_group_whatever_its_name() {
        let group = GroupId(41);
        assert!(is_running_member("43 (a ) Z 1 9) S 1 41 41 0", group));
        assert!(!is_running_member("43 (sh) Z 1 41 41 0", group));
        assert!(!is_running_member("43 (sh) S 41 43 41 0", group));
        assert!(!is_running_member("", group));
    }
}
