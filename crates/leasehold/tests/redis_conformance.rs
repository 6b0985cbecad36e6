//! The Redis store keeps the contract, in an ordinary pool and in one that is mirrored for other clients.

#[path = "support/redis_harness.rs"]
mod redis_harness;
#[path = "support/redis_reconnect.rs"]
mod redis_reconnect;
#[path = "support/redis_server.rs"]
mod redis_server;

use redis_harness::Redis;

mod plain {
    use super::*;
    leasehold::conformance!(Redis<false>);
}

mod mirrored {
    use super::*;
    leasehold::conformance!(Redis<true>);
}
