//! Service levels, as Prometheus reads them.

mod support;

use std::time::Duration;

use leasehold::store::memory::MemoryStore;
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
    let plane = Plane::serving(std::sync::Arc::new(MemoryStore::new())).await;
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
