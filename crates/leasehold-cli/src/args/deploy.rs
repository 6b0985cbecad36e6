//! The options of `deploy`.

use clap::{Args, Subcommand};

use super::keys::PlaneArgs;

#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    #[command(subcommand)]
    pub(crate) command: DeployCommand,
    /// Whose cameras
    #[arg(long, global = true, env = "LEASEHOLD_TENANT", default_value = "default")]
    pub(crate) tenant: String,
    /// The deployment group of the runners
    #[arg(long, global = true, default_value = "default")]
    pub(crate) group: String,
    #[command(flatten)]
    pub(crate) plane: PlaneArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeployCommand {
    /// Begin to deploy a version: its runners register, and get nothing yet
    Start {
        /// The version
        version: String,
    },
    /// Show how far it has come, and which version has how many cameras
    Status,
    /// Have the new version take over, camera by camera
    Promote,
    /// Give everything back to the version before
    Abort,
}
