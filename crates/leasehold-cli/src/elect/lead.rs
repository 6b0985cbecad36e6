//! What a leader does: it keeps its command running.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use leasehold::Lease;
use leasehold::clock::{Clock, SystemClock};
use leasehold::election::Key;
use leasehold::store::{Guard, Store};
use leasehold_manager::{Exit, How, Next, Policy, Restart, Spec};

use crate::children::{Fate, Home};
use crate::failure::{Failure, chain, code};

/// Why a candidate is one no more.
pub(super) enum Ending {
    /// The command of `--once` has ended.
    Done(Exit),
    /// It was stopped before it had ended, because another may lead.
    Lost,
    /// Another leads, if anybody is known to, and we were told not to wait.
    Taken(Option<String>),
}

impl Ending {
    /// How the program ends.
    pub(super) fn report(self, key: &Key) -> Result<ExitCode, Failure> {
        let temporary = |said: String| Err(Failure::new(code::TEMPORARY, said));
        match self {
            Self::Done(exit) => Ok(ExitCode::from(shell_code(exit.how))),
            Self::Lost => temporary(format!(
                "the leadership of {key} was lost before the command had ended, so it was stopped; start it again"
            )),
            Self::Taken(Some(leader)) => temporary(format!("{leader} leads {key}")),
            Self::Taken(None) => {
                temporary(format!("{key} was not to be had at once; is another program leading?"))
            }
        }
    }
}

/// The code a shell would give.
fn shell_code(how: How) -> u8 {
    let code = match how {
        How::Code(code) => code,
        How::Signal(number) => 128 + number,
        How::Unknown => i32::from(code::SYSTEM),
    };
    u8::try_from(code).unwrap_or(code::SYSTEM)
}

/// What it takes to lead.
pub(super) struct Leader<'a> {
    pub(super) home: &'a Home,
    pub(super) store: &'a dyn Store,
    pub(super) key: &'a Key,
    pub(super) command: &'a [OsString],
    pub(super) once: bool,
}

impl Leader<'_> {
    /// Keeps the command running for as long as the lease stands, and returns when it is gone. One that dies again and
    /// again makes this candidate give up the seat.
    pub(super) async fn lead(&self, lease: &Lease) -> Option<Ending> {
        let _admitted = self.home.admit(lease);
        let mut policy = Policy::new(Restart::Always);
        while !lease.is_stopping() {
            let exit = match self.home.run(lease, self.spec(lease)).await {
                Ok(Fate::Ended(exit)) if self.once => return Some(Ending::Done(exit)),
                Ok(Fate::Ended(exit)) => exit,
                Ok(Fate::Stopped) => break,
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(key = %self.key, error, "the command was not started");
                    NOT_STARTED
                }
            };
            let Next::Again(wait) = policy.on_exit(exit) else {
                tracing::error!(key = %self.key, exit = %exit.how, "the command ends whenever it is started; another may lead");
                break;
            };
            tracing::warn!(key = %self.key, exit = %exit.how, again_in = ?wait, "the command ended");
            tokio::select! {
                () = SystemClock.sleep(wait) => {}
                _ = lease.lost() => break,
            }
        }
        self.once.then_some(Ending::Lost)
    }

    /// The command, with what it needs to lead.
    fn spec(&self, lease: &Lease) -> Spec {
        let told = what_is_told(self.key, lease, self.store);
        told.into_iter()
            .fold(self.home.spec(self.command, lease), |spec, (name, value)| spec.env(name, value))
    }
}

/// What a leader's command is told besides its lease: the key, and what its writes can depend on.
pub(super) fn what_is_told(key: &Key, lease: &Lease, store: &dyn Store) -> Vec<(&'static str, String)> {
    let mut told = vec![("LEASEHOLD_ELECTION", key.to_string())];
    match lease.guard(store) {
        Some(Guard::Etcd { key, value }) => told.extend([
            ("LEASEHOLD_GUARD_KEY", String::from_utf8_lossy(&key).into_owned()),
            ("LEASEHOLD_GUARD_VALUE", String::from_utf8_lossy(&value).into_owned()),
        ]),
        Some(Guard::Sql { condition }) => told.push(("LEASEHOLD_GUARD_SQL", condition)),
        _ => {}
    }
    told
}

/// A command that could not be started counts like one that failed at once.
pub(super) const NOT_STARTED: Exit = Exit { how: How::Unknown, ran_for: Duration::ZERO, asked: false };
