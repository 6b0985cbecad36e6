//! The SQLite store keeps the contract.

#[path = "support/sqlite_file.rs"]
mod sqlite_file;
#[path = "support/sqlite_harness.rs"]
mod sqlite_harness;

leasehold::conformance!(sqlite_harness::Sqlite);
