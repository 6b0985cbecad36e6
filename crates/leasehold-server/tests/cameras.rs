//! Cameras: document 004 to the letter, and what it leaves open.

#[path = "cameras/config.rs"]
mod config;
#[path = "cameras/deploy.rs"]
mod deploy;
#[path = "cameras/events.rs"]
mod events;
#[path = "cameras/leases.rs"]
mod leases;
#[path = "cameras/postgres.rs"]
mod postgres;
#[path = "cameras/runners.rs"]
mod runners;
#[path = "cameras/stage.rs"]
mod stage;
mod support;
