//! The options of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use leasehold::MemberName;
use leasehold::store::StoreUrl;

use super::LogArgs;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen. An address that others can reach needs keys and TLS
    #[arg(long, env = "LEASEHOLD_LISTEN", default_value = "127.0.0.1:7400", value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// Where everything is kept: sqlite:PATH or postgres://USER@HOST/DB [default: a file in your data directory]
    #[arg(long, env = "LEASEHOLD_DATABASE", hide_env_values = true, value_name = "URL")]
    pub(crate) database: Option<StoreUrl>,
    /// Keep the leases here instead: redis://HOST or etcd://HOST,HOST; resources, keys and the ledger stay in
    /// the database
    #[arg(long, env = "LEASEHOLD_STORE", hide_env_values = true, value_name = "URL")]
    pub(crate) store: Option<StoreUrl>,
    /// Nobody has ever held anything here: a new PostgreSQL, Redis or etcd grants at once instead of after a minute
    #[arg(long)]
    pub(crate) fresh: bool,
    /// The name of this replica in the ledger [default: the host's name]
    #[arg(long, env = "LEASEHOLD_NAME", value_name = "NAME")]
    pub(crate) name: Option<MemberName>,
    /// Send what happens to a broker or a receiver: amqp(s)://, mqtt(s):// or https://; give it for each
    #[arg(long, env = "LEASEHOLD_EVENTS", hide_env_values = true, value_delimiter = ' ', value_name = "URL")]
    pub(crate) events: Vec<String>,
    /// Events may be posted to addresses that begin like this one; to no others
    #[arg(long, env = "LEASEHOLD_WEBHOOK_ALLOW", value_delimiter = ' ', value_name = "URL")]
    pub(crate) webhook_allow: Vec<String>,
    /// Events may be posted to this host even if its address is a private one
    #[arg(long, env = "LEASEHOLD_WEBHOOK_PRIVATE_HOST", value_delimiter = ' ', value_name = "HOST")]
    pub(crate) webhook_private_host: Vec<String>,
    /// For how long runners may go on while the control plane is away: leases of cameras are kept for as long from
    /// then on, though nobody renews them. 0s if runners stop in time by themselves
    #[arg(long, env = "LEASEHOLD_OUTAGE_GRACE", default_value = "5m", value_parser = super::duration, value_name = "TIME")]
    pub(crate) outage_grace: std::time::Duration,
    /// How many rows the ledger keeps, and with it the events of leases: the oldest go first
    #[arg(long, env = "LEASEHOLD_KEEP_EVENTS", default_value = "200000", value_name = "N", value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub(crate) keep_events: u64,
    /// Send spans of requests to the OpenTelemetry collector at this address, over HTTP
    #[cfg(feature = "otlp")]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// A TOML file with options; SIGHUP has the log level, the limits, the certificate and the keys read again
    #[arg(long, env = "LEASEHOLD_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// TLS: files in PEM, read again when they change.
#[derive(Debug, Args)]
pub(crate) struct TlsArgs {
    /// The certificate, and those between it and its authority
    #[arg(long, env = "LEASEHOLD_TLS_CERT", requires = "tls_key", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key, which not everybody may be able to read
    #[arg(long, env = "LEASEHOLD_TLS_KEY", requires = "tls_cert", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Ask clients for certificates of these authorities, besides their keys
    #[arg(long, env = "LEASEHOLD_TLS_CLIENT_CA", requires = "tls_cert", value_name = "FILE")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Whether a client may come without a certificate
    #[arg(
        long,
        env = "LEASEHOLD_TLS_CLIENT_AUTH",
        value_enum,
        default_value = "required",
        value_name = "WHETHER"
    )]
    pub(crate) tls_client_auth: ClientAuth,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientAuth {
    Required,
    Optional,
}

/// What nothing may exceed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LimitArgs {
    /// How many requests each key may send in a second [default: 2000]
    #[arg(long, env = "LEASEHOLD_RATE", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: Option<u32>,
    /// How many it may send at once after a while without any [default: twice the rate]
    #[arg(long, env = "LEASEHOLD_BURST", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) burst: Option<u32>,
    /// The largest body of a request, in bytes [default: 1048576]
    #[arg(long, env = "LEASEHOLD_MAX_BODY", value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1024..=1 << 30))]
    pub(crate) max_body: Option<u64>,
    /// The largest document of a resource, in bytes [default: 65536]
    #[arg(long, env = "LEASEHOLD_MAX_DOCUMENT", value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub(crate) max_document: Option<u64>,
    /// The most streams of events at once [default: 1000; a quarter of it with one key]
    #[arg(long, env = "LEASEHOLD_MAX_STREAMS", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) max_streams: Option<u64>,
    /// How long somebody who logged in on the page stays so [default: 12h]
    #[arg(long, env = "LEASEHOLD_LOG_IN_LASTS", value_parser = super::duration, value_name = "TIME")]
    pub(crate) log_in_lasts: Option<std::time::Duration>,
    /// The most connections at once [default: 10000]
    #[arg(long, env = "LEASEHOLD_MAX_CONNECTIONS", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) max_connections: Option<u64>,
}
