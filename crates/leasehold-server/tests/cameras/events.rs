//! What happens to leases of cameras, as others are told it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties, ExchangeKind};
use leasehold::store::{self, Store};
use leasehold_server::Settings;
use leasehold_server::events::settings::{EventsSettings, SinkSettings};
use leasehold_testkit::RabbitMq;
use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::{plane, registration, simple, site};
use crate::support::{File, Plane, eventually};

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

struct Consumer {
    url: String,
    arrived: Vec<(String, Value)>,
}

impl Consumer {
    async fn bind(&self) {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let (exchange, table) = ("status.topic", FieldTable::default());
        channel.exchange_declare(exchange.into(), ExchangeKind::Topic, durable, table.clone()).await.unwrap();
        channel.queue_declare("all".into(), QueueDeclareOptions::durable(), table.clone()).await.unwrap();
        let options = QueueBindOptions::default();
        channel
            .queue_bind("all".into(), exchange.into(), "lease.*.tenant-1.*.*".into(), options, table)
            .await
            .unwrap();
    }

    /// Takes what there is; a server that is away has nothing.
    async fn listen(&mut self) {
        let taken = async {
            let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let mut taken = Vec::new();
            while let Some(message) =
                channel.basic_get("all".into(), BasicGetOptions { no_ack: true }).await?
            {
                taken.push((message.routing_key.to_string(), serde_json::from_slice(&message.data).unwrap()));
            }
            lapin::Result::Ok(taken)
        };
        self.arrived.extend(taken.await.unwrap_or_default());
    }

    fn ids(&self) -> BTreeSet<String> {
        self.arrived.iter().map(|(_, event)| event["id"].as_str().unwrap().to_owned()).collect()
    }
}

async fn relaying(store: &Arc<dyn Store>, broker: &str) -> Plane {
    let mut settings = Settings::at("127.0.0.1:0".parse().unwrap());
    settings.events =
        EventsSettings { sinks: vec![SinkSettings::parse(broker).unwrap()], ..EventsSettings::default() };
    Plane::with(settings, Arc::clone(store)).await
}

/// Takes every camera and lets it go again, for as long as somebody answers.
async fn churn(plane: &Plane, rounds: usize) {
    for _ in 0..rounds {
        for number in 0..5 {
            let camera = format!("cam-{number}");
            let lease = acquire(plane, &camera, "one", 60).await;
            assert_eq!(plane.delete(&path(&lease, "release")).await.status, 200);
        }
    }
}

// proves R154, R227, R228, U18, C46
#[tokio::test(flavor = "multi_thread")]
async fn every_event_reaches_rabbitmq_though_it_was_away_and_the_control_plane_was_replaced() {
    let mut broker = RabbitMq::start();
    let file = File::new();
    let store = store::open(&file.url()).await.unwrap();
    let mut consumer = Consumer { url: broker.url(), arrived: Vec::new() };
    consumer.bind().await;
    let plane = relaying(&store, &broker.url()).await;
    plane.cameras(&site("tenant-1", "site-1"), &["cam-0", "cam-1", "cam-2", "cam-3", "cam-4"]).await;
    plane.post("/api/v1/runners/register/", &registration("one")).await;
    churn(&plane, 2).await;
    broker.kill();
    churn(&plane, 4).await;
    // Gone without a word, as when it is killed.
    drop(plane);
    let plane = relaying(&store, &broker.url()).await;
    churn(&plane, 4).await;
    broker.restart();
    churn(&plane, 2).await;

    let committed = async || -> Vec<Value> { audited(&plane, "").await };
    for _ in 0..900 {
        consumer.listen().await;
        let ids = consumer.ids();
        let here = committed().await;
        if here.len() >= 2 * 5 * 12
            && here.iter().all(|event| ids.contains(event["event_id"].as_str().unwrap()))
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let events = committed().await;
    let by_id: BTreeMap<&str, &Value> =
        events.iter().map(|event| (event["event_id"].as_str().unwrap(), event)).collect();
    assert_eq!(consumer.ids().len(), by_id.len(), "every event has arrived, and none that did not commit");
    let (mut seen, mut last) = (BTreeSet::new(), BTreeMap::new());
    for (key, event) in &consumer.arrived {
        let (id, camera) = (event["id"].as_str().unwrap(), event["camera_uuid"].as_str().unwrap());
        let known = by_id.get(id).unwrap_or_else(|| panic!("{event} did not commit"));
        assert_eq!((&known["event_type"], &known["lease_id"]), (&event["event_type"], &event["lease_id"]));
        let word = event["event_type"].as_str().unwrap().trim_start_matches("lease_");
        assert_eq!(*key, format!("lease.{word}.tenant-1.site-1.{camera}"));
        if seen.insert(id) {
            let row = event["row"].as_u64().unwrap();
            assert!(last.insert(camera, row).unwrap_or(0) < row, "{id} came late");
        }
    }
}
