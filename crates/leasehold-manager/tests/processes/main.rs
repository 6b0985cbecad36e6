//! Real processes and real signals.

#![cfg(target_os = "linux")]

mod children;
mod deadman;
mod faults;
mod socket;
mod standby;
mod standby_faults;
mod stub;
mod supervised;
mod support;
mod workers;
