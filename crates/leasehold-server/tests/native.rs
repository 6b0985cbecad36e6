//! The members' API as a stranger sees it: described in full, bounded, and refusing with a sentence.

#[path = "support/raw.rs"]
mod raw;

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::http::wire::calls::NAMES;
use leasehold::store::memory::MemoryStore;
use leasehold::store::{MarkKind, Marked, Registry, SERVER_POOL, Store, Version};
use leasehold_server::{Running, Settings};
use raw::{Reply, get, post, stream};
use serde_json::{Value, json};

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(60);

async fn serve() -> (Running, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    let behind: Arc<dyn Store> = store.clone();
    let server = leasehold_server::start(Settings::at(([127, 0, 0, 1], 0).into()), behind).await;
    (server.expect("the server starts"), store)
}

fn session(pool: &str, ttl_ms: u64) -> Value {
    let profile = json!({"name": "one", "ready": true, "settled": false, "plan_version": 1});
    json!({"session": {"pool": pool, "id": "one-1-0", "ttl_ms": ttl_ms, "profile": profile}})
}

fn refused(reply: &Reply, status: u16, words: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{reply:?}");
    assert!(reply.json()["detail"].as_str().is_some_and(|said| said.contains(words)), "{words:?}: {reply:?}");
}

// proves R036
#[test]
fn every_call_is_described_with_what_it_takes_and_gives() {
    let document = serde_json::to_value(leasehold_server::openapi()).unwrap();
    let schema_of = |place: &Value| place["content"]["application/json"]["schema"].clone();
    for name in NAMES {
        let path = &document["paths"][format!("/api/v1/store/{name}")]["post"];
        let takes = schema_of(&path["requestBody"]);
        let gives = schema_of(&path["responses"]["200"]);
        for schema in [takes, gives] {
            let found = schema["$ref"].as_str().and_then(|reference| document.pointer(&reference[1..]));
            assert!(found.is_some(), "{name}: {schema} leads nowhere");
        }
        assert!(path["summary"].is_string(), "{name}");
    }
    // What the types refer to is there too.
    let mut places = vec![&document];
    while let Some(place) = places.pop() {
        match place {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    assert!(document.pointer(&reference[1..]).is_some(), "{reference} leads nowhere");
                }
                places.extend(fields.values());
            }
            Value::Array(items) => places.extend(items),
            _ => {}
        }
    }
    for path in ["/api/v1/store", "/api/v1/store/changes"] {
        assert!(document["paths"][path]["get"]["responses"]["200"].is_object(), "{path}");
    }
}

#[tokio::test]
async fn what_crosses_the_line_is_what_the_document_says() {
    let (server, _) = serve().await;
    let at = server.address();
    let about = get(at, "/api/v1/store").await.json();
    assert_eq!(about, json!({"version": 1, "batch_max": 256, "pushes_changes": true, "grade": "volatile"}));
    let opened = post(at, "/api/v1/store/open", &session("work", 30_000)).await.json();
    let era = opened["value"].as_str().unwrap().to_owned();
    assert_eq!((opened["answer"].as_str(), era.len()), (Some("done"), 16), "{opened}");
    let pulse = json!({"era": era, "number": 1, "confirmed": 0});
    let wanted = json!([{"resource": "a", "floor": 0}]);
    let body = json!({"session": "one-1-0", "pulse": pulse, "wanted": wanted});
    let granted = post(at, "/api/v1/store/acquire", &body).await.json();
    let term = json!({"resource": "a", "token": 1});
    assert_eq!(granted, json!({"answer": "done", "value": [{"outcome": "granted", "term": term}]}));
    let body = json!({"pool": "work", "since": "0"});
    let leases = post(at, "/api/v1/store/leases", &body).await.json()["value"].clone();
    assert_eq!(leases["era"], json!({"nonce": era, "frozen": false, "ttl_max_ms": 30_000}));
    assert!(leases["cursor"].is_string(), "{leases}");
    assert_eq!(leases["items"][0]["holder"], "one-1-0");
    let gone = json!({"session": "nobody", "pulse": {"era": era, "number": 1, "confirmed": 0}});
    assert_eq!(post(at, "/api/v1/store/beat", &gone).await.json(), json!({"answer": "gone"}));
    let closed = post(at, "/api/v1/store/close", &json!({"session": "one-1-0"})).await.json();
    assert_eq!(closed, json!({"value": null}));
}

// proves C14: bad input is refused with a sentence and changes nothing
#[tokio::test]
async fn what_cannot_be_is_refused_with_a_sentence() {
    let (server, _) = serve().await;
    let at = server.address();
    let call = |name: &str| format!("/api/v1/store/{name}");
    refused(&raw::send(at, "POST", &call("beat"), "{").await, 400, "is not the JSON");
    refused(
        &post(at, &call("close"), &json!({"session": "a", "pool": "b"})).await,
        422,
        "unknown field `pool`",
    );
    refused(&post(at, &call("close"), &json!({"session": "a b"})).await, 422, "member id");
    refused(&post(at, &call("thaw"), &json!({"nonce": 7})).await, 422, "expected a string");
    refused(&post(at, &call("leases"), &json!({"pool": "work", "since": 0})).await, 422, "string");
    for pool in ["_leasehold", "_mine"] {
        refused(&post(at, &call("leases"), &json!({"pool": pool, "since": "0"})).await, 422, "reserved");
        refused(&post(at, &call("open"), &session(pool, 30_000)).await, 422, "reserved");
        refused(&get(at, &format!("/api/v1/store/changes?pool={pool}")).await, 422, "reserved");
    }
    refused(&post(at, &call("open"), &session("work", 10)).await, 422, "is not between 1s and 3600s");
    refused(&post(at, &call("open"), &session("work", u64::MAX)).await, 422, "is not between 1s and 3600s");
    let pulse = json!({"era": "0000000000000000", "number": 1, "confirmed": 0});
    let many: Vec<Value> =
        (0..257).map(|number| json!({"resource": format!("r{number}"), "floor": 0})).collect();
    let body = json!({"session": "one", "pulse": pulse, "wanted": many});
    refused(&post(at, &call("acquire"), &body).await, 422, "257 items; at most 256");
    let body = json!({"pool": "work", "id": "2-00", "listing": ["a", "b"]});
    refused(&post(at, &call("publish"), &body).await, 422, "this listing has the id \"2-");
    let body = json!({"pool": "work", "id": "2-00", "listing": ["a", "a"]});
    refused(&post(at, &call("publish"), &body).await, 422, "listed twice");
    let large = format!("{{\"session\":\"{}\"}}", "x".repeat(2 << 20));
    refused(&raw::send(at, "POST", &call("close"), &large).await, 413, "larger than");
    refused(&get(at, &call("beat")).await, 405, "not possible here");
    refused(&post(at, &call("no_such_call"), &json!({})).await, 404, "nothing at");
    let pools = post(at, &call("pools"), &json!({})).await.json();
    assert_eq!(pools, json!({"value": []}), "nothing was changed");
}

#[tokio::test]
async fn a_large_listing_is_taken() {
    let (server, _) = serve().await;
    let ids = (0..100_000).map(|number| format!("resource-{number:06}").parse().unwrap()).collect();
    let listing = leasehold::store::Listing::new(ids).unwrap();
    let body = json!({"pool": "work", "id": listing.id(), "listing": listing});
    let reply = post(server.address(), "/api/v1/store/publish", &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[tokio::test]
async fn the_control_planes_own_records_are_not_shown_to_members() {
    let (server, store) = serve().await;
    let own = SERVER_POOL.parse().unwrap();
    // No key: with one, it would begin to ask for them.
    let set = store.set_mark(&own, MarkKind::Pool, "work", Some("{}"), Version(0)).await;
    assert_eq!(set.expect("the store answers"), Marked::Set(Version(1)));
    post(server.address(), "/api/v1/store/open", &session("work", 30_000)).await;
    let pools = post(server.address(), "/api/v1/store/pools", &json!({})).await.json();
    assert_eq!(pools, json!({"value": ["work"]}));
}

#[tokio::test]
async fn a_stream_of_hints_begins_with_one_stays_alive_and_ends_with_the_server() {
    let (server, _) = serve().await;
    let at = server.address();
    let mut hints = stream(at, "/api/v1/store/changes?pool=work").await;
    let first = tokio::time::timeout(SOON, hints.until("\n\n")).await.expect("a hint at once");
    assert!(first.contains("event: changed") && first.contains("id: 1"), "{first}");
    post(at, "/api/v1/store/open", &session("work", 30_000)).await;
    let second = tokio::time::timeout(SOON, hints.until("\n\n")).await.expect("a hint after a change");
    assert!(second.contains("event: changed") && second.contains("id: 2"), "{second}");
    let alive = tokio::time::timeout(SOON, hints.until("\n\n")).await.expect("a remark");
    assert!(alive.starts_with(':'), "{alive}");
    let stopped = tokio::time::timeout(SOON, server.stop());
    let (ended, stopped) = tokio::join!(tokio::time::timeout(SOON, hints.ended()), stopped);
    ended.expect("the stream ends with the server");
    stopped.expect("nobody is waited for");
}
