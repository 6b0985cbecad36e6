//! What happens to leases of cameras, as others are told it.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::{plane, registration, simple, site};
use crate::support::{Plane, eventually};

async fn acquire(plane: &Plane, camera: &str, runner: &str, ttl: u64) -> Value {
    let body = json!({"camera_uuid": camera, "runner_id": runner, "shard_id": "shard-1", "ttl_seconds": ttl});
    let granted = plane.post("/api/v1/leases/acquire/", &body).await;
    assert_eq!(granted.status, 201, "{granted:?}");
    granted.body
}

fn path(lease: &Value, what: &str) -> String {
    format!("/api/v1/leases/{}/{what}/", lease["lease_id"].as_str().unwrap())
}

/// Everything that the list has.
async fn audited(plane: &Plane, query: &str) -> Vec<Value> {
    let mut next = Some(format!("/api/v1/leases/audit/?tenant_id=tenant-1&limit=3{query}"));
    let mut all = Vec::new();
    while let Some(path) = next {
        let page = plane.get(&path).await;
        assert_eq!(page.status, 200, "{page:?}");
        all.extend(page.body.as_array().unwrap().clone());
        next = page.header("link").map(|link| link.split(['<', '>']).nth(1).unwrap().to_owned());
    }
    all
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event_type"].as_str().unwrap()).collect()
}

// proves R150, R152, R153, C54, C67
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_event_is_told_in_the_words_of_the_document() {
    let plane = plane().await;
    let mut camera = simple("cam-1");
    camera["rtsp_url"] = json!("rtsp://admin:hunter2@camera.local/stream");
    plane.post(&format!("{}/cameras/", site("tenant-1", "site-1")), &camera).await;
    for runner in ["one", "two"] {
        plane.post("/api/v1/runners/register/", &registration(runner)).await;
    }
    let follow = plane.client.get(plane.url("/api/v1/leases/events/?tenant_id=tenant-1&camera_uuid=cam-1"));
    let mut stream = follow.send().await.unwrap().bytes_stream();

    let lapsed = acquire(&plane, "cam-1", "one", 1).await;
    plane.send(Method::PUT, &path(&lapsed, "renew"), "").await;
    eventually("it expires", || async {
        plane.get(&path(&lapsed, "validate")).await.body["status"] == "expired"
    })
    .await;
    let released = acquire(&plane, "cam-1", "two", 60).await;
    plane.delete(&path(&released, "release")).await;
    let revoked = acquire(&plane, "cam-1", "two", 60).await;
    plane.post(&path(&revoked, "revoke"), &json!({})).await;

    let expected = [
        "lease_acquired",
        "lease_renewed",
        "lease_expired",
        "lease_stolen",
        "lease_acquired",
        "lease_released",
        "lease_acquired",
        "lease_revoked",
    ];
    eventually("all of it is in the list", || async { audited(&plane, "").await.len() == expected.len() })
        .await;
    let events = audited(&plane, "").await;
    assert_eq!(kinds(&events), expected);
    for event in &events {
        for field in ["event_id", "lease_id", "camera_uuid", "runner_id", "shard_id", "timestamp"] {
            assert!(event[field].is_string(), "{field}: {event}");
        }
        assert_eq!(
            (&event["details"]["tenant_id"], &event["details"]["site_id"]),
            (&json!("tenant-1"), &json!("site-1"))
        );
    }
    // Expired once, and stolen in addition, both addressed to whoever held it.
    for addressed in [&events[2], &events[3]] {
        assert_eq!((&addressed["lease_id"], &addressed["runner_id"]), (&lapsed["lease_id"], &json!("one")));
    }
    assert_eq!(events[3]["details"]["taken_by"], released["lease_id"]);
    let of_one = audited(&plane, "&runner_id=one").await;
    assert_eq!(kinds(&of_one), ["lease_acquired", "lease_renewed", "lease_expired", "lease_stolen"]);
    assert_eq!(
        audited(&plane, &format!("&lease_id={}", revoked["lease_id"].as_str().unwrap())).await.len(),
        2
    );

    let mut told = String::new();
    while told.matches("data:").count() < expected.len() {
        let piece =
            tokio::time::timeout(Duration::from_secs(60), stream.next()).await.expect("it is told").unwrap();
        told.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
    }
    let streamed: Vec<Value> = told
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(kinds(&streamed), expected);
    assert!(!told.contains("hunter2") && !json!(events).to_string().contains("hunter2"));
}
