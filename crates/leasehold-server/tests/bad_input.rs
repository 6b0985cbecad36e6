//! What nobody should send, and what is answered: the right status, a body that helps, and soon.

mod support;

#[path = "bad_input/crowds.rs"]
mod crowds;
#[path = "bad_input/outage.rs"]
mod outage;
#[path = "bad_input/wire.rs"]
mod wire;

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::memory::MemoryStore;
use reqwest::Method;
use serde_json::{Value, json};
use support::{Answered, Plane, holder};

/// How long any answer may take on a busy machine. Without a limit a mistake would hang, not fail.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) async fn plane() -> Plane {
    let plane = Plane::serving(Arc::new(MemoryStore::new())).await;
    plane.scenes(1).await;
    plane
}

/// An answer says what is wrong, in a word and in a sentence, and which request it is about.
pub(crate) fn helps(answer: &Answered, status: u16, error: &str) {
    assert_eq!((answer.status, answer.body["error"].as_str()), (status, Some(error)), "{answer:?}");
    assert!(answer.body["message"].as_str().is_some_and(|message| message.len() > 15), "{answer:?}");
    assert_eq!(answer.body["request_id"].as_str(), answer.header("x-request-id"), "{answer:?}");
    let kind = answer.header("content-type").unwrap();
    assert!(kind == "application/json" || kind == "application/problem+json", "{answer:?}");
}

async fn refused(plane: &Plane, method: &Method, path: &str, body: &str, status: u16, error: &str) {
    let answer = tokio::time::timeout(SOON, plane.send(method.clone(), path, body)).await.unwrap();
    assert_eq!(answer.status, status, "{method} {path} with {body:.200}: {answer:?}");
    helps(&answer, status, error);
}

/// Every call that has a body, and one that it takes.
const WITH_BODY: [(Method, &str); 8] = [
    (Method::POST, "/api/v1/scenes"),
    (Method::PUT, "/api/v1/scenes/scene-0"),
    (Method::PATCH, "/api/v1/scenes/scene-0"),
    (Method::POST, "/api/v1/scenes/scene-0/lease"),
    (Method::POST, "/api/v1/scenes/scene-0/lease/renew"),
    (Method::DELETE, "/api/v1/scenes/scene-0/lease"),
    (Method::POST, "/api/v1/keys"),
    (Method::POST, "/api/v1/store/beat"),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_json_is_told_from_json_that_is_wrong() {
    let plane = plane().await;
    for (method, path) in &WITH_BODY {
        for body in ["{", "not json", "}", "\u{0}", "'single'"] {
            refused(&plane, method, path, body, 400, "malformed").await;
        }
        for body in [
            "[]",
            "[\"h\", 1]",
            "7",
            "\"text\"",
            "true",
            "{\"holder_id\": 7, \"id\": 7, \"role\": 7, \"session\": 7}",
        ] {
            refused(&plane, method, path, body, 422, "invalid").await;
        }
        let not_text =
            plane.client.request(method.clone(), plane.url(path)).body(vec![b'"', 0xFF, 0xFE, b'"']);
        let answer = Answered::of(not_text.send().await.unwrap()).await;
        assert!([400, 422].contains(&answer.status), "{method} {path}: {answer:?}");
    }
    let deep = format!("{{\"document\": {}", "[".repeat(100_000));
    refused(&plane, &Method::PUT, "/api/v1/scenes/scene-0", &deep, 400, "malformed").await;
    assert_eq!(plane.get("/api/v1/scenes/scene-0").await.body["resource_version"], 1, "nothing was changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_the_wrong_kind_are_named() {
    let plane = plane().await;
    for (method, path, body, word) in [
        (Method::POST, "/api/v1/scenes/scene-0/lease", json!({}), "holder_id"),
        (Method::POST, "/api/v1/scenes/scene-0/lease", json!({"holder_id": ""}), "holder_id"),
        (Method::POST, "/api/v1/scenes/scene-0/lease", json!({"holder_id": "a b"}), "holder_id"),
        (Method::POST, "/api/v1/scenes/scene-0/lease", json!({"holder_id": "x".repeat(129)}), "holder_id"),
        (Method::POST, "/api/v1/scenes/scene-0/lease", json!({"holder_id": "a\u{0}b"}), "holder_id"),
        (Method::POST, "/api/v1/scenes/scene-0/lease/renew", json!({"version": 1}), "holder_id"),
        (Method::DELETE, "/api/v1/scenes/scene-0/lease", json!({}), "holder_id"),
        (Method::POST, "/api/v1/scenes", json!({}), "id"),
        (Method::POST, "/api/v1/scenes", json!({"id": "a/b"}), "resource id"),
        (Method::POST, "/api/v1/scenes", json!({"id": "szene-ä"}), "resource id"),
        (Method::POST, "/api/v1/scenes", json!({"id": ".."}), "path"),
        (Method::PUT, "/api/v1/scenes/scene-0", json!({"id": "scene-1"}), "path"),
        (Method::PUT, "/api/v1/scenes/scene-0", json!({"weight": 0}), "weight"),
        (Method::PUT, "/api/v1/scenes/scene-0", json!({"weight": -1}), "u32"),
        (Method::PUT, "/api/v1/scenes/scene-0", json!({"weight": 4_294_967_296_u64}), "u32"),
        (Method::PUT, "/api/v1/scenes/scene-0", json!({"colour": "red"}), "colour"),
        (Method::PUT, "/api/v1/scenes/scene-0", json!({"labels": {"": "x"}}), "labels"),
        (Method::PUT, "/api/v1/scenes/scene-0", json!({"labels": {"a": "b\u{0}"}}), "labels"),
        (Method::PUT, "/api/v1/scenes/scene-0", json!({"member": "a b"}), "member"),
        (Method::PUT, "/api/v1/pools/scenes", json!({"mode": "wild"}), "wild"),
        (Method::POST, "/api/v1/keys", json!({"role": "king"}), "king"),
        (Method::POST, "/api/v1/store/sessions", json!({"pool": "_leasehold", "since": "0"}), "reserved"),
        (Method::POST, "/api/v1/store/sessions", json!({"pool": "a/b", "since": "0"}), "pool"),
        (Method::POST, "/api/v1/store/sessions", json!({"pool": "scenes", "since": 0}), "expected a string"),
    ] {
        let answer = plane.send(method.clone(), path, body.to_string()).await;
        helps(&answer, 422, "invalid");
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains(word), "{method} {path} with {body}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ttls_have_bounds() {
    let plane = plane().await;
    let acquire = "/api/v1/scenes/scene-0/lease";
    for ttl in
        ["-1", "0", "999", "1.5", "3600001", "9007199254740993", "18446744073709551615", "1e300", "\"30s\""]
    {
        let body = format!("{{\"holder_id\": \"h\", \"ttl_ms\": {ttl}}}");
        refused(&plane, &Method::POST, acquire, &body, 422, "invalid").await;
    }
    let too_large = format!("{{\"holder_id\": \"h\", \"ttl_ms\": {}}}", "9".repeat(400));
    let answer = plane.send(Method::POST, acquire, too_large).await;
    assert!([400, 422].contains(&answer.status), "{answer:?}");
    assert_eq!(plane.get(acquire).await.body["holder_id"], Value::Null, "nothing was granted");
    for version in ["-1", "x", "18446744073709551616", ""] {
        let path = format!("/api/v1/scenes/scene-0/lease/renew?holder_id=h&version={version}");
        refused(&plane, &Method::POST, &path, "", 422, "invalid").await;
    }
    // The greatest number there is, is just a version that nobody has.
    let path = "/api/v1/scenes/scene-0/lease/renew?holder_id=h&version=18446744073709551615";
    refused(&plane, &Method::POST, path, "", 404, "lease_lost").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_queries_have_bounds() {
    let plane = plane().await;
    for query in [
        "limit=-1",
        "limit=0",
        "limit=1.5",
        "limit=many",
        "limit=99999999999999999999",
        "leased=perhaps",
        "leased=",
        "after=a%2Fb",
        "after=%00",
        "after=",
    ] {
        refused(&plane, &Method::GET, &format!("/api/v1/scenes?{query}"), "", 422, "invalid").await;
    }
    // More than there ever are is as many as there are.
    let all = plane.get("/api/v1/scenes?limit=18446744073709551615").await;
    assert_eq!((all.status, all.body.as_array().map(Vec::len)), (200, Some(1)), "{all:?}");
    for query in ["", "pool=", "pool=_leasehold", "pool=scenes&after=-1", "pool=scenes&resource=%20"] {
        refused(&plane, &Method::GET, &format!("/api/v1/events?{query}"), "", 422, "invalid").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_pools_and_resources_are_not_found_or_empty() {
    let plane = plane().await;
    assert_eq!(plane.get("/api/v1/nothing").await.body, json!([]), "a pool is what is in it");
    for (method, path) in [
        (Method::GET, "/api/v1/nothing/a"),
        (Method::PATCH, "/api/v1/nothing/a"),
        (Method::DELETE, "/api/v1/nothing/a"),
        (Method::GET, "/api/v1/nothing/a/lease"),
    ] {
        refused(&plane, &method, path, "", 404, "resource_not_found").await;
    }
    let body = holder("h").to_string();
    refused(&plane, &Method::POST, "/api/v1/nothing/a/lease", &body, 404, "resource_not_found").await;
    refused(&plane, &Method::POST, "/api/v1/nothing/a/lease/renew", &body, 404, "resource_not_found").await;
    for path in ["/nothing", "/api", "/api/v1", "/api/v2/scenes", "/api/v1/scenes/a/b/c", "/favicon.ico"] {
        refused(&plane, &Method::GET, path, "", 404, "not_found").await;
    }
    refused(&plane, &Method::POST, "/api/v1/store/destroy", "{}", 404, "not_found").await;
    refused(&plane, &Method::GET, "/api/v1/keys/nobody", "", 404, "key_not_found").await;
    let pools = plane.get("/api/v1/pools").await;
    assert_eq!(pools.body, json!(["scenes"]), "asking makes no pool");
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_names_are_no_pools() {
    let plane = plane().await;
    let body = json!({"id": "a"}).to_string();
    for pool in ["_leasehold", "_x", "docs", "health", "leases", "members", "sessions", "sites", "tenants"] {
        // Single leases of cameras are found there, which are not put.
        let (status, error) = if pool == "leases" { (405, "method_not_allowed") } else { (422, "invalid") };
        refused(&plane, &Method::PUT, &format!("/api/v1/{pool}/a"), "{}", status, error).await;
        refused(&plane, &Method::PUT, &format!("/api/v1/pools/{pool}"), "{}", 422, "invalid").await;
        let answer = plane.send(Method::POST, &format!("/api/v1/{pool}"), body.clone()).await;
        // Where something else is found under the name, it has its own methods.
        assert!([405, 422].contains(&answer.status), "{pool}: {answer:?}");
    }
}

// Every wrong method is answered alike, with what is possible.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_methods_say_which_are_right() {
    let plane = plane().await;
    for (method, path, allowed) in [
        ("DELETE", "/api/v1/scenes", "GET,HEAD,POST"),
        ("POST", "/api/v1/scenes/scene-0", "DELETE,GET,HEAD,PATCH,PUT"),
        ("PUT", "/api/v1/scenes/scene-0/lease", "DELETE,GET,HEAD,POST"),
        ("GET", "/api/v1/scenes/scene-0/lease/renew", "POST"),
        ("GET", "/api/v1/store/beat", "POST"),
        ("POST", "/api/v1/store", "GET,HEAD"),
        ("PUT", "/healthz", "GET,HEAD"),
        ("POST", "/docs", "GET,HEAD"),
        ("TRACE", "/api/v1/scenes", "GET,HEAD,POST"),
        ("PROPFIND", "/api/v1/pools", "GET,HEAD"),
        ("OPTIONS", "/api/v1/pools", "GET,HEAD"),
    ] {
        let answer = plane.send(Method::from_bytes(method.as_bytes()).unwrap(), path, "").await;
        helps(&answer, 405, "method_not_allowed");
        let mut named: Vec<&str> = answer.header("allow").unwrap().split(',').map(str::trim).collect();
        named.sort_unstable();
        assert_eq!(named.join(","), allowed, "{method} {path}");
    }
}
