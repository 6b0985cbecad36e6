//! Runners: who there is, what each is given, and how cameras change hands.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use leasehold::clock;
use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::{plane, registration, simple, site};
use crate::support::{Plane, eventually};

async fn register(plane: &Plane, runner: &str, change: &Value) -> Value {
    let mut body = registration(runner);
    for (name, value) in change.as_object().unwrap() {
        body[name] = value.clone();
    }
    let made = plane.post("/api/v1/runners/register/", &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.body
}

fn ids(cameras: &Value) -> Vec<String> {
    cameras.as_array().unwrap().iter().map(|one| one["camera_uuid"].as_str().unwrap().to_owned()).collect()
}

async fn acquire(plane: &Plane, camera: &str, runner: &str, change: &Value) -> crate::support::Answered {
    let mut body = json!({"camera_uuid": camera, "runner_id": runner, "shard_id": "s"});
    for (name, value) in change.as_object().unwrap() {
        body[name] = value.clone();
    }
    plane.post("/api/v1/leases/acquire/", &body).await
}

// proves R171, R172, R173, R174, R179, R180, R212, U24, C60
#[tokio::test(flavor = "multi_thread")]
async fn a_runner_registers_is_heard_and_goes() {
    let plane = plane().await;
    let made = register(&plane, "runner-abc123", &json!({})).await;
    assert_eq!((&made["status"], &made["assigned_cameras"]), (&json!("active"), &json!([])));
    assert!(made["registered_at"].as_str().unwrap().ends_with('Z'));
    for (name, value) in registration("runner-abc123").as_object().unwrap() {
        assert_eq!(made[name], *value, "{name}");
    }
    let said = json!({"status": "draining", "metrics": {"cpu": 0.5}, "capacity": 0});
    let heard = plane.put("/api/v1/runners/runner-abc123/heartbeat/", &said).await;
    assert_eq!((heard.status, &heard.body["status"]), (200, &json!("draining")), "{heard:?}");
    let shown = plane.get("/api/v1/runners/runner-abc123/").await.body;
    assert_eq!(
        (&shown["metrics"], &shown["capacity"]),
        (&json!({"cpu": 0.5}), &json!(0)),
        "0 is not a default"
    );
    assert_eq!(shown["incarnation"], made["incarnation"]);
    assert_eq!(
        plane.put("/api/v1/runners/runner-abc123/heartbeat/", &json!({})).await.body["status"],
        "draining"
    );
    let wrong = plane.put("/api/v1/runners/runner-abc123/heartbeat/", &json!({"status": "asleep"})).await;
    assert_eq!((wrong.status, &wrong.body["error_code"]), (422, &json!("invalid")));
    assert_eq!(plane.get("/api/v1/runners/").await.body.as_array().unwrap().len(), 1);
    assert_eq!(plane.delete("/api/v1/runners/runner-abc123/").await.status, 204);
    assert_eq!(plane.delete("/api/v1/runners/runner-abc123/").await.status, 404);
    let late = plane.put("/api/v1/runners/runner-abc123/heartbeat/", &json!({})).await;
    assert_eq!((late.status, &late.body["error_code"]), (404, &json!("runner_not_found")));
}

// proves C62
#[tokio::test(flavor = "multi_thread")]
async fn who_registers_again_is_another_unless_it_says_that_it_is_the_same() {
    let plane = plane().await;
    plane.cameras(&site("tenant-1", "site-1"), &["cam-1", "cam-2"]).await;
    let first = register(&plane, "one", &json!({})).await;
    let lease = acquire(&plane, "cam-1", "one", &json!({})).await.body;
    let renew = format!("/api/v1/leases/{}/renew/", lease["lease_id"].as_str().unwrap());
    let same = register(&plane, "one", &json!({"incarnation": first["incarnation"]})).await;
    assert_eq!(same["assigned_cameras"], json!(["cam-1"]));
    assert_eq!(plane.send(Method::PUT, &renew, "").await.status, 200);
    let other = register(&plane, "one", &json!({})).await;
    assert_eq!(other["assigned_cameras"], json!([]));
    let late = plane.send(Method::PUT, &renew, "").await;
    assert_eq!((late.status, &late.body["error_code"]), (410, &json!("superseded")));
    assert_eq!(acquire(&plane, "cam-1", "one", &json!({})).await.status, 409, "it runs out first");
    assert_eq!(acquire(&plane, "cam-2", "one", &json!({})).await.status, 201);
    // At its own word its leases are released at once.
    assert_eq!(plane.delete("/api/v1/runners/one/").await.status, 204);
    register(&plane, "two", &json!({})).await;
    assert_eq!(acquire(&plane, "cam-2", "two", &json!({})).await.status, 201);
}

// proves C58, U24
#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_is_not_heard_of_is_inactive_and_gets_nothing() {
    let plane = plane().await;
    plane.cameras(&site("tenant-1", "site-1"), &["cam-1"]).await;
    register(&plane, "one", &json!({"ttl_seconds": 1})).await;
    eventually("it is inactive", || async {
        plane.get("/api/v1/runners/one/").await.body["status"] == "inactive"
    })
    .await;
    assert_eq!(acquire(&plane, "cam-1", "one", &json!({})).await.status, 404);
    assert_eq!(plane.get("/api/v1/cameras/available/?runner_id=one").await.status, 404);
    assert_eq!(ids(&plane.get("/api/v1/cameras/available/").await.body), ["cam-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_gets_what_it_may_have_and_no_more_than_it_takes() {
    let plane = plane().await;
    let at = site("tenant-1", "site-1");
    plane.cameras(&at, &["a", "b", "c"]).await;
    plane.cameras(&site("tenant-1", "site-2"), &["elsewhere"]).await;
    let mut special = simple("special");
    special["capabilities"] = json!(["gpu"]);
    special["deployment_group"] = json!("canary");
    assert_eq!(plane.post(&format!("{at}/cameras/"), &special).await.status, 201);
    register(&plane, "one", &json!({"capacity": 2})).await;
    let offered = plane.get("/api/v1/cameras/available/?runner_id=one").await.body;
    assert_eq!(offered.as_array().unwrap().len(), 2, "{offered}");
    for (camera, code) in [("elsewhere", "not_eligible"), ("special", "not_eligible")] {
        let refused = acquire(&plane, camera, "one", &json!({})).await;
        assert_eq!((refused.status, &refused.body["error_code"]), (409, &json!(code)), "{refused:?}");
    }
    let answers = stream::iter(["a", "b", "c"]).map(|camera| {
        let plane = &plane;
        async move { acquire(plane, camera, "one", &json!({})).await }
    });
    let mut statuses: Vec<u16> = answers.buffer_unordered(3).map(|answer| answer.status).collect().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 429], "however many it asks for at once");
    assert_eq!(plane.get("/api/v1/cameras/available/?runner_id=one").await.body, json!([]));
    register(&plane, "two", &json!({"site_id": "*", "capabilities": ["gpu"], "deployment_group": "canary"}))
        .await;
    let offered = ids(&plane.get("/api/v1/cameras/available/?runner_id=two").await.body);
    assert_eq!(offered.len(), 3, "{offered:?}");
    assert_eq!(acquire(&plane, "special", "two", &json!({})).await.status, 201);
    plane.put("/api/v1/runners/two/heartbeat/", &json!({"status": "maintenance"})).await;
    let refused = acquire(&plane, "elsewhere", "two", &json!({})).await;
    assert_eq!((refused.status, &refused.body["error_code"]), (409, &json!("runner_not_active")));
}

// proves C57, C46
#[tokio::test(flavor = "multi_thread")]
async fn a_camera_changes_hands_by_a_reservation() {
    let plane = plane().await;
    plane.cameras(&site("tenant-1", "site-1"), &["a", "b"]).await;
    register(&plane, "old", &json!({})).await;
    let first = acquire(&plane, "a", "old", &json!({})).await.body;
    let second = acquire(&plane, "b", "old", &json!({})).await.body;
    register(&plane, "new", &json!({})).await;
    register(&plane, "third", &json!({"capacity": 0})).await;
    let offered = plane.get("/api/v1/cameras/available/?runner_id=new&reservable=true").await.body;
    assert_eq!((offered.as_array().unwrap().len(), &offered[0]["reserve"]), (1, &json!(true)), "{offered}");
    let camera = offered[0]["camera_uuid"].as_str().unwrap().to_owned();
    let (moving, staying) = if first["camera_uuid"] == *camera { (first, second) } else { (second, first) };

    // Whoever did not ask for a reservation is not given something that looks like a lease.
    assert_eq!(acquire(&plane, &camera, "new", &json!({})).await.status, 409);
    let stay = staying["camera_uuid"].as_str().unwrap();
    assert_eq!(acquire(&plane, stay, "new", &json!({"reserve": true})).await.status, 409, "it is to stay");
    let reserved = acquire(&plane, &camera, "new", &json!({"reserve": true})).await;
    assert_eq!((reserved.status, &reserved.body["status"]), (202, &json!("pending")), "{reserved:?}");
    let lease = reserved.body["lease_id"].as_str().unwrap().to_owned();
    let renew = async |id: &str| plane.send(Method::PUT, &format!("/api/v1/leases/{id}/renew/"), "").await;
    assert_eq!(renew(&lease).await.body["status"], "pending", "the old one still works");
    let valid = plane.get(&format!("/api/v1/leases/{lease}/validate/")).await;
    assert_eq!((&valid.body["valid"], &valid.body["status"]), (&json!(false), &json!("pending")));
    let old = renew(moving["lease_id"].as_str().unwrap()).await;
    assert_eq!(old.body["release_requested"], json!(true), "it is asked to hand over: {old:?}");
    let other = renew(staying["lease_id"].as_str().unwrap()).await;
    assert_eq!(other.body["release_requested"], json!(false));

    let id = moving["lease_id"].as_str().unwrap();
    assert_eq!(plane.send(Method::DELETE, &format!("/api/v1/leases/{id}/release/"), "").await.status, 200);
    let thief = acquire(&plane, &camera, "old", &json!({})).await;
    assert_eq!((thief.status, &thief.body["error_code"]), (409, &json!("reserved")));
    let active = renew(&lease).await;
    assert_eq!((active.status, &active.body["status"]), (200, &json!("active")), "{active:?}");
    assert_eq!((&active.body["lease_id"], &active.body["ttl_seconds"]), (&json!(lease), &json!(60)));
    assert!(active.body["fencing_token"].as_u64() > moving["fencing_token"].as_u64());
    assert_eq!(renew(&lease).await.body["status"], "active");
    let listed = plane.get(&format!("/api/v1/leases/camera/{camera}/")).await.body;
    assert_eq!(listed.as_array().unwrap().len(), 1, "nothing of the reservation is left: {listed}");
}

// proves U25, C61
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_cameras_on_fifty_sites_go_to_twenty_runners_evenly() {
    let plane = plane().await;
    let made = stream::iter(0..1000).map(|number| {
        let plane = &plane;
        let at = site("tenant-1", &format!("site-{}", number % 50));
        async move { plane.post(&format!("{at}/cameras/"), &simple(&format!("cam-{number:04}"))).await.status }
    });
    assert!(made.buffer_unordered(32).all(|status| async move { status == 201 }).await);
    let runners: Vec<String> = (0..20).map(|number| format!("runner-{number:02}")).collect();
    for runner in &runners {
        register(&plane, runner, &json!({"site_id": "*", "capacity": 64})).await;
    }
    let began = clock::now();
    let fill = |runner: &String| {
        let (plane, runner) = (&plane, runner.clone());
        async move {
            let offered =
                ids(&plane.get(&format!("/api/v1/cameras/available/?runner_id={runner}")).await.body);
            let taking = stream::iter(offered).map(|camera| {
                let runner = runner.clone();
                async move { acquire(plane, &camera, &runner, &json!({})).await.status == 201 }
            });
            taking.buffer_unordered(4).filter(|taken| std::future::ready(*taken)).count().await
        }
    };
    let taken: Vec<usize> = futures_util::future::join_all(runners.iter().map(fill)).await;
    let took = clock::now().since(began);
    assert_eq!(taken.iter().sum::<usize>(), 1000, "{taken:?}");
    let mut loads: BTreeMap<String, u64> = BTreeMap::new();
    for runner in plane.get("/api/v1/runners/").await.body.as_array().unwrap() {
        loads.insert(
            runner["runner_id"].as_str().unwrap().to_owned(),
            runner["current_load"].as_u64().unwrap(),
        );
    }
    assert!(loads.values().all(|load| *load == 50), "{loads:?}");
    assert_eq!(plane.get("/api/v1/cameras/available/").await.body, json!([]));
    println!("1,000 cameras were taken by 20 runners in {took:?}");
    // Ten seconds on a quiet machine; a crowded one may take its time.
    assert!(took < Duration::from_secs(60), "{took:?}");
}
