//! Where a child is told: the private directory with the file and the two sockets.

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram as Sender;
use std::path::PathBuf;

use tempfile::{NamedTempFile, TempDir};
use tokio::net::UnixDatagram;

use super::state::State;
use crate::directory::private_directory;
use crate::notices;
use crate::spec::Spec;

#[derive(Debug)]
pub(super) struct Channel {
    directory: TempDir,
    sender: Sender,
}

impl Channel {
    /// Makes the directory, the file and the socket on which the child is heard.
    pub(super) fn open() -> io::Result<(Self, UnixDatagram)> {
        let sender = Sender::unbound()?;
        sender.set_nonblocking(true)?;
        let channel = Self { directory: private_directory()?, sender };
        channel.write(&State::standby(None))?;
        let socket = notices::open(&channel.notices())?;
        Ok((channel, socket))
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn notices(&self) -> PathBuf {
        self.directory.path().join("notify")
    }

    fn events(&self) -> PathBuf {
        self.directory.path().join("events")
    }

    /// Lets the child know where to look.
    pub(super) fn introduce(&self, spec: Spec) -> Spec {
        spec.env("LEASEHOLD_STATE_FILE", self.file())
            .env("LEASEHOLD_EVENTS_SOCKET", self.events())
            .env("NOTIFY_SOCKET", self.notices())
    }

    /// Replaces the file. Whoever reads it reads the old one or the new one.
    pub(super) fn write(&self, state: &State) -> io::Result<()> {
        let mut new = NamedTempFile::new_in(self.directory.path())?;
        new.write_all(state.file().as_bytes())?;
        new.persist(self.file())?;
        Ok(())
    }

    /// Sends the event, if somebody listens.
    pub(super) fn send(&self, state: &State) {
        match self.sender.send_to(state.event().as_bytes(), self.events()) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, "a standby did not take its event"),
        }
    }
}
