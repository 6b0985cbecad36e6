//! Requests to a cluster: by any of its endpoints, each within its own time, logged in if need be.
//!
//! A request that got no answer is sent again to the next endpoint. That is sound because every transaction compares the
//! revisions it rests on: one that was applied without an answer makes its own repetition fail its comparisons.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use super::address::Address;
use super::failure::{Verdict, judge};
use super::proto::auth_client::AuthClient;
use super::proto::kv_client::KvClient;
use super::proto::{AuthenticateRequest, RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use super::record::millis;
use crate::clock;
use crate::store::StoreError;

/// How long one endpoint may take where there is another, and where there is none. Where all are slow the first becomes
/// the second, until an answer comes promptly again.
const ATTEMPT: Duration = Duration::from_millis(900);
const ATTEMPT_MAX: Duration = Duration::from_secs(3);
const PROMPT: Duration = Duration::from_millis(300);
/// How often a request is sent, and how long is waited in between: the more often, the longer.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(40);
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// etcd closes connections of clients that ask more often than every 5 s whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(6);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);
/// The most that one answer may hold.
pub(super) const ANSWER_MAX: usize = 64 << 20;

/// A cluster's endpoints.
#[derive(Debug)]
pub(super) struct Client {
    peers: Vec<Peer>,
    current: AtomicUsize,
    login: Option<Login>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    /// How long one endpoint may take now, in milliseconds.
    patience: AtomicU64,
}

#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) host: String,
    pub(super) channel: Channel,
}

/// Whom to be.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) name: String,
    pub(super) password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({:?})", self.name)
    }
}

impl Client {
    pub(super) fn new(address: &Address) -> Result<Self, StoreError> {
        let mut peers = Vec::new();
        for host in &address.hosts {
            let scheme = if address.tls.is_some() { "https" } else { "http" };
            let bad = |error| StoreError::misconfigured(format!("{host} is not an address")).caused_by(error);
            let mut endpoint = Endpoint::from_shared(format!("{scheme}://{host}")).map_err(bad)?;
            if let Some(tls) = &address.tls {
                let unusable = |error| {
                    StoreError::misconfigured("the certificates for etcd cannot be used").caused_by(error)
                };
                endpoint = endpoint.tls_config(tls.clone()).map_err(unusable)?;
            }
            let endpoint = endpoint
                .connect_timeout(ATTEMPT_MAX)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
            peers.push(Peer { host: host.to_string(), channel: endpoint.connect_lazy() });
        }
        let login = address.login.clone();
        let patience = AtomicU64::new(millis(ATTEMPT));
        Ok(Self { peers, current: AtomicUsize::new(0), login, token: Mutex::default(), patience })
    }

    pub(super) fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// The endpoint that answered last.
    pub(super) fn current(&self) -> (usize, Peer) {
        let place = self.current.load(Ordering::Relaxed) % self.peers.len();
        (place, self.peers[place].clone())
    }

    /// The endpoint at `place` did not answer.
    pub(super) fn turn_from(&self, place: usize) {
        let next = (place + 1) % self.peers.len();
        // Whoever else turned from it was faster.
        let _ = self.current.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, StoreError> {
        self.call(request, |channel, request| async move {
            KvClient::new(channel).max_decoding_message_size(ANSWER_MAX).txn(request).await
        })
        .await
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, StoreError> {
        self.call(request, |channel, request| async move {
            KvClient::new(channel).max_decoding_message_size(ANSWER_MAX).range(request).await
        })
        .await
    }

    /// Sends a request to one endpoint after the other until one answers.
    pub(super) async fn call<Q, A, F, S>(&self, request: Q, send: S) -> Result<A, StoreError>
    where
        Q: Clone + Send,
        F: Future<Output = Result<Response<A>, Status>> + Send,
        S: Fn(Channel, Request<Q>) -> F + Send + Sync,
    {
        let mut logged_in = false;
        let mut pause = PAUSE;
        let mut tries = 1;
        loop {
            let (place, peer) = self.current();
            let error = match self.call_one(&peer, request.clone(), &send).await {
                Ok(answer) => return Ok(answer),
                Err(Verdict::Final(error)) => return Err(error),
                Err(Verdict::LogIn(error)) if logged_in => return Err(error),
                Err(Verdict::LogIn(_)) => {
                    logged_in = true;
                    self.forget_token();
                    continue;
                }
                Err(Verdict::Elsewhere(error)) => error,
            };
            self.turn_from(place);
            if tries == TRIES {
                return Err(error);
            }
            tries += 1;
            // Another endpoint is asked at once, the same one after a pause.
            if tries as usize > self.peers.len() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// Sends a request to one endpoint.
    pub(super) async fn call_one<Q, A, F, S>(&self, peer: &Peer, request: Q, send: &S) -> Result<A, Verdict>
    where
        F: Future<Output = Result<Response<A>, Status>> + Send,
        S: Fn(Channel, Request<Q>) -> F + Send + Sync,
    {
        let patience = self.patience.load(Ordering::Relaxed);
        let within = if self.peers.len() > 1 { Duration::from_millis(patience) } else { ATTEMPT_MAX };
        let sent = clock::now();
        let answer = tokio::time::timeout(within, async {
            let mut request = Request::new(request);
            if let Some(token) = self.token(peer).await? {
                request.metadata_mut().insert("token", token);
            }
            send(peer.channel.clone(), request).await.map_err(|status| judge(&peer.host, &status))
        });
        match answer.await {
            Ok(answer) => {
                if clock::now().since(sent) < PROMPT && patience > millis(ATTEMPT) {
                    self.be_patient(patience, ATTEMPT);
                }
                Ok(answer?.into_inner())
            }
            Err(_) => {
                self.be_patient(patience, (within * 2).min(ATTEMPT_MAX));
                Err(Verdict::Elsewhere(StoreError::unavailable(format!(
                    "etcd at {} has not answered for {} ms; the call may still take effect",
                    peer.host,
                    within.as_millis()
                ))))
            }
        }
    }

    fn be_patient(&self, before: u64, now: Duration) {
        // Of calls that learn the same at the same time one says so.
        let _ = self.patience.compare_exchange(before, millis(now), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// What shows who we are, if the address names somebody.
    pub(super) async fn token(&self, peer: &Peer) -> Result<Option<MetadataValue<Ascii>>, Verdict> {
        let Some(login) = &self.login else { return Ok(None) };
        if let Some(token) = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(Some(token));
        }
        let request = AuthenticateRequest { name: login.name.clone(), password: login.password.clone() };
        let answer = AuthClient::new(peer.channel.clone()).authenticate(request).await;
        let token = answer.map_err(|status| judge(&peer.host, &status))?.into_inner().token;
        let mut token: MetadataValue<Ascii> = token.parse().map_err(|_| {
            Verdict::Final(StoreError::unavailable("etcd answered a login with what is not a token"))
        })?;
        token.set_sensitive(true);
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(Some(token))
    }

    pub(super) fn forget_token(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
