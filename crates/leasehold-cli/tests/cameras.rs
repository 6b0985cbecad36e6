//! Cameras with `leasehold serve` as a real process: what is killed, what comes back, and what is never said.
#![cfg(target_os = "linux")]

#[path = "cameras/broker.rs"]
mod broker;
#[path = "cameras/fleet.rs"]
mod fleet;
#[path = "cameras/outage.rs"]
mod outage;
#[path = "cameras/secrets.rs"]
mod secrets;
#[path = "support/server.rs"]
mod server;
mod support;
