//! One owner for every piece of work.

pub mod lease;

pub mod clock;

pub mod store;

pub mod plan;

pub mod ledger;
