//! The options of `manager`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::LogArgs;

#[derive(Debug, Args)]
pub(crate) struct ManagerArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ManagerCommand>,
    // Not called `config`: its fields are no options.
    /// The manager's configuration, a TOML file
    #[arg(
        id = "file",
        long = "config",
        global = true,
        env = "LEASEHOLD_MANAGER_CONFIG",
        value_name = "FILE"
    )]
    pub(crate) file: Option<PathBuf>,
    /// Say whether the configuration can be used here, and end
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ManagerCommand {
    /// Show what a manager that runs has, and how its workers are
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
