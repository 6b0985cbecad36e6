//! Events to an MQTT broker, each acknowledged (QoS 1).

use std::sync::{Arc, Mutex as Plain, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rumqttc::{
    AsyncClient, Broker, EventLoop, MqttOptions, PublishOptions, QoS, TlsConfiguration, Transport,
};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::settings::{EventsError, SinkSettings};
use super::sink::{Event, EventSink, SinkError};
use super::trust;

/// How long connecting and sending may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// A broker is asked for a sign of life this often.
const KEEP_ALIVE_SECONDS: u16 = 10;
/// How many messages may wait for their acknowledgement.
const WAITING_MAX: usize = 64;

/// An MQTT broker.
pub struct MqttSink {
    shown: String,
    options: MqttOptions,
    prefix: String,
    /// Whoever publishes takes it out and puts it back when all went well.
    link: Mutex<Option<Link>>,
}

impl std::fmt::Debug for MqttSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MqttSink").field("url", &self.shown).finish_non_exhaustive()
    }
}

struct Link {
    client: AsyncClient,
    task: JoinHandle<()>,
    /// Why the connection ended.
    ended: Arc<Plain<Option<String>>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    fn why(&self) -> String {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.clone().unwrap_or_else(|| "the connection ended".to_owned())
    }
}

impl MqttSink {
    /// The broker that the settings name. It is asked nothing yet.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn new(settings: &SinkSettings) -> Result<Self, EventsError> {
        let refused =
            |why: &str| EventsError::Refused { sink: settings.name().to_owned(), why: why.to_owned() };
        let prefix =
            settings.prefix.as_deref().unwrap_or("leasehold/events").trim_end_matches('/').to_owned();
        if prefix.is_empty()
            || prefix.len() > 1024
            || prefix.contains(['+', '#', '\0'])
            || prefix.starts_with('$')
        {
            return Err(refused(
                "the prefix of topics is empty, too long, begins with '$' or contains '+' or '#'",
            ));
        }
        let mut suffix = [0_u8; 8];
        getrandom::fill(&mut suffix).map_err(|_| refused("the system gives no random numbers"))?;
        // Two with the same id would throw each other out for ever.
        let id = format!("leasehold{:014x}", u64::from_le_bytes(suffix) >> 8);
        let mut options = broker(settings, id)?;
        options.set_clean_session(true);
        Ok(Self { shown: settings.url.to_string(), options, prefix, link: Mutex::default() })
    }

    fn fault(&self, did: &str, error: impl std::fmt::Display) -> SinkError {
        SinkError::new(format_args!("{}: {did}: {error}", self.shown))
    }

    fn connect(&self) -> Link {
        let (client, events) = AsyncClient::builder(self.options.clone()).capacity(WAITING_MAX).build();
        let ended = Arc::default();
        let task = tokio::spawn(serve(events, Arc::clone(&ended)));
        Link { client, task, ended }
    }

    /// Sends events and waits for every acknowledgement. A broker takes what comes over one connection in order, and refuses
    /// nothing in between, so all of them may be on their way at once.
    async fn send(&self, link: &Link, events: &[Event]) -> Result<(), SinkError> {
        let fault = || self.fault("the MQTT broker did not take events", link.why());
        let mut notices = Vec::with_capacity(events.len());
        for event in events {
            let options = PublishOptions::new(QoS::AtLeastOnce);
            let sent = link.client.publish_tracked(topic(&self.prefix, event), event.json(), options);
            notices.push(sent.await.map_err(|_| fault())?);
        }
        for notice in notices {
            notice.wait_completion_async().await.map_err(|_| fault())?;
        }
        Ok(())
    }
}

/// How a broker is reached, under this client id.
pub(crate) fn broker(settings: &SinkSettings, id: String) -> Result<MqttOptions, EventsError> {
    let url = &settings.url;
    let secure = url.url().scheme() == "mqtts";
    let port = url.url().port().unwrap_or(if secure { 8883 } else { 1883 });
    let mut options = MqttOptions::new(id, Broker::tcp(url.host(), port));
    options.set_keep_alive(KEEP_ALIVE_SECONDS);
    if let Some((user, password)) = url.credentials() {
        options.set_credentials(user, password);
    }
    if secure {
        let config = trust::client(settings.ca.as_deref())?;
        options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(Arc::new(config))));
    }
    Ok(options)
}

/// Moves what is to be sent, until the connection ends. It is not made again here: what was on its way is sent again by
/// whoever waits for it, in order.
async fn serve(mut events: EventLoop, ended: Arc<Plain<Option<String>>>) {
    loop {
        if let Err(error) = events.poll().await {
            *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            return;
        }
    }
}

#[async_trait]
impl EventSink for MqttSink {
    async fn publish(&self, events: &[Event]) -> Result<(), SinkError> {
        let late =
            |_| self.fault("the MQTT broker did not answer in time", format_args!("waited {PATIENCE:?}"));
        let mut place = self.link.lock().await;
        let link = place.take().filter(|link| !link.task.is_finished()).unwrap_or_else(|| self.connect());
        timeout(PATIENCE, self.send(&link, events)).await.map_err(late)??;
        *place = Some(link);
        Ok(())
    }
}

/// `<prefix>/<pool>/<resource>/<event>`: what is not there is `-`, and a `+`, which topics must not contain, is `_`. The pool
/// is the store's, which begins with the tenant's id.
fn topic(prefix: &str, event: &Event) -> String {
    let resource = event.resource.as_ref().map_or("-", AsRef::as_ref).replace('+', "_");
    format!("{prefix}/{}/{resource}/{}", event.store_pool, event.event)
}

#[cfg(test)]
mod tests {
    use leasehold::ledger::Event as Kind;

    use super::super::sink::tests::event;
    use super::*;

    #[test]
    fn a_topic_has_no_wildcards() {
        assert_eq!(topic("x/y", &event("acme.p", 1, Some("a+b"), Kind::Released)), "x/y/acme.p/a_b/released");
        assert_eq!(topic("x", &event("p", 1, None, Kind::Joined)), "x/p/-/joined");
    }

    #[test]
    fn settings_that_cannot_be_used_are_refused_and_secrets_hidden() {
        let of = |text: &str| MqttSink::new(&SinkSettings::parse(text).unwrap());
        assert!(of("mqtt://h#prefix=a/%2b/b").is_err());
        assert!(of("mqtt://h#prefix=").is_err());
        assert!(!format!("{:?}", of("mqtt://u:hush@h").unwrap()).contains("hush"));
    }
}
