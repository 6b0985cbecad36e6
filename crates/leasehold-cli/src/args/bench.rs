//! The options of `bench`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{StoreArgs, duration};

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Only these cases, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',', hide_possible_values = true, value_name = "CASE,...")]
    pub(crate) only: Vec<BenchCase>,
    /// How long each case that counts calls goes on
    #[arg(long, default_value = "2s", value_parser = round, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) round: Duration,
    /// The most leases that are held at once
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) leases: u32,
    /// How many take part in fan-out, cold-start and keep
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) members: u32,
    /// How many resources cold-start shares out
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) resources: u32,
    /// How many handoffs, failovers and changes are timed
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) turns: u32,
    /// How many call at once, each with a session of its own
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) callers: u32,
    /// The TTL in failover and keep
    #[arg(long, default_value = "3s", value_parser = ttl, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) ttl: Duration,
    /// A process of this machine, such as the store's server, whose use of it is told by keep
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchCase {
    Acquire,
    Batch,
    Contended,
    Heartbeat,
    Release,
    Handoff,
    Failover,
    FanOut,
    ColdStart,
    Keep,
}

fn round(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(10), Duration::from_secs(600))
}

fn ttl(text: &str) -> Result<Duration, String> {
    within(text, leasehold::participant::TTL_MIN, Duration::from_secs(60))
}

fn within(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let given = duration(text)?;
    if given < least || given > most {
        return Err(format!("{text:?} is too short or too long; give {least:?} to {most:?}"));
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_and_ttls_have_limits() {
        assert_eq!(round("5s"), Ok(Duration::from_secs(5)));
        assert!(round("1h").is_err() && round("1ms").is_err() && ttl("10ms").is_err() && ttl("2m").is_err());
    }
}
