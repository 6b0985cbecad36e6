//! What `leasehold serve` logs as JSON, line by line.

use serde_json::Value;

use super::server::{ask, serve, status};
use super::support::{Place, wait_for};

/// The lines so far; every one of them is JSON and has what all have.
fn lines(log: &str) -> Vec<Value> {
    // The last line may be half written.
    let whole = &log[..log.rfind('\n').map_or(0, |end| end + 1)];
    let parsed = whole.lines().map(|line| match serde_json::from_str::<Value>(line) {
        Ok(parsed) => parsed,
        Err(error) => panic!("{error}: {line}"),
    });
    let parsed: Vec<Value> = parsed.collect();
    for line in &parsed {
        for name in ["timestamp", "level", "msg", "service", "component"] {
            assert!(line[name].is_string(), "{name} is missing: {line}");
        }
        assert_eq!(line["service"], "leasehold");
    }
    parsed
}

// proves U07
#[test]
fn lines_of_the_log_have_the_names_that_were_agreed_upon() {
    let place = Place::new();
    let (server, address) = serve(&place, "server", &["--log", "debug", "--log-format", "json"]);
    assert_eq!(status(&ask(&address, "PUT", "/api/v1/scenes/one", None, "{}")), 201);
    let holder = "{\"holder_id\": \"tracker-0\"}";
    for expected in [201, 409] {
        assert_eq!(status(&ask(&address, "POST", "/api/v1/scenes/one/lease", None, holder)), expected);
    }
    let line = |what: &str, is: &dyn Fn(&Value) -> bool| {
        wait_for(what, || lines(&server.log()).into_iter().find(|line| is(line)))
    };
    let granted = line("the grant's line", &|line| line["operation"] == "acquired");
    assert_eq!((&granted["component"], &granted["level"]), (&"ledger".into(), &"info".into()));
    assert_eq!((&granted["scene_id"], &granted["resource"]), (&"one".into(), &"one".into()));
    let refused = line("the refusal's line", &|line| line["status"] == 409);
    assert_eq!((&refused["component"], &refused["operation"]), (&"request".into(), &"POST".into()));
    assert_eq!((&refused["msg"], &refused["level"]), (&"answered".into(), &"debug".into()));
    assert_eq!(refused["error"], serde_json::json!({"type": "already_held", "message": "Conflict"}));
    assert!(granted["timestamp"].as_str().is_some_and(|at| at.ends_with('Z')), "{granted}");
    server.leave();
}
