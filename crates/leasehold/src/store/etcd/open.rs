//! From an address to a store: the server is looked at before anything is said about it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tonic::Request;
use tonic::transport::{ClientTlsConfig, Endpoint};

use super::address::Address;
use super::beats::Beats;
use super::checkup::{check_version, grade_of, status_of};
use super::client::{Client, Peer};
use super::era::another_format;
use super::failure::{Verdict, causes_of, trouble_with_tls};
use super::keys::Keys;
use super::proto::kv_client::KvClient;
use super::proto::maintenance_client::MaintenanceClient;
use super::proto::{RangeRequest, ResponseHeader, StatusRequest};
use super::record::FORMAT;
use super::transact::Engine;
use super::{EtcdStore, Listeners, Natives};
use crate::store::{Begin, Migrated, ServerUrl, StoreError};

/// How long opening may take, with every endpoint asked in turn.
const OPENING: Duration = Duration::from_secs(10);
/// How long an endpoint that was not understood may take to show what it speaks.
const PROBE: Duration = Duration::from_secs(2);

impl EtcdStore {
    /// Opens the store that the address names. One that knows nothing begins frozen.
    ///
    /// # Errors
    /// *Misconfigured* where waiting does not help: wrong password, TLS on one side only, a certificate that nobody vouches
    /// for, another version, endpoints of different clusters. *Unavailable* where trying again may.
    pub async fn open(url: &ServerUrl) -> Result<Self, StoreError> {
        let address = Address::of(url)?;
        bounded(OPENING, open(&address)).await
    }

    /// Creates the store's first era if it has none. One that is there is never touched.
    ///
    /// # Errors
    /// As for [`EtcdStore::open`].
    pub async fn migrate(url: &ServerUrl, begin: Begin) -> Result<Migrated, StoreError> {
        let address = Address::of(url)?;
        bounded(OPENING, async {
            let (engine, _) = reach(&address).await?;
            let there = engine.create_era(begin == Begin::Frozen).await?;
            match there.map(|era| era.format) {
                Some(format) if format != FORMAT => Err(another_format(format)),
                before => Ok(Migrated { before, now: FORMAT }),
            }
        })
        .await
    }
}

async fn bounded<T>(
    limit: Duration,
    opening: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(limit, opening).await.unwrap_or_else(|_| {
        Err(StoreError::unavailable(format!("etcd has not answered within {} s", limit.as_secs())))
    })
}

async fn open(address: &Address) -> Result<EtcdStore, StoreError> {
    let (engine, peer) = reach(address).await?;
    let index = index_after_era(&engine, &peer).await?;
    engine.transact(&[], |step| index.map_or(Ok(()), |index| step.note_index(index))).await?;
    let grade = grade_of(&engine.client).await?;
    let (engine, natives) = (Arc::new(engine), Arc::new(Natives::default()));
    let beats = Arc::new(Beats::new(Arc::clone(&engine), Arc::clone(&natives)));
    Ok(EtcdStore {
        engine,
        mirrors: watch::Sender::new(Arc::new(address.mirrors.clone())),
        natives,
        beats,
        listeners: Arc::new(Listeners::default()),
        runtime: tokio::runtime::Handle::current(),
        grade,
    })
}

/// Finds an endpoint that answers, and makes sure that all that do belong to one cluster of a version that can be used.
async fn reach(address: &Address) -> Result<(Engine, Peer), StoreError> {
    let client = Client::new(address)?;
    let mut first: Option<(Peer, ResponseHeader)> = None;
    let mut refused = None;
    for peer in client.peers() {
        match ask(&client, peer).await {
            Ok(header) => match &first {
                None => first = Some((peer.clone(), header)),
                Some((other, known)) if known.cluster_id != header.cluster_id => {
                    return Err(StoreError::misconfigured(format!(
                        "{} and {} belong to different etcd clusters; name the endpoints of one",
                        other.host, peer.host
                    )));
                }
                Some(_) => {}
            },
            Err(Verdict::Final(error)) => return Err(error),
            Err(Verdict::Elsewhere(error) | Verdict::LogIn(error)) => {
                refused.get_or_insert(error);
            }
        }
    }
    let Some((peer, _)) = first else {
        if let Some(misunderstanding) = other_language(address, client.peers()).await {
            return Err(misunderstanding);
        }
        let nobody = || StoreError::unavailable("no endpoint of the etcd cluster answers");
        let refused = refused.unwrap_or_else(nobody);
        // A server that misses a certificate may just hang up.
        return Err(if address.tls.is_some() && !address.shows_certificate {
            let advice = "no endpoint of the etcd cluster can be used; if they ask for a client's certificate, name one with ?cert=FILE&key=FILE";
            StoreError::unavailable(advice).caused_by(refused)
        } else {
            refused
        });
    };
    Ok((Engine::new(client, Keys::new(&address.prefix)), peer))
}

/// Whether an endpoint can be used: its version, and that it reads for us.
async fn ask(client: &Client, peer: &Peer) -> Result<ResponseHeader, Verdict> {
    let status = status_of(client, peer).await?;
    check_version(&status.version).map_err(Verdict::Final)?;
    status.header.ok_or_else(|| Verdict::Elsewhere(StoreError::unavailable("etcd answered without a header")))
}

/// How long the cluster's log is, on an endpoint that has applied everything that the era's record rests on: it has read
/// that record, and every read waits for what was confirmed before it.
async fn index_after_era(engine: &Engine, peer: &Peer) -> Result<Option<u64>, StoreError> {
    let read =
        |channel, request: Request<RangeRequest>| async move { KvClient::new(channel).range(request).await };
    let range = RangeRequest { key: engine.keys.era(), ..RangeRequest::default() };
    let asked = async {
        engine.client.call_one(peer, range, &read).await?;
        status_of(&engine.client, peer).await
    };
    match asked.await {
        Ok(status) => Ok(Some(status.raft_index)),
        // Another endpoint can be used all the same; its log is looked at by the next who opens.
        Err(Verdict::Elsewhere(_) | Verdict::LogIn(_)) => Ok(None),
        Err(Verdict::Final(error)) => Err(error),
    }
}

/// What is wrong where an endpoint speaks TLS and we do not, or the reverse. Nothing secret is said to it.
async fn other_language(address: &Address, peers: &[Peer]) -> Option<StoreError> {
    let peer = peers.first()?;
    let (found, said) = match address.tls {
        None => (speaks_tls(peer).await, "asks for TLS; use etcds:// instead of etcd://"),
        Some(_) => (speaks_plainly(peer).await, "does not speak TLS; use etcd:// instead of etcds://"),
    };
    found.then(|| StoreError::misconfigured(format!("etcd at {} {said}", peer.host)))
}

async fn speaks_tls(peer: &Peer) -> bool {
    let tls = ClientTlsConfig::new().with_native_roots();
    let endpoint =
        Endpoint::from_shared(format!("https://{}", peer.host)).and_then(|endpoint| endpoint.tls_config(tls));
    let Ok(endpoint) = endpoint else { return false };
    match tokio::time::timeout(PROBE, endpoint.connect()).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            let causes = causes_of(&tonic::Status::from_error(Box::new(error)));
            trouble_with_tls(&causes).is_some_and(|trouble| trouble.contains("certificate"))
        }
        Err(_) => false,
    }
}

async fn speaks_plainly(peer: &Peer) -> bool {
    let Ok(endpoint) = Endpoint::from_shared(format!("http://{}", peer.host)) else { return false };
    let mut plain = MaintenanceClient::new(endpoint.connect_lazy());
    tokio::time::timeout(PROBE, plain.status(StatusRequest {})).await.is_ok_and(|answer| answer.is_ok())
}
