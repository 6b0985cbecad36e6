//! Events: committed rows of the ledger, told to others.
//!
//! The ledger itself is the outbox. Its rows are numbered in the order in which they were committed; a relay for each sink
//! reads behind the row that it came to, publishes, waits for the confirmation and only then writes down how far it has
//! come. So nothing is lost while a broker is away, and nothing is published that did not commit. Delivery is at least once;
//! every event carries an id by which a repeated one is known.

pub mod camera;
pub mod mqtt;
mod position;
pub mod rabbitmq;
pub mod relay;
pub mod settings;
pub mod sink;
pub(crate) mod stream;
pub mod trust;
pub mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::lease::Pool;
use leasehold::participant::{JoinError, Lease, Participant, Running};
use leasehold::store::Store;

use self::mqtt::MqttSink;
use self::rabbitmq::RabbitMqSink;
use self::relay::Relay;
use self::settings::{EventsError, EventsSettings, Kind, SinkSettings, WebhookRules};
use self::sink::EventSink;
use self::webhook::WebhookSink;

/// Where the servers that share a store agree on who relays for which sink.
pub const RELAYS_POOL: &str = "_leasehold-relays";
/// How long a sink waits for another server after its relay's server fell silent.
const TTL: Duration = Duration::from_secs(15);

/// The sink that the settings describe.
///
/// # Errors
/// The settings cannot be used.
pub fn sink(settings: &SinkSettings, rules: &WebhookRules) -> Result<Arc<dyn EventSink>, EventsError> {
    Ok(match settings.url.kind() {
        Kind::Amqp => Arc::new(RabbitMqSink::new(settings)?),
        Kind::Mqtt => Arc::new(MqttSink::new(settings)?),
        Kind::Webhook => Arc::new(WebhookSink::new(settings, rules)?),
    })
}

/// The relays of this server.
///
/// Servers that share a store share the sinks out among themselves, as members of a pool whose resources are the sinks. That
/// saves their receivers from hearing everything from everybody; what arrives, and in which order, does not depend on it.
#[derive(Debug)]
pub struct Relays {
    member: Option<Running>,
}

impl Relays {
    /// Starts to relay to everything that the settings name. A store or a broker that is away is no error.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub async fn start(store: Arc<dyn Store>, settings: &EventsSettings) -> Result<Self, EventsError> {
        settings.check()?;
        let mut sinks = BTreeMap::new();
        for each in &settings.sinks {
            sinks.insert(each.name().to_owned(), sink(each, &settings.webhooks)?);
            tracing::info!(sink = each.name(), url = %each.url, "events are relayed");
        }
        Self::of(store, sinks, TTL).await
    }

    /// The same to sinks of one's own, by their names. A sink goes to another server when this one was silent for `ttl`.
    ///
    /// # Errors
    /// A name is not an id.
    pub async fn of(
        store: Arc<dyn Store>,
        sinks: BTreeMap<String, Arc<dyn EventSink>>,
        ttl: Duration,
    ) -> Result<Self, EventsError> {
        if sinks.is_empty() {
            return Ok(Self { member: None });
        }
        let pool = Pool::new(RELAYS_POOL).map_err(JoinError::from)?;
        let participant = Participant::join(Arc::clone(&store), pool).ttl(ttl).resources(sinks.keys())?;
        let work = move |lease: Lease| {
            let name = lease.resource().as_str().to_owned();
            let relay = sinks.get(&name).map(|sink| Relay::new(Arc::clone(&store), &name, Arc::clone(sink)));
            async move {
                let Some(mut relay) = relay else { return };
                tokio::select! {
                    () = relay.run() => {}
                    _ = lease.lost() => {}
                }
            }
        };
        Ok(Self { member: Some(participant.start(work).await?) })
    }

    /// Ends the relays; other servers go on where they were.
    pub async fn stop(self) {
        if let Some(member) = self.member {
            member.leave().await;
        }
    }
}
