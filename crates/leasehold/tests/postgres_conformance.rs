//! The PostgreSQL store keeps the contract.

#[path = "support/postgres_harness.rs"]
mod postgres_harness;
#[path = "support/postgres_server.rs"]
mod postgres_server;

leasehold::conformance!(postgres_harness::Postgres);
