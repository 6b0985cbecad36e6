//! Events at a real MQTT broker, heard by its own client.

mod told;

use std::process::Command;
use std::sync::Arc;

use leasehold_server::events::Relays;
use leasehold_server::events::mqtt::MqttSink;
use leasehold_server::events::settings::{EventsSettings, SinkSettings};
use leasehold_server::events::sink::EventSink;
use leasehold_testkit::{Dir, Mosquitto, MosquittoSetup, Process};
use serde_json::Value;
use told::{Log, add_tenant, all_here, all_settled, certificate, events, eventually, hand_over, judge, open};

const POOLS: [&str; 2] = ["scenes", "acme.scenes"];

/// A subscriber with a session that the broker keeps while it is away.
struct Subscriber {
    process: Process,
    _directory: Dir,
}

impl Subscriber {
    fn start(broker: &Mosquitto, topic: &str) -> Self {
        let directory = Dir::new();
        // By lines: it would keep what it has to say until there is more of it.
        let mut command = Command::new("stdbuf");
        command.args([
            "-oL",
            "mosquitto_sub",
            "-h",
            "127.0.0.1",
            "-p",
            &broker.port().to_string(),
            "-i",
            "judge",
            "-c",
            "-q",
            "1",
        ]);
        command.args(["-t", topic, "-F", "%t %p", "-d"]);
        let process = Process::start(&mut command, &directory.join("heard"));
        leasehold_testkit::wait_for("the client has subscribed", || process.log().contains("SUBACK"));
        Self { process, _directory: directory }
    }

    /// Topics and events.
    fn heard(&self) -> Vec<(String, Value)> {
        let log = self.process.log();
        // What has no end yet is not all there.
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let events = whole.lines().filter_map(|line| {
            let (topic, event) = line.split_once(' ').filter(|(topic, _)| topic.starts_with("lh/"))?;
            Some((topic.to_owned(), serde_json::from_str(event).ok()?))
        });
        events.collect()
    }

    fn events(&self) -> Vec<Value> {
        self.heard().into_iter().map(|(_, event)| event).collect()
    }
}

// proves R154, U18
#[tokio::test(flavor = "multi_thread")]
async fn every_event_arrives_though_the_broker_was_away_and_the_relay_replaced() {
    let mut broker = Mosquitto::start();
    let subscriber = Subscriber::start(&broker, "lh/#");
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    add_tenant(&*store, "acme").await;
    let sink = SinkSettings::parse(&format!("{}#prefix=lh/events", broker.url())).unwrap();
    let settings = EventsSettings { sinks: vec![sink], ..EventsSettings::default() };
    let relays = Relays::start(Arc::clone(&store), &settings).await.unwrap();

    hand_over(&store, "scenes").await;
    hand_over(&store, "acme.scenes").await;
    let here = || async { all_here(&*store, &POOLS, &subscriber.events()).await };
    eventually("events arrive", here).await;
    let topics: Vec<String> = subscriber.heard().into_iter().map(|(topic, _)| topic).collect();
    for topic in [
        "lh/events/scenes/gate_2/acquired",
        "lh/events/acme.scenes/dock.1/released",
        "lh/events/scenes/-/joined",
    ] {
        assert!(topics.iter().any(|found| found == topic), "{topic} in {topics:?}");
    }

    // It writes down what its subscribers have not got yet, as a broker that is to lose nothing must.
    broker.stop();
    hand_over(&store, "scenes").await;
    hand_over(&store, "acme.scenes").await;
    broker.restart();
    hand_over(&store, "scenes").await;
    eventually("events arrive after the broker returned", here).await;
    judge(&*store, &POOLS, &subscriber.events()).await;

    eventually("what was sent is written down", || all_settled(&*store)).await;
    relays.stop().await;
    let heard = subscriber.events().len();
    hand_over(&store, "scenes").await;
    let relays = Relays::start(open(directory.path()).await, &settings).await.unwrap();
    eventually("events arrive by another relay", here).await;
    let arrived = subscriber.events();
    judge(&*store, &POOLS, &arrived).await;
    let old: Vec<&Value> = arrived[..heard].iter().map(|event| &event["id"]).collect();
    assert!(
        arrived[heard..].iter().all(|event| !old.contains(&&event["id"])),
        "nothing is repeated without need"
    );
    relays.stop().await;
}

// proves U18, U22
#[tokio::test]
async fn over_tls_with_a_password_that_is_not_told() {
    let (certificate, key) = certificate();
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, &certificate).unwrap();
    let user = Some(("relay".to_owned(), "hush-hush".to_owned()));
    let broker = Mosquitto::start_with(MosquittoSetup {
        user,
        tls: Some((certificate, key)),
        ..MosquittoSetup::default()
    });
    let store = open(directory.path()).await;
    hand_over(&store, "scenes").await;
    let events = events(&*store, "scenes").await;
    let sink = |url: &str| MqttSink::new(&SinkSettings::parse(url).unwrap()).unwrap();
    let with_ca = |url: &str| sink(&format!("{url}#ca={}", ca.display()));

    let (log, _guard) = Log::catch();
    sink(&broker.url()).publish(&events).await.expect_err("a certificate that nobody vouches for");
    let wrong = broker.url().replace("hush-hush", "hush-wrong");
    let error = with_ca(&wrong).publish(&events).await.expect_err("a wrong password");
    with_ca(&broker.url()).publish(&events).await.unwrap();
    assert!(!format!("{error} {error:?} {}", log.text()).contains("hush-"), "{error}");
}
