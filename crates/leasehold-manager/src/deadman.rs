//! The deadman: a tiny process that holds the deadline of all children, so that it is kept even when the
//! supervisor is frozen or gone.
//!
//! Invariant: at its deadline every watched group is killed, and when the supervisor is gone all are killed at
//! once, those too that are free of a deadline. Invariant: a group is watched only while its leader is unreaped, so no other group is ever hit; the
//! supervisor reaps a leader only after the deadman has confirmed that it forgot the group.
//!
//! | line to it | meaning |
//! |---|---|
//! | `until TERM KILL` | the deadline of all: ask them to end, then kill them. Only ever rises |
//! | `watch GROUP` | from now on: it is dead by the deadline |
//! | `lasting GROUP KILL` | from now on: it has a deadline of its own, which may move either way, and not that of all |
//! | `free GROUP` | from now on: it leads nothing, so the deadline is not for it. Also ends `demoting` |
//! | `demoting GROUP KILL` | the supervisor has told this group to stop leading and will kill it at this moment, if not earlier, unless it says before that it did: then it is freed |
//! | `stopping GROUP KILL` | the supervisor has asked this group to end and will kill it at this moment, if not earlier |
//! | `forget GROUP` | its processes are dead or killed |
//! | end of input | the supervisor is gone |
//!
//! Moments are nanoseconds of [`leasehold::clock`]. Each line is answered by `ok`, in order; anything else by
//! `no`.

mod handle;
mod process;
mod watch;

pub use handle::DeadmanError;
pub(crate) use handle::{Deadman, Ward};
pub use process::deadman_main;
pub(crate) use watch::Deadline;
