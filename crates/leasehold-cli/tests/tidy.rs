//! Rules of the house, as a test rather than as prose.

#[path = "support/project.rs"]
mod project;

use std::path::PathBuf;

use project::root;

#[test]
fn the_long_campaign_runs_what_the_ordinary_run_leaves_out() {
    let script = std::fs::read_to_string(root().join("test")).unwrap();
    for test in [
        "--test cameras",
        "--test faults",
        "--test manager",
        "--test many",
        "--test package",
        "--test poll",
        "--test storm",
    ] {
        let runs = |line: &str| line.contains(test) && line.contains("--include-ignored");
        assert!(script.lines().any(runs), "./test --long does not run all of {test}");
    }
}

fn files(extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![root()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && name != ".git" {
                waiting.push(path);
            } else if path.extension().is_some_and(|e| extensions.contains(&e.to_string_lossy().as_ref())) {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn no_source_file_is_two_things_in_one_room() {
    for (path, text) in files(&["rs", "py"]) {
        let lines = text.lines().count();
        assert!(lines <= 500, "{} has {lines} lines; it is usually two things past 400", path.display());
    }
}

#[test]
fn every_source_file_opens_with_what_it_owns() {
    for (path, text) in files(&["rs"]) {
        assert!(text.starts_with("//!"), "{} does not say what it is", path.display());
    }
    for (path, text) in files(&["py"]) {
        assert!(text.starts_with("\"\"\""), "{} does not say what it is", path.display());
    }
    for (path, text) in files(&["sql"]) {
        assert!(text.starts_with("--"), "{} does not say what it decides", path.display());
    }
}

#[test]
fn nothing_is_left_unfinished_or_silenced() {
    // Put together here so that this file does not find itself.
    let words = ["TO", "FIX", "todo", "unimplemented", "dbg", "#[ign", "allow(dead", "allow(unused"];
    let ends = ["DO", "ME", "!(", "!(", "!(", "ore", "_code", "_"];
    let long = format!("{}{} = \"run by ./test --long\"]", words[5], ends[5]);
    for (path, text) in files(&["rs", "py", "sql", "toml", "sh"]) {
        // Nothing is skipped for good: what takes long is run by the long campaign.
        let text = text.replace(&long, "");
        let shared_by_tests = path.components().any(|part| part.as_os_str() == "tests");
        for (word, end) in words.iter().zip(ends) {
            // What several test binaries share is never used whole by each.
            if shared_by_tests && word.starts_with("allow") {
                continue;
            }
            let banned = format!("{word}{end}");
            assert!(!text.contains(&banned), "{} contains {banned}", path.display());
        }
    }
}

#[test]
fn links_in_the_documents_lead_somewhere() {
    for (path, text) in files(&["md"]) {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let place = root().join(&path).parent().unwrap().join(target);
            assert!(place.exists(), "{} links to {target}, which is not there", path.display());
        }
    }
}
