//! The second witness of C45: lease events over RabbitMQ, which say that somebody has a camera under a higher token, and hint
//! that there may be something to take.
//!
//! The queue is this runner's own and outlives its connection, so that what was told while it was away is not missed.

use std::time::Duration;

use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties, Consumer, ExchangeKind};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::keeper::News;
use super::settings::{Events, Settings};

/// How long connecting may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon a connection is tried again, at first and at most.
const AGAIN_MIN: Duration = Duration::from_millis(500);
const AGAIN_MAX: Duration = Duration::from_secs(10);
/// A server that is silent for twice this long is gone.
const HEARTBEAT_SECONDS: u16 = 5;
/// How long the queue of a runner that is away is kept, and how many events in it.
const KEPT_MS: i32 = 15 * 60 * 1000;
const EVENTS_MAX: i32 = 100_000;

/// Listens until nobody wants to know any more.
pub(super) async fn listen(settings: Settings, events: Events, news: mpsc::Sender<News>) {
    // It was looked at with the rest of the configuration.
    let Ok(mut uri) = events.url.0.parse::<AMQPUri>() else { return };
    uri.query.heartbeat = Some(HEARTBEAT_SECONDS);
    let mut again = AGAIN_MIN;
    loop {
        match timeout(PATIENCE, connect(&settings, &events, &uri)).await {
            Ok(Ok((connection, consumer))) => {
                again = AGAIN_MIN;
                tracing::info!("lease events are heard");
                let told = news.send(News::Witness(true)).await.is_ok();
                if told && !follow(consumer, &news).await {
                    return;
                }
                drop(connection);
            }
            // What the library says may name the server, and never a password.
            Ok(Err(error)) => tracing::warn!(%error, "lease events cannot be heard; trying again"),
            Err(_) => tracing::warn!("lease events cannot be heard: no answer in time; trying again"),
        }
        if news.send(News::Witness(false)).await.is_err() {
            return;
        }
        tokio::time::sleep(again).await;
        again = (again * 2).min(AGAIN_MAX);
    }
}

async fn connect(
    settings: &Settings,
    events: &Events,
    uri: &AMQPUri,
) -> lapin::Result<(Connection, Consumer)> {
    let properties = ConnectionProperties::default().with_connection_name("leasehold manager".into());
    let connection = Connection::connect_uri(uri.clone(), properties).await?;
    let channel = connection.create_channel().await?;
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let (exchange, none) = (events.exchange.as_str(), FieldTable::default());
    channel.exchange_declare(exchange.into(), ExchangeKind::Topic, durable, none.clone()).await?;
    let queue = format!("leasehold.manager.{}.{}", settings.tenant_id, settings.runner_id);
    let mut limits = FieldTable::default();
    limits.insert("x-expires".into(), AMQPValue::LongInt(KEPT_MS));
    limits.insert("x-max-length".into(), AMQPValue::LongInt(EVENTS_MAX));
    channel.queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), limits).await?;
    let key = format!("lease.*.{}.#", settings.tenant_id.replace('.', "_"));
    channel
        .queue_bind(
            queue.as_str().into(),
            exchange.into(),
            key.as_str().into(),
            QueueBindOptions::default(),
            none.clone(),
        )
        .await?;
    let consumer =
        channel.basic_consume(queue.as_str().into(), "".into(), BasicConsumeOptions::default(), none).await?;
    Ok((connection, consumer))
}

/// Passes on what is heard. `false` if nobody wants to know any more.
async fn follow(mut consumer: Consumer, news: &mpsc::Sender<News>) -> bool {
    use futures_util::StreamExt;
    while let Some(Ok(delivery)) = consumer.next().await {
        for one in read(&delivery) {
            if news.send(one).await.is_err() {
                return false;
            }
        }
        if delivery.ack(BasicAckOptions::default()).await.is_err() {
            return true;
        }
    }
    true
}

/// What an event means here.
fn read(delivery: &Delivery) -> Vec<News> {
    serde_json::from_slice(&delivery.data).map(|event: Value| meaning(&event)).unwrap_or_default()
}

fn meaning(event: &Value) -> Vec<News> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match event["event_type"].as_str() {
        Some("lease_acquired") => {
            let details = &event["details"];
            let token = details["fencing_token"].as_str().and_then(|token| token.parse().ok());
            match (text(&event["camera_uuid"]), text(&details["tenant_id"]), token) {
                (Some(camera), Some(tenant), Some(token)) => vec![News::Seen { camera, tenant, token }],
                _ => Vec::new(),
            }
        }
        Some("lease_released" | "lease_expired" | "lease_revoked") => vec![News::Hint],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // proves C45
    #[test]
    fn a_grant_is_seen_with_its_token_and_a_release_is_a_hint() {
        let event = json!({"event_type": "lease_acquired", "camera_uuid": "cam-1", "runner_id": "b",
            "details": {"tenant_id": "t", "fencing_token": "18"}});
        let [News::Seen { camera, tenant, token }] = &meaning(&event)[..] else { panic!("not seen") };
        assert_eq!((camera.as_str(), tenant.as_str(), *token), ("cam-1", "t", 18));
        assert!(matches!(meaning(&json!({"event_type": "lease_released"}))[..], [News::Hint]));
        for nothing in [
            json!({}),
            json!([]),
            json!({"event_type": "lease_acquired", "camera_uuid": 5}),
            json!({"event": "joined"}),
        ] {
            assert!(meaning(&nothing).is_empty(), "{nothing}");
        }
    }
}
