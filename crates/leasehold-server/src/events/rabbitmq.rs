//! Events to RabbitMQ: a durable topic exchange, persistent messages, confirmed by the server.

use std::time::Duration;

use async_trait::async_trait;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{FieldTable, ShortString};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, DefaultConnectionBuilder, ExchangeKind,
};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::settings::{EventsError, SinkSettings};
use super::sink::{Event, EventSink, SinkError, runs};
use super::trust;

/// How long connecting, and every run of messages, may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// A server that is silent for twice this long is gone.
const HEARTBEAT_SECONDS: u16 = 10;
/// The longest routing key that the protocol allows.
const KEY_MAX: usize = 255;
/// A message that survives the server's restart.
const PERSISTENT: u8 = 2;

/// A RabbitMQ server.
#[derive(Debug)]
pub struct RabbitMqSink {
    shown: String,
    uri: Secret<AMQPUri>,
    certificates: Option<String>,
    exchange: ShortString,
    /// Whoever publishes takes it out and puts it back when all went well: a call that fails or is dropped leaves nothing
    /// behind in which a confirmation could still be on its way.
    link: Mutex<Option<Link>>,
}

/// What is not shown.
struct Secret<T>(T);

impl<T> std::fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

#[derive(Debug)]
struct Link {
    /// Closes when dropped.
    _connection: Connection,
    channel: Channel,
}

impl RabbitMqSink {
    /// The server that the settings name. It is asked nothing yet.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn new(settings: &SinkSettings) -> Result<Self, EventsError> {
        let sink = || settings.name().to_owned();
        let refused = |why: String| EventsError::Refused { sink: sink(), why };
        let exchange = settings.exchange.as_deref().unwrap_or("status.topic");
        let exchange = ShortString::try_new(exchange)
            .map_err(|_| refused("the exchange's name is too long".to_owned()))?;
        let url = &settings.url;
        let scheme = if url.url().scheme() == "amqps" { AMQPScheme::AMQPS } else { AMQPScheme::AMQP };
        let port = url.url().port().unwrap_or_else(|| scheme.default_port());
        let guest = || ("guest".to_owned(), "guest".to_owned());
        let (username, password) = url.credentials().unwrap_or_else(guest);
        let query = AMQPQueryString {
            heartbeat: Some(HEARTBEAT_SECONDS),
            connection_timeout: u64::try_from(PATIENCE.as_millis()).ok(),
            ..AMQPQueryString::default()
        };
        let userinfo = AMQPUserInfo { username, password };
        let authority = AMQPAuthority { userinfo, host: url.host(), port };
        let vhost = url.path().unwrap_or_else(|| "/".to_owned());
        let uri = Secret(AMQPUri { scheme, authority, vhost, query });
        let certificates = settings.ca.as_deref().map(trust::text).transpose()?;
        Ok(Self { shown: url.to_string(), uri, certificates, exchange, link: Mutex::default() })
    }

    fn fault(&self, did: &str, error: impl std::fmt::Display) -> SinkError {
        SinkError::new(format_args!("{}: {did}: {error}", self.shown))
    }

    async fn connect(&self) -> Result<Link, SinkError> {
        let fault = |error: lapin::Error| self.fault("cannot connect to RabbitMQ", error);
        let tls = OwnedTLSConfig { identity: None, cert_chain: self.certificates.clone() };
        let properties = ConnectionProperties::default().with_connection_name("leasehold events".into());
        let builder = DefaultConnectionBuilder::new().map_err(fault)?;
        let builder = builder.with_uri(self.uri.0.clone()).with_properties(properties).with_tls_config(tls);
        let connection = builder.connect().await.map_err(fault)?;
        let channel = connection.create_channel().await.map_err(fault)?;
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declared = channel.exchange_declare(
            self.exchange.clone(),
            ExchangeKind::Topic,
            durable,
            FieldTable::default(),
        );
        declared.await.map_err(fault)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(fault)?;
        Ok(Link { _connection: connection, channel })
    }

    /// Sends a run and waits for every confirmation.
    async fn send(&self, channel: &Channel, run: &[Event]) -> Result<(), SinkError> {
        let fault = |error: lapin::Error| self.fault("RabbitMQ did not take events", error);
        let mut confirmations = Vec::with_capacity(run.len());
        for event in run {
            let properties = BasicProperties::default()
                .with_delivery_mode(PERSISTENT)
                .with_content_type("application/json".into())
                .with_app_id("leasehold".into())
                .with_type(
                    event.camera.as_ref().map_or(event.event.as_str(), |one| one.event_type.as_str()).into(),
                )
                .with_message_id(short(event.id.clone()));
            let (exchange, key, body) = (self.exchange.clone(), short(routing_key(event)), event.json());
            let sent =
                channel.basic_publish(exchange, key, BasicPublishOptions::default(), &body, properties);
            confirmations.push(sent.await.map_err(fault)?);
        }
        for (confirmation, event) in confirmations.into_iter().zip(run) {
            if !confirmation.await.map_err(fault)?.is_ack() {
                return Err(self.fault("RabbitMQ refused an event", &event.id));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl EventSink for RabbitMqSink {
    async fn publish(&self, events: &[Event]) -> Result<(), SinkError> {
        let late = |_| self.fault("RabbitMQ did not answer in time", format_args!("waited {PATIENCE:?}"));
        let mut place = self.link.lock().await;
        let link = match place.take() {
            Some(link) => link,
            None => timeout(PATIENCE, self.connect()).await.map_err(late)??,
        };
        for run in runs(events) {
            timeout(PATIENCE, self.send(&link.channel, run)).await.map_err(late)??;
        }
        *place = Some(link);
        Ok(())
    }
}

/// Text of at most 255 bytes, as ids of events and routing keys are.
fn short(text: String) -> ShortString {
    ShortString::try_new(text).unwrap_or_default()
}

/// `lease.<event>.<tenant>.<pool>.<resource>`, and `lease.<event>.<tenant>.<site>.<camera>` for cameras: what is not there is `-`, dots within a part are `_`. A key that would be too
/// long for the protocol is cut at its end.
fn routing_key(event: &Event) -> String {
    let part = |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("-").replace('.', "_");
    if let Some(camera) = &event.camera {
        let [tenant, site, id] =
            [camera.tenant_id(), camera.site_id(), &camera.camera_uuid].map(|text| part(Some(text)));
        let mut key = format!("lease.{}.{tenant}.{site}.{id}", camera.event_type.in_key());
        key.truncate(KEY_MAX);
        return key;
    }
    let (kind, tenant) = (event.event.as_str(), part(event.tenant.as_deref()));
    let (pool, resource) = (part(Some(&event.pool)), part(event.resource.as_ref().map(AsRef::as_ref)));
    let mut key = format!("lease.{kind}.{tenant}.{pool}.{resource}");
    // Ids are ASCII.
    key.truncate(KEY_MAX);
    key
}

#[cfg(test)]
mod tests {
    use leasehold::ledger::Event as Kind;

    use super::super::sink::tests::event;
    use super::*;

    #[test]
    fn a_routing_key_has_five_parts() {
        let key = |pool: &str, resource| routing_key(&event(pool, 1, resource, Kind::TakenOver));
        assert_eq!(key("acme.scenes.x", Some("a.b")), "lease.taken_over.acme.scenes_x.a_b");
        assert_eq!(key("scenes", None), "lease.taken_over.-.scenes.-");
        let long = "x".repeat(128);
        assert_eq!(key(&long, Some(&long)).len(), KEY_MAX);
    }

    #[test]
    fn a_password_is_not_shown() {
        let settings = SinkSettings::parse("amqp://u:hush@host/v").unwrap();
        let sink = RabbitMqSink::new(&settings).unwrap();
        assert!(!format!("{sink:?}").contains("hush"));
        assert_eq!(sink.uri.0.authority.userinfo.password, "hush");
    }
}
