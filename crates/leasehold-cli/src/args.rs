//! The command line. Options can also come from the environment or from `--config FILE`.

mod bench;
mod deploy;
mod fence;
mod help;
mod inspect;
mod keys;
mod manager;
mod marks;
mod poll;
mod serve;
mod source;
mod value;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use leasehold::election::Key;
#[cfg(target_os = "linux")]
use leasehold::participant::Settings;
use leasehold::store::{Grade, StoreUrl};
use leasehold::{MemberName, Pool, ResourceId};
#[cfg(target_os = "linux")]
use leasehold_manager::Restart;

pub(crate) use self::bench::{BenchArgs, BenchCase};
pub(crate) use self::deploy::{DeployArgs, DeployCommand};
pub(crate) use self::fence::{
    AuthorityArgs, FenceArgs, FenceCommand, FenceHttpArgs, FenceMqttArgs, GuardKind,
};
pub(crate) use self::inspect::{EventsArgs, ExplainArgs, PlanArgs, PoolArgs, ShowArgs, StatusArgs, TopArgs};
pub(crate) use self::keys::{KeysArgs, KeysCommand};
pub(crate) use self::manager::ManagerArgs;
#[cfg(target_os = "linux")]
pub(crate) use self::manager::ManagerCommand;
pub(crate) use self::marks::{
    ActArgs, MemberActArgs, MemberMarkArgs, PauseArgs, PinArgs, ResignArgs, ResourceActArgs,
};
pub(crate) use self::poll::PollArgs;
pub(crate) use self::serve::{ClientAuth, ServeArgs};
pub(crate) use self::source::SessionArgs;
pub(crate) use self::value::duration;
use self::value::{grade, label};
use crate::health::HealthArgs;

/// One owner for every piece of work.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version = VERSION, after_help = help::TOP, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("LEASEHOLD_COMMIT"), ")");

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch work being shared out, a member dying, and its work moving on
    #[command(after_help = help::DEMO)]
    Demo(DemoArgs),
    /// Run a command for every resource this process owns
    #[command(after_help = help::RUN)]
    Run(Box<RunArgs>),
    /// Ask every endpoint this process owns over HTTP, again and again, and pass on what it says
    #[command(after_help = help::POLL)]
    Poll(Box<PollArgs>),
    /// Campaign for a leader's seat and run a command while leading
    #[command(after_help = help::ELECT)]
    Elect(Box<ElectArgs>),
    /// Give out leases over HTTP, to any language
    #[command(after_help = help::SERVE)]
    Serve(Box<ServeArgs>),
    /// Lease cameras from a control plane and keep workers that work on them
    #[command(after_help = help::MANAGER)]
    Manager(Box<ManagerArgs>),
    /// Refuse what a stale holder still sends, in front of what it writes to
    #[command(after_help = help::FENCE)]
    Fence(FenceArgs),
    /// Make, list, rotate and revoke the API keys of the control plane
    #[command(after_help = help::KEYS)]
    Keys(KeysArgs),
    /// Have another version of the runners take the cameras over
    #[command(after_help = help::DEPLOY)]
    Deploy(DeployArgs),
    /// Ask, from a child of `run` or `elect`, whether its lease still stands
    #[command(after_help = help::CHECK)]
    Check(CheckArgs),
    /// Show who is there and who owns what
    #[command(after_help = help::STATUS)]
    Status(StatusArgs),
    /// Show one resource or one member
    #[command(after_help = help::SHOW)]
    Show(ShowArgs),
    /// Show what should move, now or if something changed
    #[command(after_help = help::PLAN)]
    Plan(PlanArgs),
    /// Say why a resource is where it is
    #[command(after_help = help::EXPLAIN)]
    Explain(ExplainArgs),
    /// Print the ledger: every grant, stop, release, expiry and takeover
    #[command(after_help = help::EVENTS)]
    Events(EventsArgs),
    /// Judge the ledger: did anything ever have two owners, and why had it none?
    #[command(after_help = help::VERIFY)]
    Verify(VerifyArgs),
    /// Create what a store needs, or bring it up to date
    #[command(after_help = help::MIGRATE)]
    Migrate(MigrateArgs),
    /// Look a store over: how well can it keep its word as it is set up?
    #[command(after_help = help::DOCTOR)]
    Doctor(DoctorArgs),
    /// Measure how fast a store is, in pools of the benchmark's own
    #[command(after_help = help::BENCH)]
    Bench(BenchArgs),
    /// Have a member hand off what it holds
    #[command(after_help = help::DRAIN)]
    Drain(MemberMarkArgs),
    /// Have a drained member take part again
    #[command(after_help = help::UNDRAIN)]
    Undrain(MemberActArgs),
    /// Keep new work from a member
    #[command(after_help = help::CORDON)]
    Cordon(MemberMarkArgs),
    /// Give a cordoned member new work again
    #[command(after_help = help::UNCORDON)]
    Uncordon(MemberActArgs),
    /// Tie a resource to a member
    #[command(after_help = help::PIN)]
    Pin(PinArgs),
    /// Let a pinned resource be anywhere
    #[command(after_help = help::UNPIN)]
    Unpin(ResourceActArgs),
    /// Have nobody hold a resource
    #[command(after_help = help::PAUSE)]
    Pause(PauseArgs),
    /// Share a paused resource out again
    #[command(after_help = help::RESUME)]
    Resume(ResourceActArgs),
    /// Have the holder of a resource let go of it
    #[command(after_help = help::REVOKE)]
    Revoke(ResourceActArgs),
    /// Have the leader of an election hand its seat over
    #[command(after_help = help::RESIGN)]
    Resign(ResignArgs),
    /// Watch a pool in the terminal, and steer it
    #[command(after_help = help::TOP_VIEW)]
    Top(TopArgs),
    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    #[command(after_help = help::MAN)]
    Man {
        /// Where to
        directory: PathBuf,
    },
    /// The work of `demo`: writes a line for every moment it runs
    #[command(name = "demo-work", hide = true)]
    DemoWork {
        /// The directory to write into
        journal: PathBuf,
    },
}

/// Where the leases are.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The store: sqlite:PATH, postgres://USER@HOST/DB, redis://HOST, etcd://HOST,HOST or
    /// https://HOST of a Leasehold server
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
    #[arg(long, env = "LEASEHOLD_LOG_FORMAT", value_enum, default_value = "text", value_name = "FORMAT")]
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

/// How long things take.
#[derive(Debug, Clone, Args)]
pub(crate) struct TimeArgs {
    /// How long others wait for a sign of life before they take over [default: 30s; 60s in the pool
    /// cameras, 15s for a leader]
    #[arg(long, env = "LEASEHOLD_TTL", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) ttl: Option<Duration>,
    /// How often a sign of life is given [default: a third of the TTL]
    #[arg(long, env = "LEASEHOLD_HEARTBEAT", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) heartbeat: Option<Duration>,
    /// How long one call to the store may take [default: three fifths of the heartbeat, at most 3s]
    #[arg(long, env = "LEASEHOLD_CALL_TIMEOUT", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) call_timeout: Option<Duration>,
    /// What is taken off the TTL for clocks that differ [default: a tenth of the TTL, at least 200ms]
    #[arg(long, env = "LEASEHOLD_MARGIN", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) margin: Option<Duration>,
    /// How long a command gets between SIGTERM and SIGKILL [default: a sixth of the TTL, at most 10s]
    #[arg(long, env = "LEASEHOLD_GRACE", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) grace: Option<Duration>,
}

impl TimeArgs {
    /// The defaults with what was given in their place.
    #[cfg(target_os = "linux")]
    pub(crate) fn applied(&self, defaults: Settings) -> Settings {
        let mut settings = match self.ttl {
            Some(ttl) => Settings { on_uncertain: defaults.on_uncertain, ..Settings::with_ttl(ttl) },
            None => defaults,
        };
        if let Some(heartbeat) = self.heartbeat {
            settings.heartbeat = heartbeat;
            settings.call_timeout = settings.call_timeout.min(heartbeat * 3 / 5);
        }
        settings.call_timeout = self.call_timeout.unwrap_or(settings.call_timeout);
        settings.margin = self.margin.unwrap_or(settings.margin);
        settings.grace = self.grace.unwrap_or(settings.grace);
        settings
    }
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
    /// output); on the store's own Redis redis-sessions, redis-set:KEY or redis-hash:KEY. Without this and
    /// --resources, those declared in the store
    #[arg(long, env = "LEASEHOLD_FROM", value_name = "SOURCE")]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    pub(crate) sessions: SessionArgs,
    #[command(flatten)]
    pub(crate) times: TimeArgs,
    /// How many handoffs may be in flight in the pool [default: 64]
    #[arg(long, env = "LEASEHOLD_BUDGET", value_name = "N")]
    pub(crate) budget: Option<usize>,
    /// What happens to the commands while the store does not confirm heartbeats [default: continue; pause
    /// in the pool endpoints]
    #[arg(long, env = "LEASEHOLD_ON_UNCERTAIN", value_enum, value_name = "WHAT")]
    pub(crate) on_uncertain: Option<Uncertain>,
    /// How long commands go on with --on-uncertain continue [default: while trusted]
    #[arg(long, env = "LEASEHOLD_UNCERTAIN_BUDGET", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
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
    #[cfg(target_os = "linux")]
    #[arg(long, env = "LEASEHOLD_RESTART", default_value = "always", value_name = "WHEN")]
    pub(crate) restart: Restart,
    /// Refuse to start on a store that keeps its word less well: may-lose-writes, durable-on-one-node or
    /// durable-and-linearizable
    #[arg(long, env = "LEASEHOLD_REQUIRE_GRADE", value_parser = grade, value_name = "GRADE")]
    pub(crate) require_grade: Option<Grade>,
    /// Leave when standard input ends, as the demo's members do
    #[arg(long, hide = true)]
    pub(crate) while_stdin: bool,
    /// The command to run for each resource
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ElectArgs {
    /// The store: sqlite:PATH, postgres://USER@HOST/DB, redis://HOST, etcd://HOST,HOST or https://HOST of a
    /// Leasehold server [default: the etcd of ETCD_ENDPOINTS]
    #[arg(long, env = "LEASEHOLD_STORE", hide_env_values = true, value_name = "URL")]
    pub(crate) store: Option<StoreUrl>,
    /// A TOML file with options
    #[arg(long, env = "LEASEHOLD_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// What the election is about; on etcd, the key under which everybody finds the leader [default: LEADER_KEY]
    #[arg(long, env = "LEASEHOLD_ELECTION", value_name = "KEY")]
    pub(crate) key: Option<Key>,
    #[command(flatten)]
    pub(crate) times: TimeArgs,
    /// This candidate's name, the same after a restart [default: SCHEDULER_INSTANCE_ID, or the host's name]
    #[arg(long, env = "LEASEHOLD_NAME")]
    pub(crate) name: Option<MemberName>,
    /// Run the command once when elected, give the seat back and exit with the command's code
    #[arg(long)]
    pub(crate) once: bool,
    /// Exit with 75 if somebody else leads
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Take no part; print who leads, and every change
    #[arg(long, conflicts_with_all = ["once", "no_wait", "command"])]
    pub(crate) observe: bool,
    /// With --observe, print JSON, one change a line
    #[arg(long, requires = "observe")]
    pub(crate) json: bool,
    /// Run the command from the start as a hot standby, and tell it when it leads and when it no longer does.
    /// The command is given here, as to a shell, or after --
    #[arg(long, value_name = "CMD", num_args = 0..=1, conflicts_with_all = ["once", "no_wait", "observe"])]
    pub(crate) standby: Option<Option<String>>,
    #[command(flatten)]
    pub(crate) health: HealthArgs,
    /// Refuse to start on a store that keeps its word less well: may-lose-writes, durable-on-one-node or
    /// durable-and-linearizable
    #[arg(long, env = "LEASEHOLD_REQUIRE_GRADE", value_parser = grade, value_name = "GRADE")]
    pub(crate) require_grade: Option<Grade>,
    /// The command to run while leading
    #[arg(last = true, required_unless_present_any = ["observe", "standby"], value_name = "CMD")]
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
    /// The supervisor's socket; children of `run` find it in their environment
    #[arg(long, env = "LEASEHOLD_SOCKET", value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// The resource
    #[arg(long, env = "LEASEHOLD_RESOURCE")]
    pub(crate) resource: Option<ResourceId>,
    /// The token the work was started with
    #[arg(long, env = "LEASEHOLD_TOKEN")]
    pub(crate) token: Option<leasehold::Token>,
    /// How long to wait for an answer
    #[arg(long, default_value = "2s", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The store whose ledger is judged
    #[arg(
        long,
        env = "LEASEHOLD_STORE",
        hide_env_values = true,
        value_name = "URL",
        required_unless_present = "files"
    )]
    pub(crate) store: Option<StoreUrl>,
    /// A TOML file with options
    #[arg(long, env = "LEASEHOLD_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Only this pool
    #[arg(long, env = "LEASEHOLD_POOL")]
    pub(crate) pool: Option<Pool>,
    /// How far the wall clocks of two machines may be apart; what they did within it is not held against them
    #[arg(long, default_value = "0s", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) clock_error: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Log files of members, written with --log-format json; - is standard input. With --store, both are judged
    /// together
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Nobody has ever held anything here: begin at once. Without this a new store is frozen for a minute, in
    /// which members of an earlier one can say what they hold
    #[arg(long)]
    pub(crate) fresh: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Exit with 2 if the store keeps its word less well: may-lose-writes, durable-on-one-node or
    /// durable-and-linearizable
    #[arg(long, env = "LEASEHOLD_REQUIRE_GRADE", value_parser = grade, value_name = "GRADE")]
    pub(crate) require_grade: Option<Grade>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The TTL of the demo's leases
    #[arg(long, default_value = "3s", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) ttl: Duration,
    /// Where the page is served, for this machine only
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub(crate) page: std::net::SocketAddr,
    /// Print lines and end by itself, also in a terminal
    #[arg(long)]
    pub(crate) plain: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
