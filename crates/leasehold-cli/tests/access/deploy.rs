//! `leasehold deploy` beside a server on the same database.

use serde_json::{Value, json};

use crate::server::{ask, serve, status};
use crate::support::{Place, leasehold, ran};
use crate::told;

fn deploy(place: &Place, words: &[&str]) -> Value {
    let words = [&["deploy"], words, &["--tenant", "acme", "--group", "blue", "--json"]].concat();
    serde_json::from_str(&told(place, &words)).expect("JSON")
}

// proves R235: the steps of a deployment, each as an operator takes it
#[test]
fn an_operator_starts_promotes_and_aborts_a_deployment() {
    let place = Place::new();
    let (_server, address) = serve(&place, "server", &[]);
    let register = |name: &str, version: &str| {
        let runner = json!({
            "runner_id": name, "tenant_id": "acme", "site_id": "hall", "host": "127.0.0.1", "port": 8080, "capacity": 4,
            "deployment_group": "blue", "deployment_version": version, "capabilities": ["rtsp"],
        });
        let answer = ask(&address, "POST", "/api/v1/runners/register/", None, &runner.to_string());
        assert_eq!(status(&answer), 201, "{answer}");
    };
    register("old", "v1");
    assert_eq!(deploy(&place, &["status"])["deployment"], Value::Null);
    assert_eq!(deploy(&place, &["start", "v2"])["deployment"]["phase"], "warming");
    let early = ran(leasehold().args([
        "deploy",
        "promote",
        "--tenant",
        "acme",
        "--group",
        "blue",
        "--database",
        &place.url(),
    ]));
    assert!(early.code != Some(0) && early.err.contains("no runner of v2"), "{early:?}");
    register("new", "v2");
    let promoted = deploy(&place, &["promote"]);
    assert_eq!(promoted["deployment"]["runners"], json!(["new"]));
    let said = told(&place, &["deploy", "status", "--tenant", "acme", "--group", "blue"]);
    assert!(said.contains("v2") && said.contains("old") && said.contains("new"), "{said}");
    let again = ran(leasehold().args([
        "deploy",
        "start",
        "v 3",
        "--tenant",
        "acme",
        "--group",
        "blue",
        "--database",
        &place.url(),
    ]));
    assert!(again.code != Some(0) && again.err.contains("version"), "{again:?}");
}
