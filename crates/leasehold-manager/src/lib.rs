//! The supervisor of Leasehold: owned work as child processes. Linux only; elsewhere this crate is empty.
//!
//! It knows nothing of stores, plans or leases. The caller says what to run and until when, and moves the
//! deadline on as long as it is trusted.
//!
//! **Invariant: no process of a child's process group runs after its deadline, even if this process is killed
//! with `kill -9`, frozen with `SIGSTOP`, or never scheduled again.**
//!
//! A hot [`standby`] has no deadline while it leads nothing. It has one before it is told to lead, and until it has
//! itself said that it stopped. A [`worker`] has a deadline of its own, which moves with what it works on. Every child, with a deadline or without, dies with this process.
//!
//! Who keeps it, from near to far:
//!
//! 1. A child is started as a [`stub`], which becomes the command only after it has been told to go. It is told
//!    so only after the deadman has confirmed that it watches the child's process group, so no work runs
//!    unwatched; a standby is told to lead only after the deadman has confirmed that it dies by the deadline. The stub also asks the kernel to kill it when the supervisor dies.
//! 2. The [`supervisor`] itself stops children: `SIGTERM`, then `SIGKILL`, always to the whole group.
//! 3. The [`deadman`], a process of its own in a session of its own, holds the deadline. It kills every group at
//!    the deadline if nobody moved it, and at once if the supervisor is gone.
//!
//! What must hold so that nobody else's processes are ever signalled: **a group is signalled only while its
//! leader is unreaped**, because an unreaped leader keeps its number from being given away again. So a leader's
//! exit is noticed without reaping it, the rest of its group is killed, the deadman forgets the group and says
//! so, and only then is the leader reaped.
//!
//! Deliberately absent: control groups (they need rights that a supervisor rarely has; a process that leaves its
//! group with `setsid` or `setpgid` is therefore not covered), shells, and any clock but
//! [`leasehold::clock`].

#![cfg(target_os = "linux")]

pub mod program;

pub mod spec;

pub mod supervisor;

mod spawner;

pub mod stub;

mod group;

pub mod child;

mod directory;

mod notices;

pub mod standby;

pub mod worker;

pub mod shards;

pub mod deadman;

pub mod output;

pub mod restart;

pub mod socket;

pub use child::{Exit, How, Running};
pub use nix::sys::signal::Signal;
pub use output::Output;
pub use program::{Program, hidden_command};
pub use restart::{Next, Policy, Restart};
pub use socket::{Question, Reply, Socket, ask};
pub use spec::Spec;
pub use standby::{Demoted, PromoteError, Standby};
pub use supervisor::{RunError, Supervisor, SupervisorError};
pub use worker::{Said, Worker};
