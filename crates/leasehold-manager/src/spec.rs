//! What to run for one piece of work: the command and its environment.
//!
//! A child inherits the environment of the supervisor less what names or opens the store: it gets a term and a
//! socket to ask, not the keys of the house.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::program::{Program, STUB};

/// What to run for one piece of work.
#[derive(Debug, Clone)]
pub struct Spec {
    command: OsString,
    args: Vec<OsString>,
    label: String,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
    promotion: Option<Signal>,
    demotion: Option<Signal>,
}

impl Spec {
    /// A command, looked for in `PATH`, and its arguments. No shell is involved.
    pub fn new(command: impl Into<OsString>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            label: String::new(),
            env: Vec::new(),
            dir: None,
            promotion: Some(Signal::SIGUSR1),
            demotion: Some(Signal::SIGUSR2),
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets `LEASEHOLD_POOL`.
    #[must_use]
    pub fn pool(self, pool: &str) -> Self {
        self.env("LEASEHOLD_POOL", pool)
    }

    /// Sets `LEASEHOLD_RESOURCE`, and what stands in brackets in front of each line of output.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        resource.clone_into(&mut self.label);
        self.env("LEASEHOLD_RESOURCE", resource)
    }

    /// What stands in brackets in front of each line of output.
    #[must_use]
    pub fn called(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }

    /// Sets `LEASEHOLD_TOKEN`, in decimal.
    #[must_use]
    pub fn token(self, token: u64) -> Self {
        self.env("LEASEHOLD_TOKEN", token.to_string())
    }

    /// Sets `LEASEHOLD_MEMBER`.
    #[must_use]
    pub fn member(self, member: &str) -> Self {
        self.env("LEASEHOLD_MEMBER", member)
    }

    /// Sets `LEASEHOLD_SOCKET`, where the child can ask whether it is still trusted.
    #[must_use]
    pub fn socket(self, socket: &Path) -> Self {
        self.env("LEASEHOLD_SOCKET", socket)
    }

    /// Sets one more variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs the command in `dir` and not where the supervisor runs.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// The signal that tells a [`Standby`](crate::Standby) of its promotion, if any; `SIGUSR1` unless said otherwise.
    #[must_use]
    pub fn promotion_signal(mut self, signal: Option<Signal>) -> Self {
        self.promotion = signal;
        self
    }

    /// The signal that tells a [`Standby`](crate::Standby) of its demotion, if any; `SIGUSR2` unless said otherwise.
    #[must_use]
    pub fn demotion_signal(mut self, signal: Option<Signal>) -> Self {
        self.demotion = signal;
        self
    }

    /// The signals that tell of promotion and demotion.
    pub(crate) fn signals(&self) -> (Option<Signal>, Option<Signal>) {
        (self.promotion, self.demotion)
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// The command's name as people know it.
    pub(crate) fn shown(&self) -> String {
        self.command.to_string_lossy().into_owned()
    }

    /// The stub that will become the command, as the leader of a process group of its own.
    pub(crate) fn stub(&self, program: &Program) -> Command {
        let mut stub = program.command(STUB);
        stub.arg(std::process::id().to_string()).arg("--").arg(&self.command).args(&self.args);
        stub.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        withhold_secrets(&mut stub);
        stub.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.dir {
            stub.current_dir(dir);
        }
        stub
    }
}

/// Keeps what names or opens a store out of the environment of `command`.
pub(crate) fn withhold_secrets(command: &mut Command) {
    for (name, value) in std::env::vars_os() {
        if is_ours_to_keep(&name, &value) {
            command.env_remove(name);
        }
    }
}

/// Whether a variable of the supervisor names or opens a store, or is a term that somebody gave the supervisor.
fn is_ours_to_keep(name: &OsStr, value: &OsStr) -> bool {
    const WORDS: [&str; 7] = ["STORE", "DATABASE", "KEY", "TOKEN", "SECRET", "PASSWORD", "URL"];
    let (name, value) = (name.to_string_lossy().to_ascii_uppercase(), value.to_string_lossy());
    let Some(rest) = name.strip_prefix("LEASEHOLD_") else {
        return false;
    };
    WORDS.iter().any(|word| rest.contains(word)) || value.contains("://") || value.starts_with("sqlite:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(name: &str, value: &str) -> bool {
        is_ours_to_keep(OsStr::new(name), OsStr::new(value))
    }

    #[test]
    fn what_opens_the_store_is_not_handed_down() {
        assert!(kept("LEASEHOLD_STORE", "memory:"));
        assert!(kept("LEASEHOLD_DATABASE", "x.db"));
        assert!(kept("LEASEHOLD_API_KEY", "lh_1_2"));
        assert!(kept("LEASEHOLD_ADMIN_TOKEN", "t"));
        assert!(kept("LEASEHOLD_SERVER", "http://user:secret@host"));
        assert!(kept("LEASEHOLD_WHERE", "sqlite:x.db"));
    }

    #[test]
    fn what_belongs_to_the_user_is_handed_down() {
        assert!(!kept("DATABASE_URL", "postgres://mine"));
        assert!(!kept("MY_LEASEHOLD_STORE", "x"));
        assert!(!kept("LEASEHOLD_LOG_FORMAT", "json"));
        assert!(!kept("API_KEY", "x"));
    }
}
