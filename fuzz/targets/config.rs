//! Configuration files: any text is taken or refused in one line, and what is taken is what the options then say.

#![no_main]

#[path = "../../crates/leasehold-cli/src/config/options.rs"]
mod options;
#[path = "../../crates/leasehold-cli/src/args/value.rs"]
mod value;

use clap::{Arg, ArgAction, Command};
use leasehold::store::StoreUrl;
use libfuzzer_sys::fuzz_target;

/// Options of every kind that the real command has.
fn command() -> Command {
    let run = Command::new("run")
        .arg(Arg::new("config").long("config"))
        .arg(Arg::new("store").long("store").required(true).value_parser(str::parse::<StoreUrl>))
        .arg(Arg::new("ttl").long("ttl").value_parser(value::duration).allow_hyphen_values(true))
        .arg(Arg::new("call_timeout").long("call-timeout").value_parser(value::duration))
        .arg(Arg::new("capacity").long("capacity").value_parser(clap::value_parser!(u64)))
        .arg(
            Arg::new("labels")
                .long("label")
                .action(ArgAction::Append)
                .value_delimiter(',')
                .value_parser(value::label),
        )
        .arg(Arg::new("resources").long("resources").action(ArgAction::Append).conflicts_with("from"))
        .arg(Arg::new("from").long("from"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue));
    let events = Command::new("events").arg(Arg::new("limit").long("limit"));
    Command::new("leasehold").no_binary_name(true).subcommand(run).subcommand(events)
}

fuzz_target!(|text: &str| {
    let command = match options::apply(text, "run", command()) {
        Ok(command) => command,
        Err(said) => {
            assert!(!said.contains(char::is_control), "{said:?} is more than a line");
            return;
        }
    };
    let table: toml::Table = text.parse().expect("what is taken is TOML");
    for key in table.keys() {
        let known =
            ["store", "ttl", "call-timeout", "capacity", "label", "resources", "from", "json", "limit"];
        assert!(known.contains(&key.replace('_', "-").as_str()), "{key:?} was taken");
    }
    // The command line wins over the file.
    let given = ["run", "--store", "memory:", "--ttl", "7s"];
    if let Ok(matches) = command.clone().try_get_matches_from(given) {
        let run = matches.subcommand_matches("run").expect("it was asked for");
        assert_eq!(run.get_one::<StoreUrl>("store"), Some(&StoreUrl::Memory));
        assert_eq!(run.get_one("ttl"), Some(&std::time::Duration::from_secs(7)));
    }
    // Alone the file says what the options are.
    if let Ok(matches) = command.try_get_matches_from(["run"]) {
        let run = matches.subcommand_matches("run").expect("it was asked for");
        let store = table.get("store").and_then(toml::Value::as_str).expect("a store is required");
        assert_eq!(run.get_one::<StoreUrl>("store"), store.parse().ok().as_ref());
        assert_eq!(
            run.get_flag("json"),
            table.get("json").and_then(toml::Value::as_bool).unwrap_or_default()
        );
        if let Some(toml::Value::Integer(capacity)) = table.get("capacity") {
            assert_eq!(run.get_one::<u64>("capacity").map(u64::to_string), Some(capacity.to_string()));
        }
    }
});
