//! Golden output of real members.

use std::path::Path;

use serde_json::Value;

use crate::support::{Place, wait_until};

/// What differs from run to run, and what stands for it.
struct Same(Vec<(String, String)>);

impl Same {
    /// Paths and ids of this run.
    fn of(place: &Place) -> Self {
        let mut replaced = vec![(place.root().display().to_string(), "PLACE".to_owned())];
        for member in place.json(&["status"])["pools"][0]["members"].as_array().unwrap() {
            let word = |key: &str| member[key].as_str().unwrap().to_owned();
            replaced.push((word("member"), format!("<{}>", word("name"))));
        }
        Self(replaced)
    }

    fn text(&self, text: &str) -> String {
        let replaced = self.0.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        replaced.lines().map(|line| timeless(line) + "\n").collect()
    }

    fn json(&self, mut value: Value) -> String {
        steady(&mut value);
        self.text(&serde_json::to_string_pretty(&value).unwrap())
    }
}

/// A line without its time, and without numbers that only count what happened before.
fn timeless(line: &str) -> String {
    let is_time = |word: &str| word.len() == 24 && word.starts_with("20") && word.ends_with('Z');
    match line.split_whitespace().next() {
        Some("beat" | "token") => line.split_whitespace().next().unwrap().to_owned() + "      N",
        Some(time) if is_time(time) => line.replacen(time, "TIME", 1),
        _ => line.to_owned(),
    }
}

/// Numbers and names that differ from run to run.
fn steady(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match key.as_str() {
                    "beat" | "wall_nanos" | "at" | "trusted_until" | "version" => *value = 0.into(),
                    "era" | "boot" | "listing" => *value = "x".into(),
                    _ => steady(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(steady),
        _ => {}
    }
}

pub(crate) fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(wanted == found, "{name} differs.\n--- wanted\n{wanted}--- found\n{found}");
    let wide = found.lines().find(|line| name.ends_with(".txt") && line.chars().count() > 80);
    assert_eq!(wide, None, "{name} does not fit on a screen");
}

/// Candidates are ranked by ids, which differ: in the order of their names they are the same.
fn unranked(text: &str) -> String {
    let (mut candidates, rest): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("  "));
    candidates.sort_by_key(|line| line.split_once(". ").map(|(_, rest)| rest));
    let candidates =
        candidates.iter().map(|line| "  -. ".to_owned() + line.split_once(". ").unwrap().1 + "\n");
    rest.iter().map(|line| (*line).to_owned() + "\n").chain(candidates).collect()
}

#[test]
fn what_is_printed_about_a_pool_is_as_reviewed() {
    let place = Place::new();
    // Who lists what alone has it, so that it is known who has what, and nothing ever moved.
    let anna = place.member("anna", &["--resources", "a,shared", "--ttl", "5s", "--label", "site=x"]);
    wait_until("anna has all", || place.workers().len() == 2 && place.owners("jobs").len() == 2);
    place.told(&["pin", "--pool", "jobs", "shared", "anna"]);
    place.told(&["cordon", "--pool", "jobs", "cleo"]);
    let bert = place.member("bert", &["--resources", "c,d,shared", "--ttl", "5s", "--capacity", "9"]);
    wait_until("bert has his", || place.workers().len() == 4 && place.owners("jobs").len() == 4);
    let cleo = place.member("cleo", &["--resources", "shared", "--ttl", "5s"]);
    place.told(&["pause", "--pool", "jobs", "d"]);
    let settled = |m: &Value| m["state"].as_array().unwrap().iter().all(|word| word != "settling");
    wait_until("d is let go and all have settled", || {
        let report = place.json(&["status"]);
        let members = report["pools"][0]["members"].as_array().unwrap().clone();
        place.owners("jobs").len() == 3 && members.len() == 3 && members.iter().all(settled)
    });
    let same = Same::of(&place);
    let pool = ["--pool", "jobs"];
    for (name, words) in [
        ("status", &["status"][..]),
        ("show-resource", &["show", "shared"]),
        ("show-paused", &["show", "d"]),
        ("show-member", &["show", "anna"]),
        ("plan", &["plan"]),
        ("plan-drain", &["plan", "--drain", "anna"]),
        ("plan-without", &["plan", "--without", "bert"]),
        ("plan-join", &["plan", "--join", "1"]),
        ("explain", &["explain", "shared"]),
    ] {
        let words = [&words[..1], &pool[..], &words[1..]].concat();
        let text = same.text(&place.told(&words));
        golden(&format!("{name}.txt"), &if name == "explain" { unranked(&text) } else { text });
        if name != "explain" {
            golden(&format!("{name}.json"), &same.json(place.json(&words)));
        }
    }
    let explained = place.json(&["explain", "jobs/shared"]);
    assert_eq!(explained["outlook"]["outlook"], "stay");
    assert_eq!(explained["pinned"], "anna");
    assert_eq!(explained["members"].as_array().unwrap().len(), 3);
    for member in [anna, bert, cleo] {
        member.leave();
    }
}

#[test]
fn what_is_printed_of_the_ledger_is_as_reviewed() {
    let place = Place::new();
    let anna = place.member("anna", &["--resources", "a", "--ttl", "4s"]);
    place.more_ticks("a", 1);
    let same = Same::of(&place);
    place.told(&["pause", "--pool", "jobs", "a"]);
    wait_until("a is let go", || place.owners("jobs").is_empty());
    place.told(&["pause", "--pool", "jobs", "a", "--undo"]);
    wait_until("a is taken again", || place.workers()["a"].1 == 2);
    anna.leave();
    // An operator's row may come before or after what it brought about.
    let told = place.told(&["events", "--pool", "jobs"]);
    let (marks, rest): (Vec<&str>, Vec<&str>) = told.lines().partition(|line| line.contains("  marked  "));
    golden("events.txt", &same.text(&rest.join("\n")));
    let detail = |line: &&str| line.rsplit("  ").next()?.split_once(", by ").map(|(what, _)| what.to_owned());
    let details: Vec<String> = marks.iter().filter_map(detail).collect();
    assert_eq!(details, ["pause: a", "pause undone: a"]);
    let rows = place.events("jobs").into_iter().filter(|row| row["event"] != "marked");
    golden("events.json", &same.json(rows.collect()));
    assert_eq!(place.told(&["events", "--pool", "jobs", "--limit", "1"]).lines().count(), 1);
    let of_resource = place.told(&["events", "--pool", "jobs", "--resource", "a"]);
    assert!(!of_resource.contains("joined") && of_resource.contains("session_paused"), "{of_resource}");
}

#[test]
fn a_plan_moves_exactly_what_it_must() {
    let place = Place::new();
    let options = ["--resources", "a,b,c,d,e,f", "--ttl", "3s"];
    let members = ["anna", "bert", "cleo"].map(|name| place.member(name, &options));
    let held = |name: &str| place.owners("jobs").values().filter(|owner| *owner == name).count();
    wait_until("the work is shared out", || ["anna", "bert", "cleo"].iter().all(|name| held(name) == 2));
    assert!(place.told(&["plan", "--pool", "jobs"]).starts_with("nothing moves\n"));
    let moves = |options: &[&str]| {
        let planned = place.json(&[&["plan", "--pool", "jobs"], options].concat());
        (planned["moves"].as_array().unwrap().len(), planned["taken"].as_array().unwrap().len())
    };
    assert_eq!(moves(&["--drain", "anna"]), (2, 0));
    assert_eq!(moves(&["--without", "anna"]), (0, 2));
    assert_eq!(moves(&["--join", "3"]), (3, 0));
    assert_eq!(moves(&["--drain", "anna", "--drain", "bert", "--drain", "cleo"]), (0, 0));
    for member in members {
        member.leave();
    }
}
