//! Every role against every route that the OpenAPI document describes.

use leasehold_server::keys::Role;
use reqwest::StatusCode;

use super::stage::Stage;

const ROLES: [Role; 4] = [Role::Read, Role::Member, Role::Operator, Role::Admin];
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// Calls of members that only look.
const LOOKING: [&str; 8] =
    ["sessions", "leases", "pools", "marks", "resources", "listing", "ledger", "checkup"];
/// Calls that are an operator's.
const OPERATING: [&str; 2] = ["revoke", "declare"];

/// The role that a route needs, said once more and in another way; `None` if it needs no key.
fn needed(method: &str, path: &str) -> Option<Role> {
    if ["/healthz", "/readyz", "/api/v1/health", "/api/v1/auth", "/", "/page/{file}"].contains(&path) {
        return None;
    }
    if path == "/api/v1/auth/session" {
        return (method == "delete").then_some(Role::Read);
    }
    // Nothing is changed by a look at what would.
    if path.ends_with("/plan") {
        return Some(Role::Read);
    }
    if path.starts_with("/api/v1/keys") {
        return Some(Role::Admin);
    }
    if let Some(call) = path.strip_prefix("/api/v1/store/") {
        return Some(match call {
            "changes" => Role::Read,
            call if LOOKING.contains(&call) => Role::Read,
            call if OPERATING.contains(&call) => Role::Operator,
            _ => Role::Member,
        });
    }
    Some(match method {
        "get" => Role::Read,
        // To take a lease back is an operator's; to hold one, and to run, a member's.
        _ if path.ends_with("/revoke") => Role::Operator,
        _ if path.contains("/lease") || path.starts_with("/api/v1/runners") => Role::Member,
        _ => Role::Operator,
    })
}

/// Every route of the document: its method and its path.
fn routes() -> Vec<(&'static str, String)> {
    let document = serde_json::to_value(leasehold_server::openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let mut found = Vec::new();
    for (path, item) in paths {
        found.extend(
            METHODS
                .into_iter()
                .filter(|method| item.get(method).is_some())
                .map(|method| (method, path.clone())),
        );
    }
    assert!(found.len() >= 24, "the document has lost routes: {found:?}");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_asks_for_its_role_and_no_less() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let mut keys = Vec::new();
    for role in ROLES {
        keys.push((role, stage.key(role, None, None).await));
    }
    for (method, path) in routes() {
        let at = path.replace("{pool}", "scenes").replace("{resource}", "none").replace("{key}", "none");
        let at = if at.ends_with("/changes") || at.ends_with("/events") { at + "?pool=scenes" } else { at };
        let method_name = method.to_uppercase();
        let needed = needed(method, &path);
        let answer = stage.ask(&server, &method_name, &at, None, "").await;
        let refused = answer.status == StatusCode::UNAUTHORIZED;
        assert_eq!(refused, needed.is_some(), "{method} {path} without a key: {answer:?}");
        if refused {
            assert!(answer.headers.contains_key("www-authenticate"), "{method} {path}");
            assert_eq!(answer.body["error"], "unauthorized");
        }
        for (role, key) in &keys {
            let answer = stage.ask(&server, &method_name, &at, Some(key), "").await;
            let allowed = needed.is_none_or(|needed| *role >= needed);
            let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&answer.status);
            assert_eq!(!refused, allowed, "{method} {path} with the role {role}: {answer:?}");
            assert_ne!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{method} {path}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_look_changes_nothing() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let operator = stage.key(Role::Operator, None, None).await;
    let reader = stage.key(Role::Read, None, None).await;
    let made = stage.ask(&server, "PUT", "/api/v1/scenes/scene-01", Some(&operator), "").await;
    assert_eq!(made.status, StatusCode::CREATED);
    let wanted = "{\"holder_id\": \"tracker-0\"}";
    for (method, path, body) in [
        ("POST", "/api/v1/scenes/scene-01/lease", wanted),
        ("POST", "/api/v1/scenes/scene-01/lease/renew", wanted),
        ("DELETE", "/api/v1/scenes/scene-01/lease", wanted),
        ("PUT", "/api/v1/scenes/scene-02", "{}"),
        ("PATCH", "/api/v1/scenes/scene-01", "{\"weight\": 9}"),
        ("DELETE", "/api/v1/scenes/scene-01", ""),
        ("POST", "/api/v1/scenes", "{\"id\": \"scene-03\"}"),
        ("PUT", "/api/v1/pools/scenes", "{\"mode\": \"static\"}"),
        ("POST", "/api/v1/keys", "{\"role\": \"admin\"}"),
    ] {
        let answer = stage.ask(&server, method, path, Some(&reader), body).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method} {path}");
    }
    let listed = stage.ask(&server, "GET", "/api/v1/scenes", Some(&reader), "").await;
    assert_eq!(listed.body.as_array().unwrap().len(), 1, "{listed:?}");
    assert_eq!(listed.body[0]["holder_id"], serde_json::Value::Null);
    assert_eq!(listed.body[0]["weight"], 1);
    server.stop().await;
}
