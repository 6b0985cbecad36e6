//! The client against a real control plane.

use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::store::{self, Store, StoreUrl};
use leasehold_client::{
    ClientError, ControlPlaneClient, LeaseManager, LeaseStatus, Renewal, RunnerConfig, RunnerReport,
    RunnerStatus,
};
use leasehold_server::{Running, Settings};
use serde_json::{Map, json};
use tokio::sync::mpsc;

async fn plane(store: &Arc<dyn Store>, at: &str) -> Running {
    leasehold_server::start(Settings::at(at.parse().unwrap()), Arc::clone(store)).await.unwrap()
}

async fn store(directory: &tempfile::TempDir) -> Arc<dyn Store> {
    store::open(&StoreUrl::Sqlite(directory.path().join("work.db"))).await.unwrap()
}

/// A camera, by the control plane's own API.
async fn camera(base: &str, id: &str) {
    let http = reqwest::Client::new();
    let body = json!({"camera_uuid": id, "rtsp_url": format!("rtsp://u:hush@{id}.local/"), "zones": []});
    let url = format!("{base}/api/v1/tenants/tenant-1/sites/site-1/cameras/");
    assert_eq!(http.post(url).body(body.to_string()).send().await.unwrap().status().as_u16(), 201);
}

// proves R144 to R151, R181, C49
#[tokio::test(flavor = "multi_thread")]
async fn a_runner_goes_through_all_that_it_can_ask() {
    let directory = tempfile::tempdir().unwrap();
    let plane = plane(&store(&directory).await, "127.0.0.1:0").await;
    let base = format!("http://{}", plane.address());
    let client = ControlPlaneClient::new(&base, None).unwrap();
    camera(&base, "cam-1").await;
    camera(&base, "cam-2").await;
    let runner = RunnerConfig::new("one", "tenant-1", "site-1");
    let info = client.register_runner(&runner).await.unwrap();
    assert_eq!((info.status, info.assigned_cameras.len()), (RunnerStatus::Active, 0));
    assert_eq!(
        client.register_runner(&runner).await.unwrap().incarnation,
        info.incarnation,
        "it can be repeated"
    );
    let config = client.get_camera_config("cam-1").await.unwrap();
    assert!(config.rtsp_url.contains("hush") && !format!("{config:?}").contains("hush"));
    assert!(client.get_zone_configs("tenant-1", "site-1").await.unwrap().is_empty());
    assert_eq!(client.available_cameras("one").await.unwrap().len(), 2);

    let leases = Arc::new(LeaseManager::new(client.clone()));
    let (told, mut events) = mpsc::unbounded_channel();
    let watching = tokio::spawn({
        let leases = Arc::clone(&leases);
        async move { leases.watch_lease_events("tenant-1", move |event| drop(told.send(event))).await }
    });
    leases.update_ttl(30);
    let before = clock::now();
    let lease = leases.acquire_lease("cam-1", "one", "shard-1").await.unwrap().expect("it is free");
    assert_eq!((lease.status, lease.ttl_seconds), (LeaseStatus::Active, 30));
    let trusted = lease.trusted_until.expect("it is trusted");
    assert!(
        trusted >= before.after(Duration::from_secs(27))
            && trusted <= clock::now().after(Duration::from_secs(27))
    );
    client.notify_camera_assigned(&lease).await.unwrap();
    let other = RunnerConfig::new("two", "tenant-1", "site-1");
    client.register_runner(&other).await.unwrap();
    assert_eq!(leases.acquire_lease("cam-1", "two", "shard-1").await.unwrap(), None, "another has it");
    assert!(matches!(leases.renew_lease(&lease.lease_id).await, Renewal::Renewed(_)));
    let stats = Map::from_iter([("fps".to_owned(), json!(25))]);
    assert!(leases.heartbeat(&lease.lease_id, &stats).await.unwrap());
    assert!(leases.validate_lease(&lease.lease_id).await.unwrap());
    let active = leases.get_active_leases("one").await.unwrap();
    assert_eq!((active.len(), &active[0].processing_stats), (1, &stats));
    let report = RunnerReport { status: Some(RunnerStatus::Draining), ..RunnerReport::default() };
    assert_eq!(client.report_runner_status("one", &report).await.unwrap().status, RunnerStatus::Draining);
    assert!(leases.release_lease(&lease.lease_id).await.unwrap());
    client.notify_camera_released(&lease).await.unwrap();
    assert!(!leases.validate_lease(&lease.lease_id).await.unwrap());
    assert!(!leases.heartbeat(&lease.lease_id, &stats).await.unwrap());
    assert!(matches!(leases.renew_lease(&lease.lease_id).await, Renewal::Lost { .. }));
    for expected in ["lease_acquired", "lease_renewed", "lease_released"] {
        let event =
            tokio::time::timeout(Duration::from_secs(60), events.recv()).await.expect("it is told").unwrap();
        assert_eq!((event.event_type.as_str(), &event.lease_id), (expected, &lease.lease_id));
    }
    watching.abort();
    let refused = client.get_camera_config("nothing").await.unwrap_err();
    assert_eq!(refused.status(), Some(404));
    plane.stop().await;
}

// proves C45, C49, R226
#[tokio::test(flavor = "multi_thread")]
async fn while_nobody_answers_a_renewal_is_unknown_and_the_trust_stays_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let first = plane(&store, "127.0.0.1:0").await;
    let address = first.address().to_string();
    let base = format!("http://{address}");
    let client = ControlPlaneClient::new(&base, None).unwrap().patience(Duration::from_secs(1));
    camera(&base, "cam-1").await;
    client.register_runner(&RunnerConfig::new("one", "tenant-1", "*")).await.unwrap();
    let leases = LeaseManager::new(client);
    let lease = leases.acquire_lease("cam-1", "one", "s").await.unwrap().unwrap();
    first.stop().await;
    assert!(matches!(leases.renew_lease(&lease.lease_id).await, Renewal::Unknown(ClientError::Unknown(_))));
    let again = plane(&store, &address).await;
    let renewed = leases.renew_lease(&lease.lease_id).await;
    assert!(
        matches!(&renewed, Renewal::Renewed(again) if again.trusted_until > lease.trusted_until),
        "{renewed:?}"
    );
    again.stop().await;
    assert!(ControlPlaneClient::new("camera", None).is_err());
    assert!(ControlPlaneClient::new("ftp://host", None).is_err());
}
