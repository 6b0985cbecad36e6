//! Options from a file: each key is an option's own name, and the command line and the environment win.
//!
//! One file may serve several subcommands: each takes the options that are its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::ArgPredicate;
use clap::{ArgAction, Command};

use crate::failure::Failure;

/// The most bytes a file of options may have.
const FILE_MAX: u64 = 1 << 20;
/// Options of which only one may be given: whichever the command line or the environment has wins.
const EITHER: (&str, &str) = ("resources", "from");

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
    let table = read(path).map_err(refuse)?;
    if table.contains_key(EITHER.0) && table.contains_key(EITHER.1) {
        return Err(refuse(format!("it has both `{}` and `{}`; remove one", EITHER.0, EITHER.1)));
    }
    let mut subcommand = command.find_subcommand(name).cloned().unwrap_or_default();
    for (key, value) in table {
        let option = key.replace('_', "-");
        let is_it = |arg: &&clap::Arg| arg.get_long() == Some(option.as_str()) && option != "config";
        let Some(arg) = subcommand.get_arguments().find(is_it) else {
            if command.get_subcommands().any(|other| other.get_arguments().any(|arg| is_it(&arg))) {
                continue;
            }
            return Err(refuse(format!("`{key}` is no option; see `leasehold {name} --help`")));
        };
        let values = flatten(&value, arg.get_action());
        let values = values.ok_or_else(|| refuse(format!("`{key}` must be {}", wanted(arg.get_action()))))?;
        let id = arg.get_id().clone();
        subcommand = subcommand.mut_arg(id, |arg| {
            let arg = arg.default_values(values).required(false);
            match option.as_str() {
                "resources" => arg.default_value_if(EITHER.1, ArgPredicate::IsPresent, None),
                "from" => arg.default_value_if(EITHER.0, ArgPredicate::IsPresent, None),
                _ => arg,
            }
        });
    }
    let name = name.to_owned();
    Ok(command.mut_subcommand(name, |_| subcommand))
}

fn read(path: &Path) -> Result<toml::Table, String> {
    let hint = |error: std::io::Error| format!("{error}; check the path given with --config");
    let size = std::fs::metadata(path).map_err(hint)?.len();
    if size > FILE_MAX {
        return Err(format!("it has {size} bytes; at most {FILE_MAX} are allowed"));
    }
    let text = std::fs::read_to_string(path).map_err(hint)?;
    // The parser's own text repeats the line, which may hold a secret; where it is says enough.
    text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!(
            "line {line} is not TOML; write options as in ttl = \"30s\" ({})",
            error.message().replace('\n', ", ")
        )
    })
}

fn wanted(action: &ArgAction) -> &'static str {
    match action {
        ArgAction::SetTrue => "true or false",
        ArgAction::Append => "text, a number, or a list of these",
        _ => "text or a number",
    }
}

fn flatten(value: &toml::Value, action: &ArgAction) -> Option<Vec<String>> {
    match (value, action) {
        (toml::Value::Boolean(flag), ArgAction::SetTrue) => Some(vec![flag.to_string()]),
        (_, ArgAction::SetTrue) => None,
        (toml::Value::String(text), _) => Some(vec![text.clone()]),
        (toml::Value::Integer(number), _) => Some(vec![number.to_string()]),
        (toml::Value::Float(number), _) => Some(vec![number.to_string()]),
        (toml::Value::Array(items), ArgAction::Append) => {
            let lists = items.iter().map(|item| flatten(item, &ArgAction::Set));
            lists.collect::<Option<Vec<_>>>().map(|lists| lists.concat())
        }
        _ => None,
    }
}
