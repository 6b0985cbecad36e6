//! Service levels, as Prometheus reads them.

mod support;

use std::sync::Arc;
use std::time::Duration;

use leasehold::ledger::{Entry, Event};
use leasehold::store::Store;
use leasehold::store::memory::MemoryStore;
use leasehold::{Token, clock};
use serde_json::json;
use support::Plane;

/// The value of a sample; `None` if there is none.
fn sample(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

async fn until(plane: &Plane, name: &str, is: impl Fn(f64) -> bool) -> f64 {
    let waiting = async {
        loop {
            let text = plane.get("/metrics").await.body.as_str().unwrap_or_default().to_owned();
            if let Some(value) = sample(&text, name).filter(|value| is(*value)) {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    found.unwrap_or_else(|_| panic!("{name} does not come to what it should be"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_owned_unowned_and_moved_is_measured() {
    let plane = Plane::serving(Arc::new(MemoryStore::new())).await;
    plane.scenes(2).await;
    let held = plane.acquire("scene-0", &json!({"holder_id": "a", "ttl_ms": 60_000})).await;
    assert_eq!(held.status, 201, "{held:?}");
    until(&plane, "leasehold_resources{pool=\"scenes\",state=\"owned\"}", |count| count == 1.0).await;
    until(&plane, "leasehold_resources{pool=\"scenes\",state=\"unowned\"}", |count| count == 1.0).await;
    until(&plane, "leasehold_unowned_seconds_total{pool=\"scenes\"}", |seconds| seconds >= 1.0).await;
    until(&plane, "leasehold_pool_members{pool=\"scenes\"}", |count| count == 1.0).await;
    until(&plane, "leasehold_heartbeat_margin_ratio{pool=\"scenes\"}", |left| left > 0.5).await;
    until(&plane, "leasehold_overlap_seconds{pool=\"scenes\"}", |seconds| seconds == 0.0).await;
    until(&plane, "leasehold_plan_imbalance{pool=\"scenes\"}", |off| off >= 0.0).await;
    assert_eq!(plane.release("scene-0", &json!({"holder_id": "a"})).await.status, 204);
    assert_eq!(plane.acquire("scene-0", &json!({"holder_id": "b"})).await.status, 201);
    until(&plane, "leasehold_handoff_seconds_count{pool=\"scenes\"}", |count| count == 1.0).await;
}

fn row(member: &str, event: Event, token: u64) -> Entry {
    Entry {
        wall_nanos: clock::unix_nanos(),
        at: clock::now(),
        boot: String::new(),
        number: None,
        member: member.parse().expect("an id"),
        name: "worker".parse().expect("a name"),
        event,
        resource: Some("scene-0".parse().expect("an id")),
        token: Some(Token(token)),
        trusted_until: None,
        ttl_ms: Some(30_000),
        reason: None,
        error: None,
        other: None,
        detail: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_more_than_one_look_reads_the_rest_is_measured_later() {
    const MOVES: u64 = 6000;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let plane = Plane::serving(Arc::clone(&store)).await;
    // All servers of this process measure together, each pool by its name.
    assert_eq!(plane.put("/api/v1/busy/scene-0", &json!({})).await.status, 201);
    let pool = "busy".parse().expect("a pool");
    let rows = (1..=MOVES).flat_map(|token| {
        let holder = format!("holder-{token}");
        [row(&holder, Event::Acquired, token), row(&holder, Event::Released, token)]
    });
    for some in rows.collect::<Vec<_>>().chunks(256) {
        store.append(&pool, some).await.expect("appended");
    }
    // Where a look ends between a release and the next grant, that one handoff is not seen.
    let seen = |count: f64| count >= (MOVES - 5) as f64;
    until(&plane, "leasehold_handoff_seconds_count{pool=\"busy\"}", seen).await;
}

// proves R229, U21
#[tokio::test(flavor = "multi_thread")]
async fn cameras_and_runners_are_measured_under_the_names_of_document_004() {
    let plane = Plane::serving(Arc::new(MemoryStore::new())).await;
    let post = async |path: &str, body: serde_json::Value| {
        let said = plane.send(reqwest::Method::POST, path, body.to_string()).await;
        assert!(said.status < 300, "{path}: {said:?}");
        said.body
    };
    for camera in ["cam-0", "cam-1"] {
        let body = json!({"camera_uuid": camera, "rtsp_url": "rtsp://camera.local/stream"});
        post("/api/v1/tenants/figures/sites/s/cameras/", body).await;
    }
    let register = async |runner: &str| {
        let body = json!({"runner_id": runner, "tenant_id": "figures", "site_id": "s"});
        post("/api/v1/runners/register/", body).await
    };
    let acquire = async |runner: &str| {
        let body =
            json!({"camera_uuid": "cam-0", "runner_id": runner, "shard_id": "a", "tenant_id": "figures"});
        post("/api/v1/leases/acquire/", body).await
    };
    register("one").await;
    let lease = acquire("one").await;
    let tenant = |name: &str| format!("{name}{{tenant_id=\"figures\"}}");
    let of_one = |name: &str| format!("{name}{{tenant_id=\"figures\",runner_id=\"one\"}}");
    until(&plane, &tenant("streams_desired_total"), |count| count == 2.0).await;
    until(&plane, &tenant("streams_pending_total"), |count| count == 1.0).await;
    until(&plane, &tenant("lease_time_to_expiry_seconds"), |left| left > 1.0 && left <= 60.0).await;
    until(&plane, &of_one("runner_streams_owned"), |count| count == 1.0).await;
    until(&plane, &of_one("runner_shards"), |count| count == 1.0).await;
    until(&plane, &of_one("drain_in_progress"), |count| count == 0.0).await;
    let drained = plane.put("/api/v1/runners/one/heartbeat/", &json!({"status": "draining"})).await;
    assert_eq!(drained.status, 200, "{drained:?}");
    until(&plane, &of_one("drain_in_progress"), |count| count == 1.0).await;
    let path = format!("/api/v1/leases/{}/release/", lease["lease_id"].as_str().unwrap());
    assert_eq!(plane.send(reqwest::Method::DELETE, &path, "").await.status, 200);
    register("two").await;
    acquire("two").await;
    until(&plane, &tenant("owner_changes_total"), |count| count == 1.0).await;
    until(&plane, &of_one("runner_streams_owned"), |count| count == 0.0).await;
}
