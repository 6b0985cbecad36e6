//! The few things that a scheduler asks of etcd, by its JSON gateway: read a prefix, write under conditions, watch.
//!
//! Invariant: no call waits for ever, and none is repeated in here. One that fails leaves open whether it took effect; the
//! next is sent to the next endpoint.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// How long one call may take.
pub const CALL: Duration = Duration::from_secs(2);

/// A call has no answer, or none that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// The endpoint was not reached, or did not answer in time.
    #[error("{endpoint} has not answered")]
    NoAnswer {
        /// Which one.
        endpoint: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The endpoint answered with an error.
    #[error("{endpoint} answered {said}")]
    Refused {
        /// Which one.
        endpoint: String,
        /// What it said.
        said: String,
    },
    /// A watch has ended; begin again.
    #[error("{endpoint} has ended a watch")]
    WatchEnded {
        /// Which one.
        endpoint: String,
    },
}

/// A key with its value and its place in etcd's history.
#[derive(Debug, Clone, Deserialize)]
pub struct Kv {
    /// The key.
    #[serde(deserialize_with = "text")]
    pub key: String,
    /// Its value.
    #[serde(default, deserialize_with = "text")]
    pub value: String,
    /// The revision at which it was created.
    #[serde(default, deserialize_with = "number")]
    pub create_revision: i64,
    /// The revision at which it was last written.
    #[serde(default, deserialize_with = "number")]
    pub mod_revision: i64,
    /// How often it was written since it was created.
    #[serde(default, deserialize_with = "number")]
    pub version: i64,
}

/// A condition of a transaction.
#[derive(Debug, Clone)]
pub enum Compare {
    /// The key has this value.
    Is(Vec<u8>, Vec<u8>),
    /// The key was last written at this revision; 0 if it is not there.
    Unchanged(String, i64),
}

/// A write of a transaction.
#[derive(Debug, Clone)]
pub enum Write {
    /// The key gets this value.
    Put(String, String),
    /// The key goes.
    Delete(String),
}

/// What has happened to a key.
#[derive(Debug, Deserialize)]
pub struct Event {
    #[serde(default, rename = "type")]
    kind: String,
    /// The key, its value if it has one, and when it happened.
    pub kv: Kv,
}

impl Event {
    /// Whether the key is gone.
    #[must_use]
    pub fn is_delete(&self) -> bool {
        self.kind == "DELETE"
    }
}

/// An etcd cluster.
#[derive(Debug)]
pub struct Etcd {
    http: reqwest::Client,
    endpoints: Vec<String>,
    /// Which endpoint is asked, and which is watched.
    asked: AtomicUsize,
    watched: AtomicUsize,
}

impl Etcd {
    /// A cluster with these endpoints, each as `host:port`.
    ///
    /// # Errors
    /// The system has no room for a client.
    pub fn new(endpoints: &[String]) -> Result<Self, reqwest::Error> {
        // Where another part of the same build speaks TLS, the client wants to know by which means, even to speak none.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().connect_timeout(CALL).no_proxy().build()?;
        let endpoints = endpoints.iter().map(|endpoint| format!("http://{endpoint}")).collect();
        Ok(Self { http, endpoints, asked: AtomicUsize::new(0), watched: AtomicUsize::new(0) })
    }

    /// All keys that begin with a prefix, and the revision at which they were so.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn read(&self, prefix: &str) -> Result<(i64, Vec<Kv>), EtcdError> {
        let range = json!({ "key": encode(prefix), "range_end": encode(end_of(prefix)) });
        let answer: RangeAnswer = self.call("kv/range", &range).await?;
        Ok((answer.header.revision, answer.kvs))
    }

    /// Writes all if every condition holds, in one step, and answers the revision; otherwise `None`, and nothing was written.
    ///
    /// # Errors
    /// There is no answer: it was written, or was not, or will be.
    pub async fn write(&self, compares: &[Compare], writes: &[Write]) -> Result<Option<i64>, EtcdError> {
        let compare: Vec<Value> = compares.iter().map(Compare::to_json).collect();
        let success: Vec<Value> = writes.iter().map(Write::to_json).collect();
        let txn = json!({ "compare": compare, "success": success });
        let answer: TxnAnswer = self.call("kv/txn", &txn).await?;
        Ok(answer.succeeded.then_some(answer.header.revision))
    }

    /// What happens to the keys of a prefix from a revision on.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn watch(&self, prefix: &str, from: i64) -> Result<Watch, EtcdError> {
        let range = json!({ "key": encode(prefix), "range_end": encode(end_of(prefix)), "start_revision": from.to_string() });
        // Each watch is another endpoint's: one that is cut off from the others does not know it.
        let endpoint = self.endpoint(&self.watched);
        next(&self.watched);
        let begin = async {
            let body = json!({ "create_request": range });
            let response = self.http.post(format!("{endpoint}/v3/watch")).json(&body).send().await;
            let response = response.map_err(|error| no_answer(endpoint, error))?;
            let mut watch = Watch { endpoint: endpoint.to_owned(), response, unread: Vec::new() };
            // The first message says only that it watches.
            watch.next().await?;
            Ok(watch)
        };
        tokio::time::timeout(CALL, begin).await.unwrap_or_else(|late| Err(no_answer(endpoint, late)))
    }

    async fn call<T: for<'a> Deserialize<'a>>(&self, path: &str, body: &Value) -> Result<T, EtcdError> {
        let endpoint = self.endpoint(&self.asked);
        let ask = async {
            let request = self.http.post(format!("{endpoint}/v3/{path}")).timeout(CALL).json(body);
            let response = request.send().await.map_err(|error| no_answer(endpoint, error))?;
            let status = response.status();
            if !status.is_success() {
                let said = format!("{status}: {}", response.text().await.unwrap_or_default());
                return Err(EtcdError::Refused { endpoint: endpoint.to_owned(), said });
            }
            response.json().await.map_err(|error| no_answer(endpoint, error))
        };
        ask.await.inspect_err(|_| next(&self.asked))
    }

    fn endpoint(&self, turn: &AtomicUsize) -> &str {
        &self.endpoints[turn.load(Ordering::Relaxed) % self.endpoints.len()]
    }
}

fn next(turn: &AtomicUsize) {
    turn.fetch_add(1, Ordering::Relaxed);
}

/// A watch that has begun.
#[derive(Debug)]
pub struct Watch {
    endpoint: String,
    response: reqwest::Response,
    unread: Vec<u8>,
}

impl Watch {
    /// The next events, those of a revision together. May be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// The watch is over, because etcd is away or has forgotten the revision.
    pub async fn next(&mut self) -> Result<Vec<Event>, EtcdError> {
        let ended = || EtcdError::WatchEnded { endpoint: self.endpoint.clone() };
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let message: Message = serde_json::from_slice(&line).map_err(|_| ended())?;
                let said = message.result.filter(|said| !said.canceled).ok_or_else(ended)?;
                return Ok(said.events);
            }
            let piece = self.response.chunk().await.map_err(|error| no_answer(&self.endpoint, error))?;
            self.unread.extend_from_slice(&piece.ok_or_else(ended)?);
        }
    }
}

impl Compare {
    fn to_json(&self) -> Value {
        match self {
            Self::Is(key, value) => {
                json!({ "target": "VALUE", "result": "EQUAL", "key": encode(key), "value": encode(value) })
            }
            Self::Unchanged(key, revision) => {
                json!({ "target": "MOD", "result": "EQUAL", "key": encode(key), "mod_revision": revision.to_string() })
            }
        }
    }
}

impl Write {
    fn to_json(&self) -> Value {
        match self {
            Self::Put(key, value) => json!({ "request_put": { "key": encode(key), "value": encode(value) } }),
            Self::Delete(key) => json!({ "request_delete_range": { "key": encode(key) } }),
        }
    }
}

#[derive(Deserialize)]
struct Header {
    #[serde(deserialize_with = "number")]
    revision: i64,
}

#[derive(Deserialize)]
struct RangeAnswer {
    header: Header,
    #[serde(default)]
    kvs: Vec<Kv>,
}

#[derive(Deserialize)]
struct TxnAnswer {
    header: Header,
    #[serde(default)]
    succeeded: bool,
}

#[derive(Deserialize)]
struct Message {
    result: Option<Said>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    canceled: bool,
    #[serde(default)]
    events: Vec<Event>,
}

fn no_answer(endpoint: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> EtcdError {
    EtcdError::NoAnswer { endpoint: endpoint.to_owned(), source: source.into() }
}

/// The gateway speaks of bytes in base64.
fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64.encode(bytes)
}

fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let bytes = BASE64.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)?;
    String::from_utf8(bytes).map_err(serde::de::Error::custom)
}

/// The gateway writes large numbers as strings.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

/// The first key after all that begin with a prefix.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
