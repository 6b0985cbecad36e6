//! The options of `keys`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use leasehold::Pool;
use leasehold::store::StoreUrl;
use leasehold_server::keys::Role;

use super::value::span;

/// What commands on a control plane's own database share.
#[derive(Debug, Args)]
pub(crate) struct PlaneArgs {
    /// The database of the control plane: sqlite:PATH or postgres://USER@HOST/DB [default: a file in your data
    /// directory]
    #[arg(long, global = true, env = "LEASEHOLD_DATABASE", hide_env_values = true, value_name = "URL")]
    pub(crate) database: Option<StoreUrl>,
    /// A TOML file with options
    #[arg(long, global = true, env = "LEASEHOLD_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
    #[command(flatten)]
    pub(crate) plane: PlaneArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key and print it, this once
    Create {
        /// What it may do: read, member (hold leases), operator (declare and mark), admin (make keys)
        #[arg(long)]
        role: Role,
        /// Only in this pool; may be given several times [default: in all]
        #[arg(long = "pool", value_name = "POOL")]
        pools: Vec<Pool>,
        /// Only in the pools of this tenant, under the names that it gives them
        #[arg(long)]
        tenant: Option<String>,
        /// How long it lasts, as 12h or 30d [default: for ever]
        #[arg(long, value_parser = span, value_name = "TIME")]
        expires: Option<Duration>,
        /// What people call it
        #[arg(long, default_value = "", hide_default_value = true)]
        name: String,
    },
    /// Show which keys there are, without their secrets
    List,
    /// End a key, within a second
    Revoke {
        /// The id of the key
        id: String,
    },
    /// Give a key a new secret and print it, this once
    Rotate {
        /// The id of the key
        id: String,
        /// How long the secret from before is still taken
        #[arg(long, value_parser = span, default_value = "1h", value_name = "TIME")]
        grace: Duration,
    },
}
