//! One owner for every piece of work.
//!
//! N replicas of a service share M pieces of work. Each piece is handled by **at most one** replica at any
//! moment and, whenever a healthy replica has room, by **exactly one**. Replicas come and go without
//! configuration; whoever lost a piece can no longer harm it.
//!
//! Read this crate from top to bottom, in the order in which data flows: the words ([`lease`]), time
//! ([`clock`]), what is agreed upon ([`store`]), which resources there are ([`discover`]), what a reader knows
//! of a pool ([`view`]), who is still there ([`listen`]), what should move ([`plan`]), what operators do ([`operate`]), taking part ([`participant`]), one seat for a leader
//! ([`election`]), and the record of it all ([`ledger`]). [`fence`] is the check at the thing being written.
//!
//! # Features
//! `sqlite` (default): the embedded store. `postgres`, `redis`, `etcd`: stores on servers. `http`: the store behind a
//! Leasehold server. `openapi`: schemas of what crosses the line to it. `conformance`: the suite that every store must pass.
//! `mistakes`: for simulations only, known mistakes that can be put back.

pub mod lease;

pub mod clock;

pub mod store;

pub mod discover;

pub mod view;

pub mod listen;

pub mod plan;

pub mod operate;

pub mod participant;

pub mod election;

pub mod blocking;

pub mod fence;

pub mod ledger;

#[doc(hidden)]
pub mod mistakes;

pub use election::Election;
pub use lease::{MemberId, MemberName, Pool, ResourceId, Term, Token};
pub use participant::{Lease, Participant};
