//! What is wrong with the command line, in one sentence that repeats no secret and no control character.

use std::error::Error as _;
use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;

/// The most characters of a wrong word that are repeated.
const SHOWN_MAX: usize = 60;

/// The name of the subcommand that `args` ask for.
pub(crate) fn subcommand<'a>(args: &'a [OsString], command: &Command) -> Option<&'a str> {
    let words = args.iter().skip(1).filter_map(|arg| arg.to_str());
    words.into_iter().find(|word| command.find_subcommand(word).is_some())
}

/// A refused command line.
pub(crate) fn failure(error: &clap::Error, subcommand: Option<&str>) -> Failure {
    let help =
        subcommand.map_or_else(|| "leasehold --help".to_owned(), |name| format!("leasehold {name} --help"));
    Failure::usage(format!("{}; see `{help}`", sentence(error)))
}

fn sentence(error: &clap::Error) -> String {
    let one = |kind| words(error, kind).into_iter().next().unwrap_or_default();
    let option = option(&one(ContextKind::InvalidArg));
    let value = one(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::ValueValidation => refused_value(&option, &value, error),
        ErrorKind::InvalidValue if value.is_empty() => format!("{option} needs a value"),
        ErrorKind::InvalidValue => {
            let valid = words(error, ContextKind::ValidValue);
            format!("{option} cannot be {}; use {}", shown(&value), listed(&valid, "or"))
        }
        ErrorKind::UnknownArgument => {
            let like = words(error, ContextKind::SuggestedArg);
            format!("{} is not expected here{}", shown(&one(ContextKind::InvalidArg)), meant(like))
        }
        ErrorKind::InvalidSubcommand => {
            let mut like = words(error, ContextKind::SuggestedSubcommand);
            like.reverse();
            format!("{} is no command{}", shown(&one(ContextKind::InvalidSubcommand)), meant(like))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = words(error, ContextKind::InvalidArg);
            let verb = if missing.len() == 1 { "is" } else { "are" };
            let command = if missing.iter().any(|arg| arg.starts_with("<CMD>")) {
                "; give the command to run after --"
            } else {
                ""
            };
            format!("{} {verb} missing{command}", listed(&missing, "and"))
        }
        ErrorKind::ArgumentConflict => {
            let prior =
                words(error, ContextKind::PriorArg).iter().map(|arg| self::option(arg)).collect::<Vec<_>>();
            if prior == [option.as_str()] {
                return format!("{option} is given twice; leave one out");
            }
            format!("{option} cannot be used together with {}; leave one out", listed(&prior, "and"))
        }
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.strip_prefix("error: ").unwrap_or(line).to_owned()
        }
    }
}

fn refused_value(option: &str, value: &str, error: &clap::Error) -> String {
    let why = plainly(error.source().map(ToString::to_string).unwrap_or_default());
    // A store's URL may hold a password, and what refuses it names as much of it as may be known.
    if ["--store", "--database"].contains(&option)
        || why.contains(value)
        || why.contains(&format!("{value:?}"))
        || why.contains("bytes")
    {
        format!("{option}: {why}")
    } else {
        format!("{option} cannot be {}: {why}", shown(value))
    }
}

/// What the standard library and clap say of numbers, as this program says things.
fn plainly(why: String) -> String {
    if let Some((value, range)) = why.split_once(" is not in ")
        && let Some((first, last)) = range.split_once("..=")
    {
        return format!("{value} is not between {first} and {last}");
    }
    match why.as_str() {
        "invalid digit found in string" => "give a whole number".to_owned(),
        "number too large to fit in target type" => "it is too large".to_owned(),
        _ => why,
    }
}

fn words(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(word)) => vec![word.clone()],
        Some(ContextValue::Strings(words)) => words.clone(),
        _ => Vec::new(),
    }
}

/// `--ttl` of `--ttl <TIME>`.
fn option(arg: &str) -> String {
    if arg.starts_with("--") { arg.split(' ').next().unwrap_or(arg).to_owned() } else { arg.to_owned() }
}

/// A word as it may be repeated: no longer than a line, without control characters, and of a URL only its kind.
fn shown(word: &str) -> String {
    if let Some((scheme, _)) = word.split_once("://") {
        return format!("{:?}", format!("{scheme}://..."));
    }
    let cut: String = word.chars().take(SHOWN_MAX).collect();
    if cut.len() < word.len() { format!("{:?}", cut + "...") } else { format!("{cut:?}") }
}

fn meant(like: Vec<String>) -> String {
    if like.is_empty() { String::new() } else { format!(" (did you mean {}?)", listed(&like, "or")) }
}

fn listed(words: &[String], last: &str) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}
