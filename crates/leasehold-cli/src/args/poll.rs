//! The options of `poll`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leasehold::store::Grade;
use leasehold::{MemberName, Pool};

use super::value::{duration, grade, label, percent};
use super::{LogArgs, SessionArgs, StoreArgs, TimeArgs};
use crate::health::HealthArgs;

#[derive(Debug, Args)]
pub(crate) struct PollArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// The pool to take part in
    #[arg(long, env = "LEASEHOLD_POOL", default_value = "endpoints")]
    pub(crate) pool: Pool,
    /// Where the endpoints are listed on the store's own Redis: redis-sessions, redis-set:KEY (their ids) or
    /// redis-hash:KEY (id and address)
    #[arg(long, env = "LEASEHOLD_FROM", default_value = "redis-sessions", value_name = "SOURCE")]
    pub(crate) from: String,
    #[command(flatten)]
    pub(crate) sessions: SessionArgs,
    /// The field with a session's address
    #[arg(long, env = "LEASEHOLD_SESSION_ADDRESS_FIELD", default_value = "address", value_name = "FIELD")]
    pub(crate) session_address_field: String,
    /// The address of an endpoint that has none of its own, with {id} in it: http://{id}.internal:8080
    #[arg(long, env = "LEASEHOLD_ADDRESS", value_name = "URL")]
    pub(crate) address: Option<String>,
    /// What is asked for at the endpoint's address, instead of what the address says itself
    #[arg(long, env = "LEASEHOLD_PATH", value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// How often each endpoint is asked, unless its session has a pollInterval
    #[arg(long, env = "LEASEHOLD_INTERVAL", default_value = "10s", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) interval: Duration,
    /// How long one answer may take, unless the session has a pollTimeout
    #[arg(long, env = "LEASEHOLD_TIMEOUT", default_value = "20s", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// By how much an interval differs from time to time, so that endpoints are not all asked at once
    #[arg(long, env = "LEASEHOLD_JITTER", default_value = "10%", value_parser = percent, value_name = "PERCENT")]
    pub(crate) jitter: f64,
    /// How many endpoints are asked at once
    #[arg(long, env = "LEASEHOLD_CONCURRENCY", default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: u32,
    /// The most bytes of an answer
    #[arg(long, env = "LEASEHOLD_BODY_MAX", default_value_t = 1 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(0..=64 << 20))]
    pub(crate) body_max: u64,
    /// A file with headers to send to endpoints, one `Name: value` a line
    #[arg(long, env = "LEASEHOLD_HEADER_FILE", value_name = "PATH")]
    pub(crate) header_file: Option<PathBuf>,
    /// A file with certificates to trust besides the system's, for endpoints and webhooks with https
    #[arg(long, env = "LEASEHOLD_CA", value_name = "PATH")]
    pub(crate) ca: Option<PathBuf>,
    /// Where answers go: channel:NAME and stream:KEY of the store's Redis, stdout, or the http(s) URL of a
    /// webhook. {id} in a name or key is the endpoint's id. May be given several times
    #[arg(
        long,
        env = "LEASEHOLD_TO",
        default_value = "channel:satisfactory_events:{id}",
        value_delimiter = ',',
        value_name = "SINK"
    )]
    pub(crate) to: Vec<String>,
    /// How many answers a stream keeps, about
    #[arg(long, env = "LEASEHOLD_STREAM_KEEP", default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) stream_keep: u64,
    /// A file with headers to send to webhooks, one `Name: value` a line
    #[arg(long, env = "LEASEHOLD_WEBHOOK_HEADER_FILE", value_name = "PATH")]
    pub(crate) webhook_header_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) times: TimeArgs,
    /// How many handoffs may be in flight in the pool [default: 64]
    #[arg(long, env = "LEASEHOLD_BUDGET", value_name = "N")]
    pub(crate) budget: Option<usize>,
    /// This member's name, the same after a restart [default: the host's name]
    #[arg(long, env = "LEASEHOLD_NAME")]
    pub(crate) name: Option<MemberName>,
    /// The most endpoints this member takes
    #[arg(long, env = "LEASEHOLD_CAPACITY", value_name = "N")]
    pub(crate) capacity: Option<u64>,
    /// A label that resources may require, as key=value; may be given several times
    #[arg(long = "label", env = "LEASEHOLD_LABEL", value_parser = label, value_delimiter = ',', value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) health: HealthArgs,
    /// Refuse to start on a store that keeps its word less well: may-lose-writes, durable-on-one-node or
    /// durable-and-linearizable
    #[arg(long, env = "LEASEHOLD_REQUIRE_GRADE", value_parser = grade, value_name = "GRADE")]
    pub(crate) require_grade: Option<Grade>,
}
