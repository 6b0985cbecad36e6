//! A fence in front of MQTT topics: listens to one tree, and passes on to another what the current holder sent.
//!
//! Invariants:
//! 1. A message is acknowledged when what it became is acknowledged, or when it was refused. Whatever breaks before that has the broker
//!    send it again: QoS 1, at least once. A connection that breaks takes the other one with it, and everything begins anew.
//! 2. Messages of a resource are passed on in the order in which they came. One that waits for an answer holds up those of its own
//!    resource, and no others.
//! 3. What is held is limited. Beyond it nothing is read, and the broker keeps the rest.

mod link;

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold::ResourceId;
use leasehold::fence::{Admission, Gate, Judgement, Message, Offered};
use rumqttc::{Publish, PublishNotice};
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::link::{Ended, Link};
use super::tally::{Flaw, Tally};
use super::topic::Route;
use crate::events::settings::{EventsError, SinkSettings};

/// The most messages that wait for an answer of the authority.
const HELD_MAX: usize = 1024;
/// The first wait before a broker is tried again; each further one is twice as long.
const WAIT_MIN: Duration = Duration::from_millis(200);
/// The longest.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How a fence in front of MQTT topics is set up.
#[derive(Debug, Clone)]
pub struct MqttSettings {
    /// The broker: `mqtt(s)://…`, with `ca` for a file of certificates.
    pub broker: SinkSettings,
    /// Which topics become which.
    pub route: Route,
    /// The name of the broker's session. Two with the same throw each other out.
    pub client_id: String,
    /// The largest payload, in bytes.
    pub payload_max: usize,
}

impl MqttSettings {
    /// Looks whether the broker can be spoken to as it is said.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self) -> Result<(), EventsError> {
        link::options(self).map(|_| ())
    }
}

/// A fence in front of MQTT topics.
#[derive(Debug)]
pub struct MqttFence {
    settings: MqttSettings,
    gate: Arc<Gate>,
    tally: Arc<Tally>,
}

impl MqttFence {
    /// A fence that judges by the gate. Nothing is connected yet.
    #[must_use]
    pub fn new(settings: MqttSettings, gate: Arc<Gate>) -> Self {
        Self { settings, gate, tally: Arc::default() }
    }

    /// How it stands.
    #[must_use]
    pub fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    /// Passes messages on for as long as it is polled, and connects again whenever something breaks.
    pub async fn run(&self) {
        let mut wait = WAIT_MIN;
        loop {
            let Ended(why) = self.pass_on().await;
            if self.tally.is_connected() {
                wait = WAIT_MIN;
            }
            self.tally.disconnect();
            tracing::warn!(broker = %self.settings.broker.url, again_in = ?wait, "nothing passes: {why}");
            sleep(wait).await;
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    /// Passes messages on until a connection ends.
    async fn pass_on(&self) -> Ended {
        let mut link = match Link::connect(&self.settings, &self.tally) {
            Ok(link) => link,
            Err(ended) => return ended,
        };
        let mut held = Held::default();
        let mut ended = pin!(link.ended());
        loop {
            let passed = tokio::select! {
                ended = &mut ended => return ended,
                publish = link.next(), if held.count < HELD_MAX => match publish {
                    Some(publish) => self.take(&mut link, &mut held, publish).await,
                    None => return ended.await,
                },
                Some(answered) = held.asked.join_next() => match answered {
                    Ok(resource) => self.settle(&mut link, &mut held, &resource).await,
                    Err(error) => Err(Ended::broken(format!("a question failed: {error}"))),
                },
            };
            if let Err(ended) = passed {
                return ended;
            }
        }
    }

    /// Looks at a message that came.
    async fn take(&self, link: &mut Link, held: &mut Held, publish: Publish) -> Result<(), Ended> {
        let letter = match self.read(publish) {
            Ok(letter) => letter,
            Err((flaw, publish)) => {
                self.tally.refuse(flaw);
                return link.refuse(&publish).await;
            }
        };
        // What came before it goes first.
        if let Some(before) = held.of.get_mut(&letter.resource) {
            before.push_back(letter);
            held.count += 1;
            return Ok(());
        }
        match self.gate.check(&letter.resource, letter.offered) {
            Judgement::Now(admission) => self.pass(link, letter, admission).await,
            Judgement::Ask => {
                self.ask(held, letter.resource.clone());
                held.of.entry(letter.resource.clone()).or_default().push_back(letter);
                held.count += 1;
                Ok(())
            }
        }
    }

    fn ask(&self, held: &mut Held, resource: ResourceId) {
        let gate = Arc::clone(&self.gate);
        held.asked.spawn(async move {
            // Whether it answers or not: what is known then decides.
            let _ = gate.refresh().await;
            resource
        });
    }

    /// Goes on with a resource for whose first message the authority was asked.
    async fn settle(&self, link: &mut Link, held: &mut Held, resource: &ResourceId) -> Result<(), Ended> {
        let mut waiting = held.of.remove(resource).unwrap_or_default();
        let mut asked = true;
        while let Some(letter) = waiting.pop_front() {
            let judgement = match asked {
                true => Judgement::Now(self.gate.settle(&letter.resource, letter.offered)),
                // It may have come after the question was sent.
                false => self.gate.check(&letter.resource, letter.offered),
            };
            asked = false;
            let Judgement::Now(admission) = judgement else {
                waiting.push_front(letter);
                self.ask(held, resource.clone());
                held.of.insert(resource.clone(), waiting);
                return Ok(());
            };
            held.count -= 1;
            self.pass(link, letter, admission).await?;
        }
        Ok(())
    }

    async fn pass(&self, link: &mut Link, letter: Letter, admission: Admission) -> Result<(), Ended> {
        let Letter { publish, target, resource, .. } = letter;
        match admission {
            Admission::Admitted => link.forward(publish, target).await,
            Admission::Refused(refusal) => {
                tracing::debug!(%resource, "a message is refused: {refusal}");
                link.refuse(&publish).await
            }
        }
    }

    /// What a message is about, unless it has a flaw.
    fn read(&self, publish: Publish) -> Result<Letter, (Flaw, Publish)> {
        let topic = std::str::from_utf8(&publish.topic).ok();
        let Some((resource, target)) = topic.and_then(|topic| self.settings.route.of(topic)) else {
            return Err((Flaw::NoResource, publish));
        };
        if publish.payload.len() > self.settings.payload_max {
            return Err((Flaw::TooLarge, publish));
        }
        let read = Message::read(&publish.payload)
            .map(|message| (message.offered, message.is_about_another(resource.as_str())));
        match read {
            Err(_) => Err((Flaw::Unreadable, publish)),
            Ok((_, true)) => Err((Flaw::OtherResource, publish)),
            Ok((offered, false)) => Ok(Letter { publish, target, resource, offered }),
        }
    }
}

/// A message, and what it is about.
struct Letter {
    publish: Publish,
    target: String,
    resource: ResourceId,
    offered: Offered,
}

/// Messages that wait for an answer of the authority, and those behind them.
#[derive(Default)]
struct Held {
    of: HashMap<ResourceId, VecDeque<Letter>>,
    count: usize,
    asked: JoinSet<ResourceId>,
}

/// A message whose end is awaited: refused at once, or passed on and to be confirmed.
type Pending = (Option<PublishNotice>, Option<rumqttc::ManualAck>);
