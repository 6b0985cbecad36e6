//! Options from a file.

use crate::support::{Place, leasehold, wait_until};
use crate::{refused, refused_command, run_refused};

#[test]
fn a_configuration_that_cannot_be_used_is_refused_with_the_line_or_the_key() {
    let place = Place::new();
    let with = |text: &str, words: &[&str]| {
        place.write("options.toml", text);
        let words = [&["the configuration options.toml cannot be used"], words].concat();
        run_refused(&place, &["--resources", "a", "--config", "options.toml"], &words);
    };
    with("ttl = \"3s\"\nname = \n", &["line 2 is not TOML"]);
    with("store = mysql://user:hunter2@host", &["line 1 is not TOML"]);
    with("tll = \"3s\"", &["`tll` is no option", "run --help"]);
    with("\"a\\nb\" = 1", &["`a\\nb` is no option"]);
    with("config = \"other.toml\"", &["`config` is no option"]);
    with("ttl = true", &["`ttl` must be text or a number"]);
    with("ttl = [\"3s\"]", &["`ttl` must be text or a number"]);
    with("[ttl]\nvalue = 3", &["`ttl` must be text or a number"]);
    with("resources = [\"a\"]\nfrom = \"dir:x\"", &["both `resources` and `from`", "remove one"]);
    run_refused(
        &place,
        &["--resources", "a", "--config", "none.toml"],
        &["none.toml", "No such file", "check the path"],
    );
    place.write("options.toml", "ttl = 3");
    run_refused(
        &place,
        &["--resources", "a", "--config", "options.toml"],
        &["--ttl", "\"3\"", "a number and a unit"],
    );
    place.write("options.toml", "json = \"yes\"");
    refused(&place, &["status", "--config=options.toml"], 2, &["`json` must be true or false"]);
}

#[test]
fn a_secret_in_a_configuration_is_not_repeated() {
    let place = Place::new();
    for text in ["store = \"mysql://user:hunter2@host\"", "store = mysql://user:hunter2@host"] {
        place.write("options.toml", text);
        let mut status = leasehold();
        status.args(["status", "--config", "options.toml"]);
        refused_command(&place, &mut status, 2, &[]);
        let said = crate::ran(&mut status);
        assert!(!said.err.contains("hunter2"), "{said:?}");
    }
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
    let place = Place::new();
    place.write("options.toml", "store = \"sqlite:from-file.db\"\nttl = \"3s\"");
    let mut status = leasehold();
    status.args(["status", "--config", "options.toml"]);
    refused_command(&place, &mut status, 1, &["no store at from-file.db"]);
    status.env("LEASEHOLD_STORE", "sqlite:from-variable.db");
    refused_command(&place, &mut status, 1, &["no store at from-variable.db"]);
    status.args(["--store", "sqlite:from-line.db"]);
    refused_command(&place, &mut status, 1, &["no store at from-line.db"]);
    let mut status = leasehold();
    status.arg("status").env("LEASEHOLD_CONFIG", "options.toml");
    refused_command(&place, &mut status, 1, &["no store at from-file.db"]);
}

#[test]
fn one_file_serves_every_command_and_its_options_are_taken() {
    let place = Place::new();
    place.write("list", "b\n");
    let options = format!(
        "store = \"{}\"\npool = \"jobs\"\nttl = \"4s\"\nname = \"filed\"\nresources = [\"a\"]\nlabel = [\"site=x\", \"rack=7\"]\ncapacity = 3\n",
        place.url()
    );
    let options = place.write("options.toml", &options);
    let member = place.start("filed", leasehold().args(["run", "--config", &options, "--", "sleep", "1000"]));
    wait_until("a is owned", || place.owners("jobs").len() == 1);
    let said = crate::ran(leasehold().args(["show", "filed", "--json", "--config", &options]));
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    let shown = &shown["members"][0];
    assert_eq!(shown["ttl_ms"], 4000);
    assert_eq!(shown["profile"]["capacity"], 3);
    assert_eq!(shown["profile"]["labels"], serde_json::json!({"site": "x", "rack": "7"}));
    // A source on the command line wins over resources in the file.
    let from = format!("file:{}", place.path("list").display());
    let mut other = leasehold();
    other.args(["run", "--config", &options, "--name", "other", "--from", &from, "--", "sleep", "1000"]);
    let other = place.start("other", &mut other);
    wait_until("b is owned", || place.owners("jobs").get("b").is_some_and(|owner| owner == "other"));
    other.leave();
    member.leave();
}

#[test]
fn a_child_can_check_although_its_environment_names_a_configuration() {
    let place = Place::new();
    let options = place.write("options.toml", "ttl = \"3s\"\n");
    let script = format!("{} check > {}", env!("CARGO_BIN_EXE_leasehold"), place.path("said").display());
    let mut run = leasehold();
    run.env("LEASEHOLD_CONFIG", options).env("LEASEHOLD_STORE", place.url());
    run.args(["run", "--pool", "jobs", "--resources", "a", "--restart", "never", "--", "sh", "-c", &script]);
    let member = place.start("anna", &mut run);
    wait_until("the child has asked", || {
        place.lines("said").iter().any(|line| line.contains("a is held under token"))
    });
    member.leave();
}
