//! `leasehold fence mqtt` between a real broker and a real control plane.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_testkit::{Dir, Faults, Mosquitto, MosquittoSetup, Process, Proxy, free_port, wait_for};
use nix::sys::signal::Signal;
use rumqttc::{AsyncClient, Broker, Event, Incoming, MqttOptions, PublishOptions, QoS};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::plane::{Plane, metric, refused};
use super::support::leasehold;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `leasehold fence mqtt` in a process of its own.
pub(crate) struct Fence {
    pub(crate) process: Process,
    pub(crate) health: u16,
    _dir: Dir,
}

impl Fence {
    pub(crate) fn start(plane: &Plane, broker: &str, more: &[&str]) -> Self {
        let (dir, health) = (Dir::new(), free_port());
        let mut command = leasehold();
        command.args(["fence", "mqtt", "--store", &plane.url()]).env("LEASEHOLD_FENCE_BROKER", broker);
        command.args(["--health", &format!("127.0.0.1:{health}"), "--log", "info,leasehold_server=debug"]);
        let process = Process::start(command.args(more), &dir.join("log"));
        let fence = Self { process, health, _dir: dir };
        wait_for("the fence is ready", || fence.is_ready());
        fence
    }

    pub(crate) fn is_ready(&self) -> bool {
        super::plane::ask(self.health, "GET", "/readyz", "", "").is_some_and(|(status, _)| status == 200)
    }

    fn delivered(&self) -> u64 {
        metric(self.health, "leasehold_fence_delivered_total{}")
    }
}

/// A client of the broker, which goes on after every break.
pub(crate) struct Client {
    client: AsyncClient,
    received: mpsc::UnboundedReceiver<(String, Vec<u8>)>,
}

impl Client {
    /// Listens to a topic in a session that the broker keeps.
    pub(crate) async fn listening(port: u16, id: &str, filter: &str) -> Self {
        let mut options = MqttOptions::new(id, Broker::tcp("127.0.0.1", port));
        options.set_clean_session(false).set_max_packet_size(8 << 20, 8 << 20).set_keep_alive(5);
        let (client, mut events) = AsyncClient::builder(options).capacity(64).build();
        let (tell, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                match events.poll().await {
                    Ok(Event::Incoming(Incoming::Publish(publish))) => {
                        let topic = String::from_utf8(publish.topic.to_vec()).unwrap();
                        if tell.send((topic, publish.payload.to_vec())).is_err() {
                            return;
                        }
                    }
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        let client = Self { client, received };
        let notice = client.client.subscribe_tracked(filter, QoS::AtLeastOnce).await.unwrap();
        timeout(PATIENCE, notice.wait_completion_async()).await.unwrap().unwrap();
        client
    }

    /// Publishes, and waits until the broker has it.
    pub(crate) async fn publish(&self, topic: &str, payload: impl Into<Vec<u8>>) {
        let sent = self.client.publish_tracked(topic, payload.into(), PublishOptions::new(QoS::AtLeastOnce));
        timeout(PATIENCE, sent.await.unwrap().wait_completion_async()).await.unwrap().unwrap();
    }

    /// Publishes a tracker's message.
    async fn say(&self, scene: &str, token: u64, number: u64) {
        let topic = format!("scenescape/data/scene/{scene}/person");
        self.publish(&topic, message(scene, token, number)).await;
    }

    async fn next(&mut self) -> (String, Vec<u8>) {
        timeout(PATIENCE, self.received.recv()).await.expect("a message in time").expect("a connection")
    }

    /// The numbers of the messages that came, as far as the one with this number.
    async fn until(&mut self, number: u64) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        while found.last().is_none_or(|(_, last)| *last != number) {
            let (_, payload) = self.next().await;
            let said: serde_json::Value = serde_json::from_slice(&payload).unwrap();
            found.push((said["_version"].as_u64().unwrap(), said["timestamp"].as_u64().unwrap()));
        }
        found
    }
}

fn message(scene: &str, token: u64, number: u64) -> String {
    format!(
        r#"{{"id": "{scene}", "name": "Hall", "timestamp": {number}, "objects": [], "scene_id": "{scene}", "_version": {token}}}"#
    )
}

const BEHIND: &str = "scenescape/regulated/scene/+";

// proves R038, R040, R042, C08, U02
#[tokio::test(flavor = "multi_thread")]
async fn what_the_current_holder_sends_passes_in_both_shapes_and_what_is_stale_does_not() {
    let (plane, broker) = (Plane::with(&["s1", "s2"]), Mosquitto::start());
    let fence = Fence::start(&plane, &broker.url(), &[]);
    let mut client = Client::listening(broker.port(), "client", BEHIND).await;
    let old = plane.acquire("s1", "one");
    client.say("s1", old, 1).await;
    let (topic, payload) = client.next().await;
    assert_eq!(
        (topic.as_str(), payload),
        ("scenescape/regulated/scene/s1", message("s1", old, 1).into_bytes())
    );
    let envelope = format!(r#"{{"scene_id": "s1", "data": {{"objects": []}}, "_version": {old}}}"#);
    client.publish("scenescape/data/scene/s1/car", envelope.clone()).await;
    assert_eq!(client.next().await.1, envelope.into_bytes());

    let new = plane.hand_over("s1", "one", "two");
    client.say("s1", new, 2).await;
    client.say("s1", old, 3).await;
    client.say("s1", new + 1, 4).await;
    client.say("s2", 1, 5).await;
    client.say("s1", new, 6).await;
    assert_eq!(client.until(6).await, [(new, 2), (new, 6)]);
    wait_for("all are counted", || fence.delivered() == 4);
    assert_eq!((refused(fence.health, "stale"), refused(fence.health, "future_token")), (1, 2));
}

// What nobody should send is refused or survived, counted, and never a crash.
#[tokio::test(flavor = "multi_thread")]
async fn bad_messages_are_refused_and_counted_and_the_good_ones_behind_them_pass() {
    let (plane, broker) = (Plane::with(&["s1"]), Mosquitto::start());
    let fence = Fence::start(&plane, &broker.url(), &["--max-payload", "524288"]);
    let mut client = Client::listening(broker.port(), "client", BEHIND).await;
    let token = plane.acquire("s1", "one");
    let topic = "scenescape/data/scene/s1/person";
    let deep = "[".repeat(200_000);
    for unreadable in ["", "not JSON", "[1]", "\u{0}\u{1}", r#"{"_version": 1, "_version": 1}"#, &deep] {
        client.publish(topic, unreadable).await;
    }
    client.publish(topic, b"\xff\xfe\x00".to_vec()).await;
    for malformed in
        [r#""1""#, "1.0", "-1", "0", "9007199254740992", "1e400", "18446744073709551617", "true", "{}"]
    {
        client.publish(topic, format!(r#"{{"_version": {malformed}}}"#)).await;
    }
    client.publish(topic, r#"{"_version": null}"#).await;
    client.publish(topic, "{}").await;
    client.publish(topic, format!(r#"{{"_version": {token}, "scene_id": "s2"}}"#)).await;
    let large = format!(r#"{{"x": "{}", "_version": {token}}}"#, "x".repeat(1 << 20));
    client.publish(topic, large).await;
    for elsewhere in ["scenescape/data/scene/a b/person", "scenescape/data/scene//person"] {
        client.publish(elsewhere, message("s1", token, 0)).await;
    }
    let ours = format!(r#"{{"x": "{}", "timestamp": 1, "_version": {token}}}"#, "x".repeat(400_000));
    client.publish(topic, ours).await;
    client.say("s1", token, 2).await;
    assert_eq!(client.until(2).await, [(token, 1), (token, 2)]);
    let count = |reason| refused(fence.health, reason);
    wait_for("all are counted", || fence.delivered() == 2);
    assert_eq!(
        (count("unversioned"), count("other_resource"), count("too_large"), count("no_resource")),
        (2, 1, 1, 2)
    );
    // A number that no machine can hold may be either.
    assert_eq!(count("unreadable") + count("malformed"), 7 + 9);
    assert!(
        count("malformed") >= 7 && count("unreadable") >= 7,
        "{} {}",
        count("malformed"),
        count("unreadable")
    );
}

// Connections break in the middle, and the broker is killed: QoS 1 is kept.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_connections_break_or_the_broker_restarts() {
    let (plane, mut broker) = (Plane::with(&["s1"]), Mosquitto::start());
    let way = Proxy::to(broker.port());
    let fence = Fence::start(&plane, &format!("mqtt://127.0.0.1:{}", way.port()), &[]);
    let mut client = Client::listening(broker.port(), "client", BEHIND).await;
    let token = plane.acquire("s1", "one");
    for number in 1..=600 {
        client.say("s1", token, number).await;
        if number % 150 == 0 {
            way.set(Faults { refuse: true, ..Faults::default() });
            way.heal();
        }
        if number == 300 {
            // What it has acknowledged it has written down; it comes back with all of it.
            tokio::time::sleep(Duration::from_millis(1200)).await;
            broker.stop();
            broker.restart();
        }
    }
    let mut left: BTreeSet<u64> = (1..=600).collect();
    while !left.is_empty() {
        let (_, payload) = client.next().await;
        let said: serde_json::Value = serde_json::from_slice(&payload).unwrap();
        left.remove(&said["timestamp"].as_u64().unwrap());
    }
    assert!(metric(fence.health, "leasehold_fence_connections_total{}") > 1, "nothing broke");
    drop(fence);
}

// What is sent while the fence is away waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_fence_that_is_killed_goes_on_where_it_was() {
    let (plane, broker) = (Plane::with(&["s1"]), Mosquitto::start());
    let mut client = Client::listening(broker.port(), "client", BEHIND).await;
    let mut fence = Fence::start(&plane, &broker.url(), &[]);
    let old = plane.acquire("s1", "one");
    client.say("s1", old, 1).await;
    client.until(1).await;
    // Killed before that, it would get the first once more.
    wait_for("the broker's confirmation has come", || fence.delivered() == 1);
    fence.process.end(Signal::SIGKILL);
    client.say("s1", old, 2).await;
    let new = plane.hand_over("s1", "one", "two");
    client.say("s1", new, 3).await;
    client.say("s1", old, 4).await;
    client.say("s1", new, 5).await;
    let fence = Fence::start(&plane, &broker.url(), &[]);
    let found = client.until(5).await;
    assert_eq!(found, [(new, 3), (new, 5)], "what became stale meanwhile is refused");
    assert_eq!(refused(fence.health, "stale"), 2);
}

// The control plane is away for longer than what it said counts; other resources and the broker are none the worse.
#[tokio::test(flavor = "multi_thread")]
async fn a_fence_closes_without_the_control_plane_and_opens_again() {
    let (mut plane, broker) = (Plane::with(&["s1"]), Mosquitto::start());
    let fence = Fence::start(&plane, &broker.url(), &["--lifetime", "1s"]);
    let mut client = Client::listening(broker.port(), "client", BEHIND).await;
    let token = plane.acquire("s1", "one");
    client.say("s1", token, 1).await;
    client.until(1).await;
    plane.kill();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    client.say("s1", token, 2).await;
    wait_for("it is refused", || refused(fence.health, "unconfirmed") == 1);
    assert!(!fence.is_ready());
    plane.start();
    wait_for("the fence is ready again", || fence.is_ready());
    client.say("s1", token, 3).await;
    assert_eq!(client.until(3).await, [(token, 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_with_tls_and_a_password_is_spoken_to() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let user = ("fence".to_owned(), "hush-hush".to_owned());
    let setup = MosquittoSetup {
        user: Some(user),
        tls: Some((certificate.clone(), key)),
        ..MosquittoSetup::default()
    };
    let (plane, broker) = (Plane::with(&["s1"]), Mosquitto::start_with(setup));
    let ca = plane.dir().join("ca.pem");
    std::fs::write(&ca, certificate).unwrap();
    let fence = Fence::start(&plane, &format!("{}#ca={}", broker.url(), ca.display()), &[]);
    assert!(!fence.process.log().contains("hush"), "a password is in the log");
}
