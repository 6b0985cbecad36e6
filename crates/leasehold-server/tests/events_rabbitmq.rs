//! Events at a real RabbitMQ server.

mod told;

use std::sync::Arc;
use std::time::Duration;

use lapin::options::{BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use leasehold::store::Store;
use leasehold_server::events::Relays;
use leasehold_server::events::rabbitmq::RabbitMqSink;
use leasehold_server::events::settings::{EventsSettings, SinkSettings};
use leasehold_server::events::sink::EventSink;
use leasehold_testkit::{RabbitMq, RabbitMqSetup};
use serde_json::Value;
use told::{Log, add_tenant, all_here, all_settled, certificate, events, eventually, hand_over, judge, open};

const POOLS: [&str; 2] = ["scenes", "acme.scenes"];

/// How many times a tenth of a second everything may take to arrive on a busy machine.
const PATIENCE: usize = 900;

/// A consumer with a queue for everything and one for what the tenant acme acquires.
struct Consumer {
    url: String,
    arrived: Vec<(String, Value)>,
}

impl Consumer {
    async fn channel(&self) -> lapin::Result<(Connection, Channel)> {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }

    async fn bind(&self) {
        let (_connection, channel) = self.channel().await.unwrap();
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let (exchange, table) = ("status.topic", FieldTable::default());
        channel.exchange_declare(exchange.into(), ExchangeKind::Topic, durable, table.clone()).await.unwrap();
        for (queue, key) in [("all", "lease.#"), ("acme", "lease.acquired.acme.#")] {
            channel.queue_declare(queue.into(), QueueDeclareOptions::durable(), table.clone()).await.unwrap();
            let options = QueueBindOptions::default();
            channel
                .queue_bind(queue.into(), exchange.into(), key.into(), options, table.clone())
                .await
                .unwrap();
        }
    }

    async fn take(&self, queue: &str) -> lapin::Result<Vec<(String, Value)>> {
        let (_connection, channel) = self.channel().await?;
        let mut taken = Vec::new();
        while let Some(message) = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await? {
            let event: Value = serde_json::from_slice(&message.data).unwrap();
            assert_eq!(message.properties.delivery_mode(), &Some(2), "persistent");
            assert_eq!(
                message.properties.message_id().as_ref().unwrap().as_str(),
                event["id"].as_str().unwrap()
            );
            taken.push((message.routing_key.to_string(), event));
        }
        Ok(taken)
    }

    /// Takes what there is; a server that is away has nothing.
    async fn listen(&mut self) -> Vec<Value> {
        self.arrived.extend(self.take("all").await.unwrap_or_default());
        self.arrived.iter().map(|(_, event)| event.clone()).collect()
    }
}

impl Consumer {
    async fn hears_all(&mut self, store: &dyn Store) {
        for _ in 0..PATIENCE {
            if all_here(store, &POOLS, &self.listen().await).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not every event has arrived");
    }
}

fn settings(url: &str) -> EventsSettings {
    EventsSettings { sinks: vec![SinkSettings::parse(url).unwrap()], ..EventsSettings::default() }
}

// proves R154, R228, U18
#[tokio::test(flavor = "multi_thread")]
async fn every_event_arrives_though_the_broker_was_killed_and_the_relay_replaced() {
    let mut broker = RabbitMq::start();
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    add_tenant(&*store, "acme").await;
    let mut consumer = Consumer { url: broker.url(), arrived: Vec::new() };
    consumer.bind().await;
    let relays = Relays::start(Arc::clone(&store), &settings(&broker.url())).await.unwrap();

    for pool in POOLS {
        hand_over(&store, pool).await;
    }
    consumer.hears_all(&*store).await;
    let keys: Vec<&str> = consumer.arrived.iter().map(|(key, _)| key.as_str()).collect();
    for key in
        ["lease.acquired.-.scenes.lobby", "lease.released.acme.scenes.dock_1", "lease.joined.acme.scenes.-"]
    {
        assert!(keys.contains(&key), "{key} in {keys:?}");
    }
    let of_acme = consumer.take("acme").await.unwrap();
    assert_eq!(of_acme.len(), told::RESOURCES.len());
    assert!(of_acme.iter().all(|(_, event)| event["tenant"] == "acme" && event["event"] == "acquired"));

    // Leases change hands while the broker is killed, is away and returns.
    let hands = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for _ in 0..4 {
                hand_over(&store, "scenes").await;
                hand_over(&store, "acme.scenes").await;
            }
        }
    });
    let before = events(&*store, "scenes").await.len();
    eventually("the leases change hands", || async { events(&*store, "scenes").await.len() > before + 3 })
        .await;
    consumer.listen().await;
    broker.kill();
    let hands_without = events(&*store, "scenes").await.len();
    eventually("they go on while the broker is away", || async {
        events(&*store, "scenes").await.len() > hands_without
    })
    .await;
    broker.restart();
    hands.await.unwrap();
    consumer.hears_all(&*store).await;
    judge(&*store, &POOLS, &consumer.listen().await).await;

    // Another relay, with another handle on the store, goes on where the first was.
    eventually("what was sent is written down", || all_settled(&*store)).await;
    relays.stop().await;
    let heard = consumer.listen().await.len();
    hand_over(&store, "scenes").await;
    let again = open(directory.path()).await;
    let relays = Relays::start(again, &settings(&broker.url())).await.unwrap();
    consumer.hears_all(&*store).await;
    let arrived = consumer.listen().await;
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
async fn over_tls_with_a_certificate_of_ones_own_and_without_telling_the_password() {
    let (certificate, key) = certificate();
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, &certificate).unwrap();
    let broker = RabbitMq::start_with(RabbitMqSetup { tls: Some((certificate, key)) });
    let store = open(directory.path()).await;
    hand_over(&store, "scenes").await;
    let events = events(&*store, "scenes").await;
    let sink = |url: &str| RabbitMqSink::new(&SinkSettings::parse(url).unwrap()).unwrap();
    let with_ca = |url: &str| sink(&format!("{url}#ca={}", ca.display()));

    let (log, _guard) = Log::catch();
    sink(&broker.url()).publish(&events).await.expect_err("a certificate that nobody vouches for");
    let wrong = broker.url().replace("guest:guest", "guest:hush-hush");
    let error = with_ca(&wrong).publish(&events).await.expect_err("a wrong password");
    assert!(!format!("{error} {error:?} {}", log.text()).contains("hush-hush"), "{error}");
    with_ca(&broker.url()).publish(&events).await.unwrap();
}
