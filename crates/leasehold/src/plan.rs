//! What should move, computed from members, resources and leases by a pure function.

pub mod rendezvous;
