//! Fences for services that cannot check tokens themselves: one in front of an MQTT topic, one in front of an HTTP service.
//!
//! Both pass on what the current holder sent and refuse everything else, by a [`Gate`](leasehold::fence::Gate). They keep
//! nothing: what was not passed on and confirmed was not acknowledged either.

pub mod http;
pub mod mqtt;
mod tally;
mod topic;

pub use tally::Tally;
pub use topic::{Route, RouteError};
