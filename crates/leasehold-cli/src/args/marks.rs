//! The options of what operators do: `drain`, `cordon`, `pin`, `pause`, `revoke`, `resign` and the ways back.

use clap::Args;
use leasehold::{MemberName, ResourceId};

use super::PoolArgs;

/// How an act is done.
#[derive(Debug, Args)]
pub(crate) struct ActArgs {
    /// Only show what would move
    #[arg(long, conflicts_with = "yes")]
    pub(crate) plan: bool,
    /// Do not ask, also on a terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
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
    #[command(flatten)]
    pub(crate) act: ActArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MemberActArgs {
    #[command(flatten)]
    pub(crate) pool: PoolArgs,
    /// The member's name
    pub(crate) member: MemberName,
    #[command(flatten)]
    pub(crate) act: ActArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResourceActArgs {
    #[command(flatten)]
    pub(crate) pool: PoolArgs,
    /// The resource
    pub(crate) resource: ResourceId,
    #[command(flatten)]
    pub(crate) act: ActArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResignArgs {
    #[command(flatten)]
    pub(crate) pool: PoolArgs,
    #[command(flatten)]
    pub(crate) act: ActArgs,
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
    #[command(flatten)]
    pub(crate) act: ActArgs,
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
    #[command(flatten)]
    pub(crate) act: ActArgs,
}
