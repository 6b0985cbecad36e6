//! The demo's members: this very program, run as a newcomer would run it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold::clock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::journal::{self, Stretch};
use super::{POOL, RESOURCES};
use crate::failure::Failure;

pub(super) struct Cast {
    directory: PathBuf,
    store: String,
    ttl: Duration,
    members: BTreeMap<String, Child>,
}

impl Cast {
    pub(super) fn new(directory: &Path, store: &Path, ttl: Duration) -> Self {
        let store = format!("sqlite:{}", store.display());
        Self { directory: directory.to_owned(), store, ttl, members: BTreeMap::new() }
    }

    /// Starts a member.
    pub(super) fn enter(&mut self, name: &str) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::system("the demo cannot start itself again", &error);
        let program = std::env::current_exe().map_err(failed)?;
        let journal = self.directory.join(format!("{name}.journal"));
        let ttl = format!("{}ms", self.ttl.as_millis());
        let mut member = Command::new(&program);
        // The demo is the same whatever its viewer's environment says.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LEASEHOLD_"))
        {
            member.env_remove(name);
        }
        let child = member
            .args(["run", "--store", &self.store, "--pool", POOL, "--name", name, "--ttl", &ttl])
            // Whatever ends the demo, even kill -9, ends its members: they hold the other end of this pipe.
            .args(["--log", "off", "--while-stdin", "--resources", &RESOURCES.join(","), "--"])
            .arg(&program)
            .arg("demo-work")
            .arg(&journal)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        self.members.insert(name.to_owned(), child);
        Ok(())
    }

    pub(super) fn signal(&mut self, name: &str, signal: Signal) -> Result<(), Failure> {
        let Some(child) = self.members.get_mut(name) else { return Ok(()) };
        send(child, signal)?;
        if signal == Signal::SIGKILL {
            let _ = child.wait();
            self.members.remove(name);
        }
        Ok(())
    }

    /// Tells everybody to leave and waits until they have.
    pub(super) fn leave(&mut self, ttl: Duration) -> Result<(), Failure> {
        for child in self.members.values_mut() {
            send(child, Signal::SIGTERM)?;
        }
        let deadline = clock::now().after(ttl * 3);
        for child in self.members.values_mut() {
            while matches!(child.try_wait(), Ok(None)) {
                if clock::now() > deadline {
                    let _ = child.kill();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.members.clear();
        Ok(())
    }

    /// Everything that everybody's work wrote.
    pub(super) fn journals(&self) -> Result<Vec<Stretch>, Failure> {
        journal::read_all(&self.directory)
    }
}

fn send(child: &Child, signal: Signal) -> Result<(), Failure> {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    kill(pid, signal).map_err(|error| Failure::system("a member of the demo cannot be signalled", &error))
}

impl Drop for Cast {
    fn drop(&mut self) {
        for child in self.members.values_mut() {
            // A frozen member cannot hear anything gentler. Its children end with it.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
