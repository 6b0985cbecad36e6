//! What the text of a configuration file says, as defaults of a subcommand's options. Pure: text in, command out.

use clap::builder::ArgPredicate;
use clap::{ArgAction, Command};

/// Options of which only one may be given: whichever the command line or the environment has wins.
const EITHER: (&str, &str) = ("resources", "from");

/// Makes the options in `text` the defaults of the subcommand `name`, or says why they cannot be used.
pub(crate) fn apply(text: &str, name: &str, command: Command) -> Result<Command, String> {
    let table = parse(text)?;
    if table.contains_key(EITHER.0) && table.contains_key(EITHER.1) {
        return Err(format!("it has both `{}` and `{}`; remove one", EITHER.0, EITHER.1));
    }
    let mut subcommand = command.find_subcommand(name).cloned().unwrap_or_default();
    for (key, value) in table {
        let option = key.replace('_', "-");
        let is_it = |arg: &&clap::Arg| arg.get_long() == Some(option.as_str()) && option != "config";
        let Some(arg) = subcommand.get_arguments().find(is_it) else {
            if command.get_subcommands().any(|other| other.get_arguments().any(|arg| is_it(&arg))) {
                continue;
            }
            // Whatever is in a quoted key, it is told in one line.
            let key = key.escape_debug();
            return Err(format!("`{key}` is no option; see `leasehold {name} --help`"));
        };
        let values = flatten(&value, arg.get_action());
        let values = values.ok_or_else(|| format!("`{key}` must be {}", wanted(arg.get_action())))?;
        let id = arg.get_id().clone();
        let takes_both =
            [EITHER.0, EITHER.1].iter().all(|id| subcommand.get_arguments().any(|arg| arg.get_id() == id));
        subcommand = subcommand.mut_arg(id, |arg| {
            let arg = arg.default_values(values).required(false);
            match option.as_str() {
                _ if !takes_both => arg,
                "resources" => arg.default_value_if(EITHER.1, ArgPredicate::IsPresent, None),
                "from" => arg.default_value_if(EITHER.0, ArgPredicate::IsPresent, None),
                _ => arg,
            }
        });
    }
    let name = name.to_owned();
    Ok(command.mut_subcommand(name, |_| subcommand))
}

fn parse(text: &str) -> Result<toml::Table, String> {
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
