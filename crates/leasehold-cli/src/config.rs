//! Options from a file: each key is an option's own name, and the command line and the environment win.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Command;

use crate::failure::Failure;

/// The most bytes a file of options may have.
const FILE_MAX: u64 = 1 << 20;

/// Finds `--config` before the command line is parsed for good, because the file may hold what is required.
pub(crate) fn path(args: &[OsString]) -> Option<PathBuf> {
    let mut args = args.iter().take_while(|arg| *arg != "--");
    while let Some(arg) = args.next() {
        if arg == "--config" {
            return args.next().map(PathBuf::from);
        }
        if let Some(path) = arg.to_str().and_then(|arg| arg.strip_prefix("--config=")) {
            return Some(path.into());
        }
    }
    std::env::var_os("LEASEHOLD_CONFIG").map(PathBuf::from)
}

/// Makes the options in the file the defaults of the subcommand that `args` name.
pub(crate) fn apply(path: &Path, args: &[OsString], command: Command) -> Result<Command, Failure> {
    let shown = path.display();
    let refuse = |said: String| Failure::usage(format!("the configuration {shown} cannot be used: {said}"));
    let size = std::fs::metadata(path).map_err(|e| refuse(e.to_string()))?.len();
    if size > FILE_MAX {
        return Err(refuse(format!("it has {size} bytes; at most {FILE_MAX} are allowed")));
    }
    let text = std::fs::read_to_string(path).map_err(|e| refuse(e.to_string()))?;
    // The parser's message repeats the line, which may hold a secret; where it is says enough.
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
        refuse(format!("line {line}: {}", e.message()))
    })?;
    let Some(name) =
        args.iter().skip(1).find_map(|arg| arg.to_str().filter(|arg| command.find_subcommand(arg).is_some()))
    else {
        return Ok(command);
    };
    let mut subcommand = command.find_subcommand(name).cloned().unwrap_or_default();
    for (key, value) in table {
        let option = key.replace('_', "-");
        let known = subcommand.get_arguments().find(|arg| arg.get_long() == Some(option.as_str()));
        let Some(id) = known.map(|arg| arg.get_id().clone()).filter(|_| option != "config") else {
            return Err(refuse(format!(
                "`{key}` is no option of `leasehold {name}`; see `leasehold {name} --help`"
            )));
        };
        let values = flatten(&value).ok_or_else(|| {
            refuse(format!("`{key}` must be text, a number, true or false, or a list of these"))
        })?;
        subcommand = subcommand.mut_arg(id, |arg| arg.default_values(values).required(false));
    }
    let name = name.to_owned();
    Ok(command.mut_subcommand(name, |_| subcommand))
}

fn flatten(value: &toml::Value) -> Option<Vec<String>> {
    match value {
        toml::Value::String(text) => Some(vec![text.clone()]),
        toml::Value::Integer(number) => Some(vec![number.to_string()]),
        toml::Value::Float(number) => Some(vec![number.to_string()]),
        toml::Value::Boolean(flag) => Some(vec![flag.to_string()]),
        toml::Value::Array(items) => {
            items.iter().map(flatten).collect::<Option<Vec<_>>>().map(|lists| lists.concat())
        }
        _ => None,
    }
}
