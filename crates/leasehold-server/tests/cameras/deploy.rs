//! Blue and green: cameras move to another version of the runners, and back, while everybody works.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::clock::{self, Moment};
use leasehold_server::deploy::{Group, Phase, Status};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::stage::{plane, registration, site};
use crate::support::{Plane, eventually};

const CAMERAS: usize = 12;
/// How often a runner looks.
const LOOK: Duration = Duration::from_millis(50);

/// When each camera was worked on, and by whom.
#[derive(Debug, Default)]
struct Witness(Mutex<BTreeMap<String, Vec<Work>>>);

#[derive(Debug)]
struct Work {
    by: String,
    from: Moment,
    until: Option<Moment>,
}

impl Witness {
    fn begins(&self, camera: &str, by: &str) {
        let work = Work { by: by.to_owned(), from: clock::now(), until: None };
        self.0.lock().unwrap().entry(camera.to_owned()).or_default().push(work);
    }

    fn ends(&self, camera: &str, by: &str) {
        let mut seen = self.0.lock().unwrap();
        let work =
            seen.get_mut(camera).and_then(|all| all.iter_mut().rev().find(|work| work.by == by)).unwrap();
        work.until = Some(clock::now());
    }

    /// Nobody worked on a camera while another did; answers the longest that nobody did in between.
    fn judge(&self) -> Duration {
        let mut longest = Duration::ZERO;
        for (camera, all) in self.0.lock().unwrap().iter() {
            for pair in all.windows(2) {
                let until = pair[0].until.unwrap_or_else(|| panic!("{camera} has two owners: {pair:?}"));
                assert!(until <= pair[1].from, "{camera} has two owners: {pair:?}");
                longest = longest.max(pair[1].from.since(until));
            }
        }
        longest
    }
}

/// A runner that takes what it is offered, reserves what should move to it, and lets go of what others wait for.
async fn work(plane: Arc<Plane>, witness: Arc<Witness>, name: String) {
    let mut leases: BTreeMap<String, (String, bool)> = BTreeMap::new();
    loop {
        let offered =
            plane.get(&format!("/api/v1/cameras/available/?runner_id={name}&reservable=true")).await.body;
        for camera in offered.as_array().into_iter().flatten() {
            let body = json!({"camera_uuid": camera["camera_uuid"], "runner_id": name, "reserve": true});
            let got = plane.post("/api/v1/leases/acquire/", &body).await;
            if ![201, 202].contains(&got.status) {
                continue;
            }
            let id = camera["camera_uuid"].as_str().unwrap().to_owned();
            let is_active = got.body["status"] == "active";
            if is_active {
                witness.begins(&id, &name);
            }
            leases.insert(id, (got.body["lease_id"].as_str().unwrap().to_owned(), is_active));
        }
        for (camera, (lease, is_active)) in leases.clone() {
            let renewed = plane.send(Method::PUT, &format!("/api/v1/leases/{lease}/renew/"), "").await;
            if renewed.status != 200 {
                leases.remove(&camera);
            } else if !is_active && renewed.body["status"] == "active" {
                witness.begins(&camera, &name);
                leases.insert(camera, (lease, true));
            } else if renewed.body["release_requested"] == json!(true) {
                witness.ends(&camera, &name);
                assert_eq!(plane.delete(&format!("/api/v1/leases/{lease}/release/")).await.status, 200);
                leases.remove(&camera);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

struct Stage {
    plane: Arc<Plane>,
    witness: Arc<Witness>,
    runners: BTreeMap<String, JoinHandle<()>>,
}

impl Stage {
    async fn new() -> Self {
        let plane = plane().await;
        let ids: Vec<String> = (0..CAMERAS).map(|number| format!("cam-{number:02}")).collect();
        plane.cameras(&site("tenant-1", "site-1"), &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        Self { plane: Arc::new(plane), witness: Arc::default(), runners: BTreeMap::new() }
    }

    async fn runner(&mut self, name: &str, version: &str, ttl: u64) {
        let mut body = registration(name);
        (body["deployment_version"], body["ttl_seconds"]) = (json!(version), json!(ttl));
        assert_eq!(self.plane.post("/api/v1/runners/register/", &body).await.status, 201);
        let working = work(Arc::clone(&self.plane), Arc::clone(&self.witness), name.to_owned());
        self.runners.insert(name.to_owned(), tokio::spawn(working));
    }

    fn group(&self) -> Group<'_> {
        Group::new(&*self.plane.store, "tenant-1", "production").unwrap()
    }

    /// Which versions have how many cameras, by their leases.
    async fn has(&self, version: &str) -> usize {
        self.group().status().await.unwrap().cameras.get(version).copied().unwrap_or(0)
    }

    async fn status(&self) -> Status {
        self.group().status().await.unwrap()
    }

    /// Waits until a version has all cameras.
    async fn all_with(&self, version: &str) {
        eventually(&format!("{version} has everything"), || async { self.has(version).await == CAMERAS })
            .await;
    }
}

// proves R235, C46, C57
#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_hands_every_camera_over_and_an_abort_halfway_gives_all_back() {
    let mut stage = Stage::new().await;
    // One that does not let go, so that the first promotion is certain to be halfway when it is aborted.
    let mut body = registration("stubborn");
    (body["deployment_version"], body["ttl_seconds"], body["capacity"]) = (json!("v1"), json!(600), json!(1));
    assert_eq!(stage.plane.post("/api/v1/runners/register/", &body).await.status, 201);
    let body = json!({"camera_uuid": "cam-00", "runner_id": "stubborn", "ttl_seconds": 600});
    let kept = stage.plane.post("/api/v1/leases/acquire/", &body).await.body["lease_id"].clone();
    stage.runner("old-1", "v1", 600).await;
    stage.runner("old-2", "v1", 600).await;
    stage.all_with("v1").await;
    let group = |status: Status| status.deployment.unwrap().phase;
    assert!(stage.group().promote().await.is_err(), "nothing was started");
    assert_eq!(group(stage.group().start("v2").await.unwrap()), Phase::Warming);
    assert!(stage.group().promote().await.unwrap_err().to_string().contains("no runner of v2"));
    stage.runner("new-1", "v2", 600).await;
    stage.runner("new-2", "v2", 600).await;
    tokio::time::sleep(LOOK * 10).await;
    assert_eq!(stage.has("v2").await, 0, "it warms up, and gets nothing yet");
    let refused = json!({"camera_uuid": "cam-00", "runner_id": "new-1"});
    assert_eq!(stage.plane.post("/api/v1/leases/acquire/", &refused).await.body["error_code"], "deployment");

    assert_eq!(group(stage.group().promote().await.unwrap()), Phase::Promoting);
    eventually("the first cameras have moved", || async { stage.has("v2").await > 0 }).await;
    stage.group().abort().await.unwrap();
    stage.all_with("v1").await;
    assert_eq!(group(stage.status().await), Phase::Aborted);
    assert_eq!(
        stage.plane.delete(&format!("/api/v1/leases/{}/release/", kept.as_str().unwrap())).await.status,
        200
    );
    assert_eq!(stage.plane.delete("/api/v1/runners/stubborn/").await.status, 204);
    stage.all_with("v1").await;
    stage.group().start("v2").await.unwrap();
    stage.group().promote().await.unwrap();
    stage.all_with("v2").await;
    eventually("it is done", || async { stage.status().await.deployment.unwrap().phase == Phase::Promoted })
        .await;
    stage.runners.values().for_each(JoinHandle::abort);
    let gap = stage.witness.judge();
    println!("nobody had a camera for {gap:?} at most");
    // A second on a quiet machine; a crowded one may take its time.
    assert!(gap < Duration::from_secs(20), "{gap:?}");
}

// proves R235
#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_back_by_itself_when_a_new_runner_fails() {
    let mut stage = Stage::new().await;
    stage.runner("old", "v1", 600).await;
    stage.all_with("v1").await;
    // From here on the old version does not let go by itself, so that nothing is done before the new one fails.
    stage.runners.remove("old").unwrap().abort();
    stage.group().start("v2").await.unwrap();
    stage.runner("new", "v2", 600).await;
    let mut body = registration("dead");
    (body["deployment_version"], body["ttl_seconds"]) = (json!("v2"), json!(3));
    assert_eq!(stage.plane.post("/api/v1/runners/register/", &body).await.status, 201);
    let promoted = stage.group().promote().await.unwrap().deployment.unwrap();
    let named: Vec<String> = promoted.runners.iter().map(ToString::to_string).collect();
    assert_eq!((promoted.phase, named), (Phase::Promoting, vec!["dead".to_owned(), "new".to_owned()]));
    eventually("the new one waits for cameras", || async { !pending(&stage.plane).await.is_empty() }).await;

    eventually("it goes back", || async { stage.status().await.deployment.unwrap().phase == Phase::Aborted })
        .await;
    assert!(stage.status().await.deployment.unwrap().reason.unwrap().contains("dead"));
    stage.runners.values().for_each(JoinHandle::abort);
    assert_eq!((stage.has("v1").await, stage.has("v2").await), (CAMERAS, 0));
    // What was reserved runs out, and nobody is asked to hand over any more.
    eventually("nothing is reserved", || async { pending(&stage.plane).await.is_empty() }).await;
    assert!(stage.group().abort().await.is_err() && stage.group().start("v3").await.is_ok());
}

/// What is reserved for the new runner.
async fn pending(plane: &Plane) -> Vec<Value> {
    let mut leases = plane.get("/api/v1/leases/runner/new/").await.body.as_array().unwrap().clone();
    leases.retain(|lease| lease["status"] == "pending");
    leases
}
