//! The real participant and the real plan under virtual time, with seeded faults.
//!
//! A run is a pure function of its seed, if this is built from the directory `sim` (see its `.cargo/config.toml`). Members live on machines whose clocks start anywhere and run at different
//! rates; they reach the store over a network that delays, loses, repeats and cuts; machines crash, processes are
//! stopped, the store goes down, crashes and falls back on what it knew before. [`history`] is what somebody saw who
//! sees everything. Each of [`invariants`] judges it.
//!
//! First everything goes wrong for a while, and nothing unsafe may happen. Then everything is mended, and the pool must
//! come to rest as it should be.

mod faults;
mod gate;
pub mod history;
pub mod invariants;
mod machine;
mod network;
mod run;
pub mod search;
mod store;
mod time;
mod work;
mod world;

pub use run::run;

/// A run makes tens of thousands of small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
