//! The leases of a runner: the eight operations of document 004.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use leasehold::clock::Moment;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::call::{Answered, ClientError};
use crate::client::ControlPlaneClient;
use crate::words::{Lease, LeaseEvent, LeaseStatus, Wanted};

/// How long a lease lasts unless another TTL is set.
const TTL_SECONDS: u64 = 60;
/// How long is waited before events are asked for again.
const AGAIN: Duration = Duration::from_millis(500);
/// How long nothing may be heard of a stream: a remark comes every ten seconds.
const SILENCE: Duration = Duration::from_secs(35);

/// What became of a renewal.
#[derive(Debug, Clone, PartialEq)]
pub enum Renewal {
    /// It has more time; `pending` ones may have become `active`.
    Renewed(Box<Lease>),
    /// It is over, for good: stop.
    Lost {
        /// Why, in one word, as `lease_expired`.
        code: String,
    },
    /// Nobody knows. It is trusted for as long as it was.
    Unknown(ClientError),
}

/// Acquires, renews and releases leases.
#[derive(Debug)]
pub struct LeaseManager {
    client: ControlPlaneClient,
    ttl_seconds: AtomicU64,
}

/// With the moment until which an active lease is trusted.
fn trusted(Answered { value, sent }: Answered<Lease>) -> Lease {
    let ttl = Duration::from_secs(value.ttl_seconds);
    let until: Moment = sent.after(ttl - ttl / 10);
    Lease { trusted_until: (value.status == LeaseStatus::Active).then_some(until), ..value }
}

impl LeaseManager {
    /// Leases of this control plane, which last for a minute.
    #[must_use]
    pub fn new(client: ControlPlaneClient) -> Self {
        Self { client, ttl_seconds: AtomicU64::new(TTL_SECONDS) }
    }

    /// From now on leases are acquired for this long. Those that are there stay as they are.
    pub fn update_ttl(&self, seconds: u64) {
        self.ttl_seconds.store(seconds, Ordering::Relaxed);
    }

    async fn ask(
        &self,
        method: Method,
        parts: &[&str],
        body: Option<&Value>,
    ) -> Result<Answered<Lease>, ClientError> {
        let url = self.client.line.at(parts, &[]);
        self.client.line.ask(method, url, body, self.client.patience).await
    }

    /// Acquires the lease of a camera; `None` if somebody else has it, or this runner may not.
    ///
    /// # Errors
    /// What was asked for cannot be, or nobody knows. Then it may have been granted all the same: ask again, and it is answered
    /// with the same lease.
    pub async fn acquire_lease(
        &self,
        camera_uuid: &str,
        runner_id: &str,
        shard_id: &str,
    ) -> Result<Option<Lease>, ClientError> {
        let [camera_uuid, runner_id, shard_id] = [camera_uuid, runner_id, shard_id].map(str::to_owned);
        self.acquire(&Wanted { camera_uuid, runner_id, shard_id, ..Wanted::default() }).await
    }

    /// The same with everything that can be said. A lease that is `pending` is a reservation, and no leave to work.
    ///
    /// # Errors
    /// As with [`LeaseManager::acquire_lease`].
    pub async fn acquire(&self, wanted: &Wanted) -> Result<Option<Lease>, ClientError> {
        let mut body = serde_json::to_value(wanted).unwrap_or_default();
        body["ttl_seconds"] = json!(self.ttl_seconds.load(Ordering::Relaxed));
        match self.ask(Method::POST, &["leases", "acquire"], Some(&body)).await {
            Ok(answered) => Ok(Some(trusted(answered))),
            Err(error) if matches!(error.status(), Some(409 | 429)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renews a lease.
    pub async fn renew_lease(&self, lease_id: &str) -> Renewal {
        match self.ask(Method::PUT, &["leases", lease_id, "renew"], None).await {
            Ok(answered) => Renewal::Renewed(Box::new(trusted(answered))),
            Err(ClientError::Refused { status: 403 | 404 | 409 | 410, code, .. }) => Renewal::Lost { code },
            Err(error) => Renewal::Unknown(error),
        }
    }

    /// Releases a lease; `false` if there was nothing to release.
    ///
    /// # Errors
    /// It is another's, or nobody knows.
    pub async fn release_lease(&self, lease_id: &str) -> Result<bool, ClientError> {
        match self.ask(Method::DELETE, &["leases", lease_id, "release"], None).await {
            Ok(Answered { value, .. }) => Ok(value.status == LeaseStatus::Released),
            Err(ClientError::Refused { status: 404, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Says how the work under a lease goes; `false` if the lease is over. It extends nothing.
    ///
    /// # Errors
    /// It is another's, or nobody knows.
    pub async fn heartbeat(&self, lease_id: &str, stats: &Map<String, Value>) -> Result<bool, ClientError> {
        let body = json!({"processing_stats": stats});
        match self.ask(Method::POST, &["leases", lease_id, "heartbeat"], Some(&body)).await {
            Ok(_) => Ok(true),
            Err(ClientError::Refused { status: 404 | 409 | 410, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a lease stands.
    ///
    /// # Errors
    /// Nobody knows.
    pub async fn validate_lease(&self, lease_id: &str) -> Result<bool, ClientError> {
        let url = self.client.line.at(&["leases", lease_id, "validate"], &[]);
        match self.client.line.ask::<Value>(Method::GET, url, None, self.client.patience).await {
            Ok(answered) => Ok(answered.value["valid"] == json!(true)),
            Err(ClientError::Refused { status: 404, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The active leases of a runner, to look at.
    ///
    /// # Errors
    /// Nobody knows.
    pub async fn get_active_leases(&self, runner_id: &str) -> Result<Vec<Lease>, ClientError> {
        let url = self.client.line.at(&["leases", "runner", runner_id], &[]);
        let mut leases: Vec<Lease> =
            self.client.line.ask(Method::GET, url, None, self.client.patience).await?.value;
        leases.retain(|lease| lease.status == LeaseStatus::Active);
        Ok(leases)
    }

    /// Tells of everything that happens to the leases of a tenant, from the oldest event on that the control plane has, until it
    /// is dropped. A connection that breaks is made again, and goes on behind the last event.
    ///
    /// # Errors
    /// The control plane refuses.
    pub async fn watch_lease_events(
        &self,
        tenant_id: &str,
        mut callback: impl FnMut(LeaseEvent),
    ) -> Result<(), ClientError> {
        let mut last = String::new();
        loop {
            self.watch_once(tenant_id, &mut last, &mut callback).await?;
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn watch_once(
        &self,
        tenant_id: &str,
        last: &mut String,
        callback: &mut impl FnMut(LeaseEvent),
    ) -> Result<(), ClientError> {
        let url = self.client.line.at(&["leases", "events"], &[("tenant_id", tenant_id)]);
        let mut request = self.client.line.request(Method::GET, url);
        if !last.is_empty() {
            request = request.header("last-event-id", last.as_str());
        }
        let Ok(Ok(answer)) = tokio::time::timeout(SILENCE, request.send()).await else { return Ok(()) };
        let status = answer.status();
        if status.is_client_error() {
            let (code, message) = ("refused".to_owned(), format!("events are refused: {status}"));
            return Err(ClientError::Refused { status: status.as_u16(), code, message });
        }
        if !status.is_success() {
            return Ok(());
        }
        let (mut stream, mut read, mut id) = (answer.bytes_stream(), Vec::new(), String::new());
        while let Ok(Some(Ok(piece))) = tokio::time::timeout(SILENCE, stream.next()).await {
            read.extend_from_slice(&piece);
            while let Some(end) = read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = read.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                let line = line.trim_end();
                if let Some(number) = line.strip_prefix("id:") {
                    number.trim().clone_into(&mut id);
                } else if let Some(data) = line.strip_prefix("data:") {
                    // A gap is no event of a lease, and has no row.
                    if let Ok(event) = serde_json::from_str(data) {
                        callback(event);
                        last.clone_from(&id);
                    }
                }
            }
        }
        Ok(())
    }
}
