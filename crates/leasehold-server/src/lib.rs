//! The control plane.

pub mod events;
