//! Options from a file: each key is an option's own name, and the command line and the environment win.
//!
//! One file may serve several subcommands: each takes the options that are its own.

mod options;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Command;

use crate::failure::Failure;

/// The most bytes a file of options may have.
const FILE_MAX: u64 = 1 << 20;

/// Makes the options in the file that `args` or the environment name the defaults of the subcommand `name`.
pub(crate) fn apply(args: &[OsString], name: Option<&str>, command: Command) -> Result<Command, Failure> {
    // What has no store, such as `check` in a child, has nothing to do with such a file.
    let takes_one = |sub: &Command| sub.get_arguments().any(|arg| arg.get_id() == "config");
    let Some(name) = name.filter(|name| command.find_subcommand(name).is_some_and(takes_one)) else {
        return Ok(command);
    };
    match path(args) {
        Some(path) => with_file(&path, name, command),
        None => Ok(command),
    }
}

/// Finds `--config` before the command line is parsed for good, because the file may hold what is required.
fn path(args: &[OsString]) -> Option<PathBuf> {
    let mut args = args.iter().take_while(|arg| *arg != "--");
    while let Some(arg) = args.next() {
        if arg == "--config" {
            return args.next().map(PathBuf::from);
        }
        if let Some(path) = arg.to_str().and_then(|arg| arg.strip_prefix("--config=")) {
            return Some(path.into());
        }
    }
    std::env::var_os("LEASEHOLD_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn with_file(path: &Path, name: &str, command: Command) -> Result<Command, Failure> {
    let shown = path.display();
    let refuse = |said: String| Failure::usage(format!("the configuration {shown} cannot be used: {said}"));
    let text = read(path).map_err(refuse)?;
    options::apply(&text, name, command).map_err(refuse)
}

fn read(path: &Path) -> Result<String, String> {
    let hint = |error: std::io::Error| format!("{error}; check the path given with --config");
    let size = std::fs::metadata(path).map_err(hint)?.len();
    if size > FILE_MAX {
        return Err(format!("it has {size} bytes; at most {FILE_MAX} are allowed"));
    }
    std::fs::read_to_string(path).map_err(hint)
}
