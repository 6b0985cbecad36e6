//! The Redis store keeps the contract, in an ordinary pool, in one that is mirrored for other clients, and on a server that the
//! version before has written.

#[path = "support/redis_harness.rs"]
mod redis_harness;
#[path = "support/redis_reconnect.rs"]
mod redis_reconnect;
#[path = "support/redis_server.rs"]
mod redis_server;

use redis_harness::Redis;

mod plain {
    use super::*;
    leasehold::conformance!(Redis<false, 2>);
}

mod mirrored {
    use super::*;
    leasehold::conformance!(Redis<true, 2>);
}

mod of_version_1 {
    use super::*;
    leasehold::conformance!(Redis<false, 1>);
}
