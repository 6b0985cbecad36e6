//! The options of what only looks.

use clap::Args;
use leasehold::{MemberName, Pool, ResourceId};

use super::StoreArgs;

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Only this pool
    #[arg(long, env = "LEASEHOLD_POOL")]
    pub(crate) pool: Option<Pool>,
    /// Show for each member what it owns, since when, and how surely
    #[arg(long)]
    pub(crate) nodes: bool,
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
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Begin with this pool
    #[arg(long, env = "LEASEHOLD_POOL")]
    pub(crate) pool: Option<Pool>,
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
