//! A small scheduler: one replica leads and gives instances to workers, the others stand by with a warm cache.
//!
//! Read it in this order. [`world`] is what there is, [`schedule`] and [`control`] what should be done about it, both pure.
//! [`step`] is one write, with all that it depends on. [`lead`] is what a leader does with them, [`cache`] where it knows the
//! world from, [`etcd`] how it speaks to etcd. `main.rs` starts it all.

pub mod cache;
pub mod config;
pub mod control;
pub mod etcd;
pub mod lead;
pub mod schedule;
pub mod step;
pub mod world;
