//! The options of `deploy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use leasehold::store::StoreUrl;

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
    /// The database of the control plane: sqlite:PATH or postgres://USER@HOST/DB
    /// [default: a file in your data directory]
    #[arg(long, global = true, env = "LEASEHOLD_DATABASE", hide_env_values = true, value_name = "URL")]
    pub(crate) database: Option<StoreUrl>,
    /// A TOML file with options
    #[arg(long, global = true, env = "LEASEHOLD_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
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
