//! Cameras: document 004 to the letter, and what it leaves open.

#[path = "cameras/config.rs"]
mod config;
#[path = "cameras/stage.rs"]
mod stage;
mod support;
