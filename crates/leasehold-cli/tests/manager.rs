//! Managers with a real control plane, real workers, real signals.
#![cfg(target_os = "linux")]

#[path = "manager/bad.rs"]
mod bad;
#[path = "manager/campaign.rs"]
mod campaign;
#[path = "manager/change.rs"]
mod change;
#[path = "manager/example.rs"]
mod example;
#[path = "cameras/fleet.rs"]
mod fleet;
#[path = "manager/house.rs"]
mod house;
#[path = "manager/life.rs"]
mod life;
#[path = "manager/outage.rs"]
mod outage;
#[path = "support/project.rs"]
mod project;
#[path = "support/python.rs"]
mod python;
#[path = "support/server.rs"]
mod server;
mod support;
