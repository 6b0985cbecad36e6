//! The store behind a server keeps the contract: every case of the suite, over a real line, on a SQLite file and in memory.
// proves R238: members need no way to the database

#[path = "support/http_harness.rs"]
mod http_harness;
#[path = "../../leasehold/tests/support/memory_harness.rs"]
mod memory_harness;
#[path = "../../leasehold/tests/support/sqlite_file.rs"]
mod sqlite_file;
#[path = "../../leasehold/tests/support/sqlite_harness.rs"]
mod sqlite_harness;

mod sqlite {
    use super::*;

    leasehold::conformance!(http_harness::Http<sqlite_harness::Sqlite>);
}

mod memory {
    use super::*;

    leasehold::conformance!(http_harness::Http<memory_harness::Memory>);
}
