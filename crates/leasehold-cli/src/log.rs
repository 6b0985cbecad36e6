//! Logs, to standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::args::{LogArgs, LogFormat};
use crate::failure::Failure;

pub(crate) fn start(args: &LogArgs) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&args.log)
        .map_err(|error| Failure::usage(format!("--log {:?} is no filter: {error}", args.log)))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Complaining about a closed standard error to standard error would panic.
    let logs = logs.log_internal_errors(false);
    let started = match args.log_format {
        LogFormat::Text => logs.with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).with_current_span(false).try_init(),
    };
    started.map_err(|error| Failure::usage(format!("logs cannot be written: {error}")))
}
