//! The options of what operators mark: `drain`, `cordon`, `pin` and `pause`.

use clap::Args;
use leasehold::{MemberName, ResourceId};

use super::PoolArgs;

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
