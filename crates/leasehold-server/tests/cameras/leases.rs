//! Leases of cameras: granted, renewed, released, revoked, lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::Store;
use leasehold::store::memory::MemoryStore;
use leasehold_server::keys::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::{key, plane, printed, registration, simple, site};
use crate::support::{Plane, eventually};

fn wanted(camera: &str, runner: &str) -> Value {
    json!({"camera_uuid": camera, "runner_id": runner, "shard_id": "shard-1", "tenant_id": "tenant-1", "site_id": "site-1"})
}

/// A plane with cameras at `site-1` of `tenant-1`, and these runners.
async fn staffed(cameras: &[&str], runners: &[&str]) -> Plane {
    let plane = plane().await;
    plane.cameras(&site("tenant-1", "site-1"), cameras).await;
    for runner in runners {
        let made = plane.post("/api/v1/runners/register/", &registration(runner)).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    plane
}

fn path(lease: &Value, what: &str) -> String {
    format!("/api/v1/leases/{}/{what}", lease["lease_id"].as_str().unwrap())
}

// proves R129 to R143, R165 to R170, R177, R178, R223, C47, C54, C58, C63, U19
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_goes_its_way_as_it_is_printed() {
    let plane = plane().await;
    plane.post(&format!("{}/cameras/", site("tenant-1", "site-1")), &printed()).await;
    plane.post("/api/v1/runners/register/", &registration("runner-abc123")).await;
    let body = json!({
        "camera_uuid": "cam-001", "runner_id": "runner-abc123", "shard_id": "shard-1", "tenant_id": "tenant-1",
        "site_id": "site-1", "ttl_seconds": 60, "config_version": "abc123", "zone_version": "def456"
    });
    let granted = plane.post("/api/v1/leases/acquire/", &body).await;
    assert_eq!(granted.status, 201, "{granted:?}");
    for field in [
        "camera_uuid",
        "runner_id",
        "shard_id",
        "tenant_id",
        "site_id",
        "ttl_seconds",
        "config_version",
        "zone_version",
    ] {
        assert_eq!(granted.body[field], body[field], "{field}");
    }
    assert_eq!((&granted.body["status"], &granted.body["fencing_token"]), (&json!("active"), &json!(1)));
    assert_eq!((&granted.body["renewed_at"], &granted.body["processing_stats"]), (&Value::Null, &json!({})));
    for field in ["acquired_at", "expires_at", "last_heartbeat"] {
        assert!(granted.body[field].as_str().unwrap().ends_with('Z'), "{field}");
    }
    let again = plane.post("/api/v1/leases/acquire/", &body).await;
    assert_eq!(
        (again.status, &again.body["lease_id"]),
        (200, &granted.body["lease_id"]),
        "an answer may be lost"
    );

    let renewed = plane.send(Method::PUT, &path(&granted.body, "renew/"), "").await;
    assert_eq!((renewed.status, &renewed.body["status"]), (200, &json!("active")), "{renewed:?}");
    assert!(
        renewed.body["renewed_at"].is_string()
            && renewed.body["expires_at"].as_str() >= granted.body["expires_at"].as_str()
    );
    let stats = json!({"fps": 24.5, "queue": {"length": 3}});
    let heard = plane.post(&path(&granted.body, "heartbeat/"), &json!({"processing_stats": stats})).await;
    assert_eq!((heard.status, &heard.body["processing_stats"]), (200, &stats), "{heard:?}");
    assert_eq!(heard.body["expires_at"], renewed.body["expires_at"], "a heartbeat extends nothing");
    let bare = plane.post(&path(&granted.body, "heartbeat/"), &json!({"fps": 1})).await;
    assert_eq!(bare.body["processing_stats"], json!({"fps": 1}));

    let shown = plane.get(&path(&granted.body, "")).await;
    assert_eq!((shown.status, &shown.body["processing_stats"]), (200, &json!({"fps": 1})));
    let valid = plane.get(&path(&granted.body, "validate/")).await;
    assert_eq!((valid.status, &valid.body["valid"]), (200, &json!(true)));
    for list in ["/api/v1/leases/runner/runner-abc123/", "/api/v1/leases/camera/cam-001/"] {
        let listed = plane.get(list).await;
        assert_eq!((listed.status, listed.body.as_array().unwrap().len()), (200, 1), "{list}: {listed:?}");
        assert_eq!(listed.body[0]["lease_id"], granted.body["lease_id"]);
    }
    let runner = plane.get("/api/v1/runners/runner-abc123/").await.body;
    assert_eq!((&runner["assigned_cameras"], &runner["current_load"]), (&json!(["cam-001"]), &json!(1)));

    let released = plane.send(Method::DELETE, &path(&granted.body, "release/"), "").await;
    assert_eq!((released.status, &released.body["status"]), (200, &json!("released")));
    eventually("the ledger has it", || async {
        plane.get(&path(&granted.body, "")).await.body["status"] == "released"
    })
    .await;
    let twice = plane.send(Method::DELETE, &path(&granted.body, "release/"), "").await;
    assert_eq!((twice.status, &twice.body["status"]), (200, &json!("released")));
    let late = plane.send(Method::PUT, &path(&granted.body, "renew/"), "").await;
    assert_eq!((late.status, &late.body["error_code"]), (410, &json!("lease_released")));
    assert_eq!(plane.get(&path(&granted.body, "validate/")).await.body["valid"], json!(false));
    assert_eq!(plane.get("/api/v1/leases/camera/cam-001/").await.body, json!([]));
    let next = plane.post("/api/v1/leases/acquire/", &body).await;
    assert_eq!((next.status, &next.body["fencing_token"]), (201, &json!(2)));
    for unknown in ["018c2f6e-7a10-8f4b-b2c1-5d3a9e0b77aa", "lease-uuid-123"] {
        let answer = plane.send(Method::PUT, &format!("/api/v1/leases/{unknown}/renew/"), "").await;
        assert_eq!((answer.status, &answer.body["error_code"]), (404, &json!("lease_not_found")));
    }
}

// proves U25
#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_who_ask_at_once_one_is_granted() {
    let runners: Vec<String> = (0..100).map(|number| format!("r{number}")).collect();
    let runners: Vec<&str> = runners.iter().map(String::as_str).collect();
    let plane = staffed(&["cam-1"], &runners).await;
    let answers = join_all(runners.iter().map(|runner| {
        let plane = &plane;
        async move { plane.post("/api/v1/leases/acquire/", &wanted("cam-1", runner)).await }
    }));
    let answers = answers.await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 409).count(), 99);
    let held = answers.iter().find(|answer| answer.status == 409).unwrap();
    assert_eq!(held.body["error_code"], "already_held");
    assert!(held.body["details"]["runner_id"].is_string(), "{held:?}");
}

// proves C44, C67, R138
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_not_renewed_expires_and_goes_to_another() {
    let plane = staffed(&["cam-1"], &["one", "two"]).await;
    let mut body = wanted("cam-1", "one");
    body["ttl_seconds"] = json!(1);
    let lost = plane.post("/api/v1/leases/acquire/", &body).await.body;
    eventually("the lease expires", || async {
        plane.get(&path(&lost, "")).await.body["status"] == "expired"
    })
    .await;
    let late = plane.send(Method::PUT, &path(&lost, "renew/"), "").await;
    assert_eq!((late.status, &late.body["error_code"]), (410, &json!("lease_expired")));
    let taken = plane.post("/api/v1/leases/acquire/", &wanted("cam-1", "two")).await;
    assert_eq!((taken.status, &taken.body["fencing_token"]), (201, &json!(2)));
}

// proves C56, R150
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_lease_is_nobodys_until_its_holder_stopped() {
    let plane = staffed(&["cam-1"], &["one", "two"]).await;
    let lease = plane.post("/api/v1/leases/acquire/", &wanted("cam-1", "one")).await.body;
    let revoked = plane.post(&path(&lease, "revoke/"), &json!({})).await;
    assert_eq!((revoked.status, &revoked.body["status"]), (200, &json!("revoked")), "{revoked:?}");
    let told = plane.send(Method::PUT, &path(&lease, "renew/"), "").await;
    assert_eq!((told.status, &told.body["error_code"]), (410, &json!("lease_revoked")));
    assert_eq!(plane.post(&path(&lease, "heartbeat/"), &json!({})).await.status, 410);
    assert_eq!(
        plane.post("/api/v1/leases/acquire/", &wanted("cam-1", "two")).await.status,
        409,
        "it may still work"
    );
    assert_eq!(plane.send(Method::DELETE, &path(&lease, "release/"), "").await.status, 200);
    assert_eq!(plane.post("/api/v1/leases/acquire/", &wanted("cam-1", "two")).await.status, 201);
    eventually("it is over", || async { plane.get(&path(&lease, "")).await.body["status"] == "revoked" })
        .await;
}

// proves C56, C68
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_and_a_runner_belong_to_their_key() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let [mine, theirs] = [
        key(&store, Role::Member, Some("tenant-1")).await,
        key(&store, Role::Member, Some("tenant-1")).await,
    ];
    let operator = key(&store, Role::Operator, Some("tenant-1")).await;
    let read = key(&store, Role::Read, Some("tenant-1")).await;
    let other = key(&store, Role::Admin, Some("other")).await;
    // Not sooner: who finds no key asks for none, until it has looked again.
    let plane = Plane::serving(Arc::clone(&store)).await;
    let ask = async |method: Method, path: &str, key: &str, body: &Value| {
        plane.ask(method, path, &[("Authorization", key)], body).await
    };
    let nothing = Value::Null;
    ask(Method::POST, &format!("{}/cameras/", site("tenant-1", "site-1")), &operator, &simple("cam-1")).await;
    assert_eq!(ask(Method::POST, "/api/v1/runners/register/", &mine, &registration("one")).await.status, 201);
    let taken = ask(Method::POST, "/api/v1/runners/register/", &theirs, &registration("one")).await;
    assert_eq!((taken.status, &taken.body["error_code"]), (403, &json!("not_your_runner")));
    let beat = ask(Method::PUT, "/api/v1/runners/one/heartbeat/", &theirs, &json!({})).await;
    assert_eq!(beat.status, 403);
    assert_eq!(
        ask(Method::POST, "/api/v1/leases/acquire/", &theirs, &wanted("cam-1", "one")).await.status,
        403
    );
    assert_eq!(
        ask(Method::POST, "/api/v1/leases/acquire/", &read, &wanted("cam-1", "one")).await.status,
        403
    );
    let lease = ask(Method::POST, "/api/v1/leases/acquire/", &mine, &wanted("cam-1", "one")).await;
    assert_eq!(lease.status, 201, "{lease:?}");
    for (method, what) in
        [(Method::PUT, "renew/"), (Method::DELETE, "release/"), (Method::POST, "heartbeat/")]
    {
        for who in [&theirs, &operator] {
            let refused = ask(method.clone(), &path(&lease.body, what), who, &json!({})).await;
            assert_eq!(
                (refused.status, &refused.body["error_code"]),
                (403, &json!("not_your_lease")),
                "{what}"
            );
        }
        let absent = ask(method, &path(&lease.body, what), &other, &json!({})).await;
        assert_eq!(absent.status, 404, "{what}: {absent:?}");
    }
    assert_eq!(ask(Method::POST, &path(&lease.body, "revoke/"), &mine, &json!({})).await.status, 403);
    for absent in ["/api/v1/runners/one/", "/api/v1/leases/camera/cam-1/"] {
        assert_eq!(ask(Method::GET, absent, &other, &nothing).await.status, 404);
    }
    assert_eq!(ask(Method::GET, "/api/v1/leases/runner/one/", &other, &nothing).await.body, json!([]));
    assert_eq!(ask(Method::GET, "/api/v1/cameras/available/", &other, &nothing).await.body, json!([]));
    assert_eq!(ask(Method::PUT, &path(&lease.body, "renew/"), &mine, &nothing).await.status, 200);
    // An operator who removes the runner takes its leases back, and the runner is told.
    assert_eq!(ask(Method::DELETE, "/api/v1/runners/one/", &operator, &nothing).await.status, 204);
    let told = ask(Method::PUT, &path(&lease.body, "renew/"), &mine, &nothing).await;
    assert_eq!((told.status, &told.body["error_code"]), (410, &json!("lease_revoked")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leased_camera_stays_where_it_is_and_goes_when_its_holder_has_stopped() {
    let plane = staffed(&["cam-1"], &["one"]).await;
    let lease = plane.post("/api/v1/leases/acquire/", &wanted("cam-1", "one")).await.body;
    let (here, there) = (site("tenant-1", "site-1"), site("tenant-1", "site-2"));
    let moved = plane.put(&format!("{there}/cameras/cam-1/"), &simple("cam-1")).await;
    assert_eq!((moved.status, &moved.body["error_code"]), (409, &json!("camera_leased")));
    let deleting = plane.delete(&format!("{here}/cameras/cam-1/")).await;
    assert_eq!((deleting.status, &deleting.body["status"]), (202, &json!("deleting")), "{deleting:?}");
    let told = plane.send(Method::PUT, &path(&lease, "renew/"), "").await;
    assert_eq!((told.status, &told.body["error_code"]), (410, &json!("lease_revoked")));
    assert_eq!(plane.put(&format!("{here}/cameras/cam-1/"), &simple("cam-1")).await.status, 409);
    assert_eq!(
        plane.get("/api/v1/cameras/cam-1/").await.body["deleting"],
        json!(true),
        "not before it has stopped"
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(plane.get("/api/v1/cameras/cam-1/").await.status, 200);
    plane.send(Method::DELETE, &path(&lease, "release/"), "").await;
    eventually("it is gone", || async { plane.get("/api/v1/cameras/cam-1/").await.status == 404 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_for_leases_are_refused() {
    let plane = staffed(&["cam-1"], &["one"]).await;
    let ask = async |at: &str, value: Value| {
        let mut body = wanted("cam-1", "one");
        body[at] = value;
        plane.post("/api/v1/leases/acquire/", &body).await
    };
    for (at, value, status, code) in [
        ("camera_uuid", json!("cam-2"), 404, "camera_not_found"),
        ("camera_uuid", json!("available"), 422, "invalid"),
        ("camera_uuid", json!(7), 422, "invalid"),
        ("runner_id", json!("two"), 404, "runner_not_found"),
        ("runner_id", json!("a b"), 422, "invalid"),
        ("site_id", json!("site-2"), 404, "camera_not_found"),
        ("tenant_id", json!("tenant-2"), 404, "camera_not_found"),
        ("tenant_id", json!("a.b"), 422, "invalid"),
        ("ttl_seconds", json!(0), 422, "invalid"),
        ("ttl_seconds", json!(3601), 422, "invalid"),
        ("config_version", json!("x".repeat(65)), 422, "invalid"),
        ("shard_id", json!("x".repeat(256)), 422, "invalid"),
    ] {
        let refused = ask(at, value.clone()).await;
        assert_eq!(
            (refused.status, &refused.body["error_code"]),
            (status, &json!(code)),
            "{at} {value}: {refused:?}"
        );
    }
    assert_eq!(plane.send(Method::POST, "/api/v1/leases/acquire/", "[]").await.status, 422);
    assert_eq!(plane.send(Method::POST, "/api/v1/leases/acquire/", "{").await.status, 400);
    let lease = plane.post("/api/v1/leases/acquire/", &wanted("cam-1", "one")).await.body;
    let large = json!({"processing_stats": {"x": "x".repeat(20_000)}});
    assert_eq!(plane.post(&path(&lease, "heartbeat/"), &large).await.status, 422);
    assert_eq!(plane.post(&path(&lease, "heartbeat/"), &json!({"processing_stats": 7})).await.status, 422);
}
