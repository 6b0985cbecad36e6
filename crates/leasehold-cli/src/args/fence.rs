//! The options of `fence`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use leasehold::Pool;
use leasehold::store::StoreUrl;

use super::value::duration;
use super::{LogArgs, help};
use crate::health::HealthArgs;

#[derive(Debug, Args)]
pub(crate) struct FenceArgs {
    #[command(subcommand)]
    pub(crate) what: FenceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FenceCommand {
    /// Pass on from one MQTT topic tree to another what the current holder sent
    #[command(after_help = help::FENCE_MQTT)]
    Mqtt(Box<FenceMqttArgs>),
    /// Stand in front of an HTTP service and let through what the current holder sends
    #[command(after_help = help::FENCE_HTTP)]
    Http(Box<FenceHttpArgs>),
    /// Print what has a server refuse stale writers itself
    #[command(after_help = help::FENCE_GUARD)]
    Guard {
        /// For which server
        what: GuardKind,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuardKind {
    /// A function and a trigger, in SQL
    Postgres,
    /// A script, in Lua
    Redis,
}

/// Who says which term is the newest, and how long that counts.
#[derive(Debug, Args)]
pub(crate) struct AuthorityArgs {
    /// Where the leases are: https://HOST of a Leasehold server, or the store itself
    #[arg(long, env = "LEASEHOLD_STORE", hide_env_values = true, value_name = "URL")]
    pub(crate) store: StoreUrl,
    /// The pool whose resources are written to
    #[arg(long, env = "LEASEHOLD_POOL", default_value = "scenes")]
    pub(crate) pool: Pool,
    /// How long what it said counts while it does not answer; a fifth of the lease's TTL if that is less
    #[arg(long, env = "LEASEHOLD_FENCE_LIFETIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) lifetime: Duration,
    /// For a migration: pass on what carries no token, or none that can be read
    #[arg(long, env = "LEASEHOLD_FENCE_ALLOW_UNVERSIONED")]
    pub(crate) allow_unversioned: bool,
    #[command(flatten)]
    pub(crate) health: HealthArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FenceMqttArgs {
    #[command(flatten)]
    pub(crate) authority: AuthorityArgs,
    /// The broker: mqtt://HOST or mqtts://HOST, and behind a # certificates to trust besides the system's, as in
    /// mqtts://HOST#ca=FILE; with a password only in the environment
    #[arg(long, env = "LEASEHOLD_FENCE_BROKER", hide_env_values = true, value_name = "URL")]
    pub(crate) broker: String,
    /// The topics that are listened to
    #[arg(
        long,
        env = "LEASEHOLD_FENCE_FROM",
        default_value = "scenescape/data/scene/+/+",
        value_name = "FILTER"
    )]
    pub(crate) from: String,
    /// Which of their wildcards names the resource
    #[arg(long, env = "LEASEHOLD_FENCE_NAMES", default_value_t = 1, value_name = "N")]
    pub(crate) names: usize,
    /// The topic that is passed on to: {id} is the resource, {1}, {2}, ... what the wildcards stand for
    #[arg(
        long,
        env = "LEASEHOLD_FENCE_TO",
        default_value = "scenescape/regulated/scene/{id}",
        value_name = "TOPIC"
    )]
    pub(crate) to: String,
    /// The name of the session that the broker keeps; two fences with the same throw each other out
    #[arg(long, env = "LEASEHOLD_FENCE_CLIENT_ID", default_value = "leasehold-fence", value_name = "ID")]
    pub(crate) client_id: String,
    /// The largest payload, in bytes; larger ones are refused
    #[arg(long, env = "LEASEHOLD_FENCE_MAX_PAYLOAD", default_value_t = 4 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=256 << 20))]
    pub(crate) max_payload: u64,
}

#[derive(Debug, Args)]
pub(crate) struct FenceHttpArgs {
    #[command(flatten)]
    pub(crate) authority: AuthorityArgs,
    /// Where to listen. An address that others can reach needs TLS
    #[arg(long, env = "LEASEHOLD_FENCE_LISTEN", value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// The service behind it: http://HOST:PORT
    #[arg(long, env = "LEASEHOLD_FENCE_SERVICE", value_name = "URL")]
    pub(crate) service: String,
    /// Certificates to trust besides the system's, where the service speaks TLS
    #[arg(long, env = "LEASEHOLD_FENCE_SERVICE_CA", value_name = "FILE")]
    pub(crate) service_ca: Option<PathBuf>,
    /// The certificate to show, and those between it and its authority
    #[arg(long, env = "LEASEHOLD_TLS_CERT", requires = "tls_key", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key, which not everybody may be able to read
    #[arg(long, env = "LEASEHOLD_TLS_KEY", requires = "tls_cert", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Ask for a token from requests that only look, too: GET, HEAD and OPTIONS
    #[arg(long, env = "LEASEHOLD_FENCE_GUARD_READS")]
    pub(crate) guard_reads: bool,
    /// The largest body of a request, in bytes
    #[arg(long, env = "LEASEHOLD_MAX_BODY", default_value_t = 64 << 20, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) max_body: u64,
    /// How long a request may take until its answer begins
    #[arg(long, env = "LEASEHOLD_FENCE_MAX_TIME", default_value = "15s", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) max_time: Duration,
    /// The most connections at once
    #[arg(long, env = "LEASEHOLD_MAX_CONNECTIONS", default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) max_connections: u64,
}
