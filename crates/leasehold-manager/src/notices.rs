//! A socket on which a child is heard, as programs know it from systemd (`NOTIFY_SOCKET`).
//!
//! Invariant: the kernel names the sender of each message, and whoever is not in the child's process group is ignored. A
//! sender that has ended was let into the directory, and that must do.

use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixCredentials, recvmsg, setsockopt, sockopt};
use nix::unistd::Pid;
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use crate::group::GroupId;

/// The longest message that is read.
pub const NOTICE_MAX: usize = 4 * 1024;

/// Opens a socket at `path`.
pub(crate) fn open(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind(path)?;
    // Invariant: nobody knows the socket yet, so every message comes with its sender's name.
    setsockopt(&socket, sockopt::PassCred, &true)?;
    Ok(socket)
}

/// What the processes of one group write to a socket.
#[derive(Debug)]
pub(crate) struct Notices {
    socket: UnixDatagram,
    group: GroupId,
}

impl Notices {
    pub(crate) fn of(socket: UnixDatagram, group: GroupId) -> Self {
        Self { socket, group }
    }

    /// Waits for a message and has `hear` receive it.
    pub(crate) async fn when_there<T>(&self, hear: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.socket.async_io(Interest::READABLE, hear).await
    }

    /// One message, without waiting for it; `None` if it is not the child's, is too long or came with a descriptor.
    pub(crate) fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [0; NOTICE_MAX];
        let mut parts = [IoSliceMut::new(&mut buffer)];
        // There is room for the sender's name and for no descriptor: the kernel closes those that were sent along.
        let mut space = cmsg_space!(UnixCredentials);
        let message =
            recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_DONTWAIT)?;
        if message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC) {
            return Ok(None);
        }
        let sender = message.cmsgs()?.find_map(|part| match part {
            ControlMessageOwned::ScmCredentials(sender) => Some(Pid::from_raw(sender.pid())),
            _ => None,
        });
        let is_heard = sender.is_some_and(|sender| self.group.has(sender).unwrap_or(true));
        let length = message.bytes;
        Ok(is_heard.then(|| buffer[..length].to_vec()))
    }
}
