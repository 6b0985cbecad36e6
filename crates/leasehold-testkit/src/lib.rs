//! Private servers for tests, and what can happen to them.
//!
//! Each server is started from Debian's packages on free loopback ports in a directory of its own that goes with it, as
//! root or not. It can be killed, stopped, paused and started again; a [`Proxy`] in front of it cuts, slows and
//! loses what passes. Nothing here looks outside the directory it made.

mod clock;
mod dir;
mod disk;
mod etcd;
mod heir;
mod mosquitto;
mod pgbouncer;
mod postgres;
mod process;
mod proxy;
mod psql;
mod rabbitmq;
mod redis;
mod sentinel;

pub use clock::WallClock;
pub use dir::Dir;
pub use disk::SmallDisk;
pub use etcd::{Etcd, EtcdCluster, EtcdOptions};
pub use mosquitto::{Mosquitto, MosquittoSetup};
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use process::{Process, free_port, wait_for};
pub use proxy::{Faults, Proxy};
pub use rabbitmq::{RabbitMq, RabbitMqSetup};
pub use redis::{Persistence, Redis, RedisSetup};
pub use sentinel::Sentinels;
