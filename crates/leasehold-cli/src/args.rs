//! The command line. Every option can also come from the environment or from `--config FILE`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use leasehold::store::StoreUrl;
use leasehold::{MemberName, Pool, ResourceId};
use leasehold_manager::Restart;

const AFTER: &str = "\
Exit codes:
  0    done
  1    the answer is no: not trusted, or not found
  2    the command line, the configuration or the store's set-up is wrong
  69   the store does not answer
  71   the system refused something that was needed
  126  the command to run may not be executed
  127  the command to run does not exist

Every option can also come from the environment (LEASEHOLD_STORE, LEASEHOLD_POOL, ...) or from a TOML file
given with --config, under the option's own name. The command line wins, then the environment, then the file.";

/// One owner for every piece of work.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version = VERSION, after_help = AFTER, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("LEASEHOLD_COMMIT"), ")");

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch work being shared out, a member dying, and its work moving on
    Demo(DemoArgs),
    /// Run a command for every resource this process owns
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArgs>),
    /// Ask, from a child of `run`, whether its lease still stands
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Show who is there and who owns what
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// Show one resource or one member
    Show(ShowArgs),
    /// Show what should move, now or if something changed
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(PlanArgs),
    /// Say why a resource is where it is
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Print the ledger: every grant, stop, release, expiry and takeover
    Events(EventsArgs),
    /// Have a member hand off what it holds
    #[command(after_help = MARK_EXAMPLES)]
    Drain(MemberMarkArgs),
    /// Keep new work from a member
    Cordon(MemberMarkArgs),
    /// Tie a resource to a member
    Pin(PinArgs),
    /// Have nobody hold a resource
    Pause(PauseArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    Man {
        /// Where to
        directory: PathBuf,
    },
    /// The work of `demo`: writes a line for every moment it runs
    #[command(name = "demo-work", hide = true)]
    DemoWork {
        /// The file to write to
        journal: PathBuf,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  leasehold run --store sqlite:work.db --pool jobs --resources a,b,c -- ./worker {resource}
  leasehold run --store sqlite:work.db --pool cameras --from file:cameras.txt --ttl 10s -- ./track {resource}
  leasehold run --store sqlite:work.db --pool tenants --from dir:/srv/tenants --capacity 20 -- ./serve {resource}

Start the same line as often as you like, on one host: the processes share the resources out. {resource}, {token},
{pool} and {member} in the command are replaced. The command finds LEASEHOLD_POOL, LEASEHOLD_RESOURCE,
LEASEHOLD_TOKEN, LEASEHOLD_MEMBER and LEASEHOLD_SOCKET in its environment. Linux only.";
const CHECK_EXAMPLES: &str = "\
Examples:
  leasehold check && write-the-result        within a child of `leasehold run`
  leasehold check --json                     {\"trusted\":true,\"token\":7,\"remaining_ms\":21034,...}";
const STATUS_EXAMPLES: &str = "\
Examples:
  leasehold status --store sqlite:work.db
  leasehold status --store sqlite:work.db --pool jobs --json";
const PLAN_EXAMPLES: &str = "\
Examples:
  leasehold plan --store sqlite:work.db --pool jobs
  leasehold plan --store sqlite:work.db --pool jobs --drain api-2
  leasehold plan --store sqlite:work.db --pool jobs --join 2";
const EXPLAIN_EXAMPLES: &str = "\
Examples:
  leasehold explain --store sqlite:work.db jobs/a
  leasehold explain --store sqlite:work.db --pool jobs a";
const MARK_EXAMPLES: &str = "\
Examples:
  leasehold drain --store sqlite:work.db --pool jobs api-2
  leasehold drain --store sqlite:work.db --pool jobs api-2 --undo";

/// Where the leases are.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The store: sqlite:PATH
    #[arg(long, env = "LEASEHOLD_STORE", hide_env_values = true, value_name = "URL")]
    pub(crate) store: StoreUrl,
    /// A TOML file with options
    #[arg(long, env = "LEASEHOLD_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// How logs are written, to standard error.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// How logs are written
    #[arg(long, env = "LEASEHOLD_LOG_FORMAT", value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or a filter such as leasehold=debug
    #[arg(long, env = "LEASEHOLD_LOG", default_value = "info", value_name = "LEVEL")]
    pub(crate) log: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// The pool to take part in
    #[arg(long, env = "LEASEHOLD_POOL")]
    pub(crate) pool: Pool,
    /// The resources, separated by commas
    #[arg(
        long,
        env = "LEASEHOLD_RESOURCES",
        value_delimiter = ',',
        conflicts_with = "from",
        value_name = "A,B,..."
    )]
    pub(crate) resources: Vec<ResourceId>,
    /// Where to learn the resources: file:PATH (one a line), dir:PATH (the names in it), cmd:COMMAND (its
    /// output). Without this and --resources, those declared in the store
    #[arg(long, env = "LEASEHOLD_FROM", value_name = "SOURCE")]
    pub(crate) from: Option<String>,
    /// How long others wait for a sign of life before they take over
    #[arg(long, env = "LEASEHOLD_TTL", value_parser = duration, value_name = "TIME")]
    pub(crate) ttl: Option<Duration>,
    /// How often a sign of life is given [default: a third of the TTL]
    #[arg(long, env = "LEASEHOLD_HEARTBEAT", value_parser = duration, value_name = "TIME")]
    pub(crate) heartbeat: Option<Duration>,
    /// How long one call to the store may take [default: half the heartbeat, at most 3s]
    #[arg(long, env = "LEASEHOLD_CALL_TIMEOUT", value_parser = duration, value_name = "TIME")]
    pub(crate) call_timeout: Option<Duration>,
    /// What is taken off the TTL for clocks that differ [default: a tenth of the TTL, at least 200ms]
    #[arg(long, env = "LEASEHOLD_MARGIN", value_parser = duration, value_name = "TIME")]
    pub(crate) margin: Option<Duration>,
    /// How long a command gets between SIGTERM and SIGKILL [default: a quarter of the TTL, at most 10s]
    #[arg(long, env = "LEASEHOLD_GRACE", value_parser = duration, value_name = "TIME")]
    pub(crate) grace: Option<Duration>,
    /// How many handoffs may be in flight in the pool
    #[arg(long, env = "LEASEHOLD_BUDGET", value_name = "N")]
    pub(crate) budget: Option<usize>,
    /// What happens to the commands while the store does not confirm heartbeats
    #[arg(long, env = "LEASEHOLD_ON_UNCERTAIN", value_enum)]
    pub(crate) on_uncertain: Option<Uncertain>,
    /// How long commands go on with --on-uncertain continue [default: while trusted]
    #[arg(long, env = "LEASEHOLD_UNCERTAIN_BUDGET", value_parser = duration, value_name = "TIME")]
    pub(crate) uncertain_budget: Option<Duration>,
    /// This member's name, the same after a restart [default: the host's name]
    #[arg(long, env = "LEASEHOLD_NAME")]
    pub(crate) name: Option<MemberName>,
    /// The most resources (by weight) this member takes
    #[arg(long, env = "LEASEHOLD_CAPACITY", value_name = "N")]
    pub(crate) capacity: Option<u64>,
    /// A label that resources may require, as key=value; may be given several times
    #[arg(long = "label", env = "LEASEHOLD_LABEL", value_parser = label, value_delimiter = ',', value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<(String, String)>,
    /// Whether a command that ended is started again: always, on-failure or never
    #[arg(long, env = "LEASEHOLD_RESTART", default_value = "always", value_name = "WHEN")]
    pub(crate) restart: Restart,
    /// The command to run for each resource
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Uncertain {
    Pause,
    Continue,
    Stop,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The supervisor's socket
    #[arg(long, env = "LEASEHOLD_SOCKET", value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// The resource
    #[arg(long, env = "LEASEHOLD_RESOURCE")]
    pub(crate) resource: ResourceId,
    /// The token the work was started with
    #[arg(long, env = "LEASEHOLD_TOKEN")]
    pub(crate) token: Option<leasehold::Token>,
    /// How long to wait for an answer
    #[arg(long, default_value = "2s", value_parser = duration, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Only this pool
    #[arg(long, env = "LEASEHOLD_POOL")]
    pub(crate) pool: Option<Pool>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A pool in a store.
#[derive(Debug, Args)]
pub(crate) struct PoolArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The pool
    #[arg(long, env = "LEASEHOLD_POOL")]
    pub(crate) pool: Pool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) pool: PoolArgs,
    /// A resource's id, or a member's name or id
    pub(crate) subject: String,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) pool: PoolArgs,
    /// What if this member were drained (by name; may be given several times)
    #[arg(long, value_name = "NAME")]
    pub(crate) drain: Vec<MemberName>,
    /// What if this member were gone (by name; may be given several times)
    #[arg(long, value_name = "NAME")]
    pub(crate) without: Vec<MemberName>,
    /// What if this many more members joined
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) join: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// The pool, unless given with the resource
    #[arg(long, env = "LEASEHOLD_POOL")]
    pub(crate) pool: Option<Pool>,
    /// POOL/RESOURCE, or RESOURCE with --pool
    pub(crate) resource: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    pub(crate) pool: PoolArgs,
    /// Only this resource
    #[arg(long)]
    pub(crate) resource: Option<ResourceId>,
    /// The newest so many
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=200_000))]
    pub(crate) limit: u64,
    /// Go on printing as things happen
    #[arg(long, short)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MemberMarkArgs {
    #[command(flatten)]
    pub(crate) pool: PoolArgs,
    /// The member's name
    pub(crate) member: MemberName,
    /// Take it back
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    #[command(flatten)]
    pub(crate) pool: PoolArgs,
    /// The resource
    pub(crate) resource: ResourceId,
    /// The member's name
    #[arg(required_unless_present = "undo")]
    pub(crate) member: Option<MemberName>,
    /// Take it back
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) pool: PoolArgs,
    /// The resource
    pub(crate) resource: ResourceId,
    /// Take it back
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The TTL of the demo's leases
    #[arg(long, default_value = "3s", value_parser = duration, value_name = "TIME")]
    pub(crate) ttl: Duration,
}

/// A length of time such as `30s`, `500ms` or `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("give a number and a unit: 500ms, 30s, 2m or 1h".to_owned()),
    };
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && (0.0..=1e6).contains(&value) => {
            Ok(Duration::from_secs_f64(value * unit))
        }
        _ => Err("give a number and a unit: 500ms, 30s, 2m or 1h".to_owned()),
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("give a label as key=value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_need_a_number_and_a_unit() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "5", "s", "-1s", "1d", "1e9s", "infs", "NaNs"] {
            assert!(duration(bad).is_err(), "{bad:?} was taken");
        }
    }
}
