//! The etcd store keeps the contract.

#[path = "support/etcd_harness.rs"]
mod etcd_harness;
#[path = "support/etcd_server.rs"]
mod etcd_server;

leasehold::conformance!(etcd_harness::Etcd);
