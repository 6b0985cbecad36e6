//! Real processes and real signals.

#![cfg(target_os = "linux")]

mod children;
mod deadman;
mod faults;
mod socket;
mod stub;
mod support;
