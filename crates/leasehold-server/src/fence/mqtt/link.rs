//! The two connections to a broker, which live and end together: one that listens, one that speaks.
//!
//! The one that listens has a session that the broker keeps: what is sent while it is away waits for it. It is never made
//! again in here, so that no acknowledgement can go to another connection than the one its message came by.

use std::sync::Arc;

use rumqttc::{
    AckMode, AsyncClient, Event, EventLoop, Incoming, ManualAck, MqttOptions, NetworkOptions, Publish,
    PublishOptions, QoS,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{MqttSettings, Pending};
use crate::events::mqtt::{PATIENCE, broker};
use crate::events::settings::EventsError;
use crate::fence::tally::Tally;

/// How many messages may be between the broker and us, each way.
const WAY_MAX: usize = 256;
/// How many may be passed on and not confirmed.
const UNCONFIRMED_MAX: u16 = 1024;
/// The largest packet that is read: the largest that there can be. What is too large is refused by us, as a connection that broke over it
/// would get it again and again.
const PACKET_MAX: usize = 268_435_455 + 5;

/// Why nothing passes any more.
pub(super) struct Ended(pub(super) String);

impl Ended {
    pub(super) fn broken(why: impl ToString) -> Self {
        Self(why.to_string())
    }
}

/// The options of the connection that listens, and of the one that speaks.
pub(super) fn options(settings: &MqttSettings) -> Result<[MqttOptions; 2], EventsError> {
    let mut ears = broker(&settings.broker, settings.client_id.clone())?;
    ears.set_clean_session(false).set_ack_mode(AckMode::Manual);
    let mut mouth = broker(&settings.broker, format!("{}-out", settings.client_id))?;
    mouth.set_clean_session(true).set_inflight(UNCONFIRMED_MAX);
    for options in [&mut ears, &mut mouth] {
        options.set_max_packet_size(PACKET_MAX, PACKET_MAX);
    }
    Ok([ears, mouth])
}

pub(super) struct Link {
    mouth: AsyncClient,
    incoming: mpsc::Receiver<Publish>,
    pending: mpsc::Sender<Pending>,
    ended: watch::Receiver<Option<String>>,
    /// Ended with it.
    _tasks: JoinSet<()>,
}

impl Link {
    /// Begins to connect and to listen. Messages that the broker kept may come before it has said that we listen, so nobody waits
    /// for that before taking them.
    pub(super) fn connect(settings: &MqttSettings, tally: &Arc<Tally>) -> Result<Self, Ended> {
        let [ears, mouth] = options(settings).map_err(Ended::broken)?;
        let (end, ended) = watch::channel(None);
        let end = Arc::new(end);
        let mut tasks = JoinSet::new();
        let (mouth, events) = AsyncClient::builder(mouth).capacity(WAY_MAX).build();
        tasks.spawn(drive(events, None, Arc::clone(&end)));
        let (ears, events) = AsyncClient::builder(ears).capacity(WAY_MAX).build();
        let (take, incoming) = mpsc::channel(WAY_MAX);
        tasks.spawn(drive(events, Some(take), Arc::clone(&end)));
        let filter = settings.route.filter().to_owned();
        tasks.spawn(subscribe(ears.clone(), filter, Arc::clone(tally), Arc::clone(&end)));
        let (pending, confirming) = mpsc::channel(UNCONFIRMED_MAX.into());
        // As many as the broker has sent and not been answered, which is at most 65,535.
        let (done, acknowledging) = mpsc::unbounded_channel();
        tasks.spawn(acknowledge(acknowledging, ears));
        tasks.spawn(confirm(confirming, done, Arc::clone(tally), end));
        Ok(Self { mouth, incoming, pending, ended, _tasks: tasks })
    }

    /// The next message.
    pub(super) async fn next(&mut self) -> Option<Publish> {
        self.incoming.recv().await
    }

    /// Waits until one of the connections ends.
    pub(super) fn ended(&self) -> impl Future<Output = Ended> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            let why = ended.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
            Ended::broken(why.unwrap_or_else(|| "the connection ended".to_owned()))
        }
    }

    /// Passes a message on. It is acknowledged when that has been confirmed.
    pub(super) async fn forward(&mut self, publish: Publish, target: String) -> Result<(), Ended> {
        let ack = self.mouth.prepare_ack(&publish);
        let sent = self.mouth.publish_tracked(target, publish.payload, PublishOptions::new(publish.qos));
        let notice = sent.await.map_err(Ended::broken)?;
        self.await_end((Some(notice), ack)).await
    }

    /// Acknowledges a message that goes no further.
    pub(super) async fn refuse(&mut self, publish: &Publish) -> Result<(), Ended> {
        let ack = self.mouth.prepare_ack(publish);
        self.await_end((None, ack)).await
    }

    async fn await_end(&self, pending: Pending) -> Result<(), Ended> {
        self.pending.send(pending).await.map_err(|_| Ended::broken("the connection ended"))
    }
}

/// Why everything ends: the first that is said counts.
fn tell(end: &watch::Sender<Option<String>>, why: String) {
    end.send_if_modified(|known| known.is_none().then(|| *known = Some(why)).is_some());
}

/// Asks the broker for the messages, which is when they pass.
async fn subscribe(
    ears: AsyncClient,
    filter: String,
    tally: Arc<Tally>,
    end: Arc<watch::Sender<Option<String>>>,
) {
    let subscribed = async {
        let notice = ears.subscribe_tracked(filter.as_str(), QoS::AtLeastOnce).await;
        let notice = notice.map_err(|error| error.to_string())?;
        notice.wait_completion_async().await.map_err(|error| error.to_string())
    };
    match timeout(PATIENCE, subscribed).await {
        Ok(Ok(())) => {
            tally.connect();
            tracing::info!(topics = filter, "messages pass");
        }
        Ok(Err(why)) => tell(&end, format!("the broker does not let us listen: {why}")),
        Err(_) => tell(&end, format!("the broker does not answer within {PATIENCE:?}")),
    }
}

/// Moves what is to be sent and what comes, until the connection ends.
async fn drive(
    mut events: EventLoop,
    take: Option<mpsc::Sender<Publish>>,
    end: Arc<watch::Sender<Option<String>>>,
) {
    // Small packets in both directions: one that waits for another to go with it waits for the other side's patience.
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    events.set_network_options(network);
    let why = loop {
        match (events.poll().await, &take) {
            (Ok(Event::Incoming(Incoming::Publish(publish))), Some(take)) => {
                // Full, it is not polled either: the broker keeps what it has.
                if take.send(publish).await.is_err() {
                    return;
                }
            }
            (Ok(_), _) => {}
            (Err(error), _) => break error.to_string(),
        }
    };
    tell(&end, why);
}

/// Has messages acknowledged in the order in which they were dealt with, each when what it became was confirmed.
async fn confirm(
    mut pending: mpsc::Receiver<Pending>,
    done: mpsc::UnboundedSender<ManualAck>,
    tally: Arc<Tally>,
    end: Arc<watch::Sender<Option<String>>>,
) {
    while let Some((notice, ack)) = pending.recv().await {
        if let Some(notice) = notice {
            if let Err(error) = notice.wait_completion_async().await {
                tell(&end, format!("a message was not confirmed: {error}"));
                return;
            }
            tally.deliver();
        }
        if let Some(ack) = ack
            && done.send(ack).is_err()
        {
            return;
        }
    }
}

/// Sends acknowledgements. Apart from what waits for confirmations: the connection that listens may be full of messages, and nobody
/// who empties it may wait for it.
async fn acknowledge(mut done: mpsc::UnboundedReceiver<ManualAck>, ears: AsyncClient) {
    while let Some(ack) = done.recv().await {
        if ears.manual_ack(ack).await.is_err() {
            return;
        }
    }
}
