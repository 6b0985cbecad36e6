//! Leader keys for foreign eyes: an election that programs of another make take part in too.
//!
//! A mirrored resource is granted only together with its leader key, which must be absent or a member's of ours, and lies on
//! an etcd lease of the session's TTL. The record is the truth among members. Between members and foreigners the
//! leader key is, so exclusion there is as good as etcd's own clock.
//!
//! A leader key may vanish in two ways. Where etcd ended the lease under it, the holder does not care and puts it back.
//! Where the lease lives, somebody deleted the key and wants another leader: the term is told as revoked, and nobody has a new one
//! before its holder has let go.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tonic::Response;

use super::client::Client;
use super::draft::Stop;
use super::era::Step;
use super::keys::{Key, Keys};
use super::proto::lease_client::LeaseClient;
use super::proto::{LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest};
use super::record::LeaseValue;
use super::sessions::{Own, keep};
use crate::lease::{MemberId, Nonce, Pool, ResourceId, Term};
use crate::store::StoreError;

/// Which resources have a leader key.
#[derive(Debug, Clone, Default)]
pub(super) struct Mirrors(BTreeMap<(Pool, ResourceId), Key>);

impl Mirrors {
    /// Takes `POOL/RESOURCE=KEY` with `;` between them.
    pub(super) fn parse(text: &str, keys: &Keys) -> Result<Self, StoreError> {
        let mut mirrors = Self::default();
        for mirror in text.split(';').filter(|mirror| !mirror.is_empty()) {
            let wrong = || {
                StoreError::misconfigured(format!(
                    "mirror={mirror:?} is not POOL/RESOURCE=KEY, as in mirror=ccm/scheduler=/ccm/scheduler/leader"
                ))
            };
            let (place, key) = mirror.split_once('=').ok_or_else(wrong)?;
            let (pool, resource) = place.split_once('/').ok_or_else(wrong)?;
            let pool: Pool = pool.parse().map_err(|error| wrong().caused_by(error))?;
            let resource: ResourceId = resource.parse().map_err(|error| wrong().caused_by(error))?;
            mirrors.add(&pool, &resource, key, keys)?;
        }
        Ok(mirrors)
    }

    /// Gives a resource a leader key. The same again changes nothing.
    pub(super) fn add(
        &mut self,
        pool: &Pool,
        resource: &ResourceId,
        key: &str,
        keys: &Keys,
    ) -> Result<(), StoreError> {
        if key.is_empty() || key.as_bytes().starts_with(&keys.all()) {
            return Err(StoreError::misconfigured(format!(
                "the leader key {key:?} lies within the store's own prefix {}; use another key, or another prefix",
                String::from_utf8_lossy(&keys.all())
            )));
        }
        let place = (pool.clone(), resource.clone());
        let shared = self.0.iter().any(|(other, shown)| *shown == key.as_bytes() && *other != place);
        if shared || self.0.get(&place).is_some_and(|shown| *shown != key.as_bytes()) {
            return Err(StoreError::misconfigured(format!(
                "the leader key {key:?} and {pool}/{resource} belong together and to nothing else; name each once"
            )));
        }
        self.0.insert(place, key.as_bytes().to_vec());
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Pool, &ResourceId, &Key)> {
        self.0.iter().map(|((pool, resource), key)| (pool, resource, key))
    }

    /// Whether a resource of this name is mirrored in any pool.
    pub(super) fn concern(&self, resource: &ResourceId) -> bool {
        self.0.keys().any(|(_, mirrored)| mirrored == resource)
    }
}

/// The mirrors, and the etcd lease that a session's leader keys lie on.
#[derive(Debug)]
pub(super) struct Campaign {
    pub(super) mirrors: Arc<Mirrors>,
    pub(super) native: Option<Native>,
}

impl Campaign {
    pub(super) fn key(&self, pool: &Pool, resource: &ResourceId) -> Option<Key> {
        if self.mirrors.0.is_empty() {
            return None;
        }
        self.mirrors.0.get(&(pool.clone(), resource.clone())).cloned()
    }
}

/// Takes the leader key along with a grant. Answers the foreigner who has it, if one does.
pub(super) fn take(
    step: &mut Step<'_>,
    campaign: &Campaign,
    id: &MemberId,
    pool: &Pool,
    resource: &ResourceId,
) -> Result<Option<MemberId>, Stop> {
    let Some(key) = campaign.key(pool, resource) else { return Ok(None) };
    let native = campaign
        .native
        .ok_or_else(|| StoreError::unavailable("there is no etcd lease for the leader key; try again"))?;
    if let Some(value) = step.draft.bytes(&key)?
        && !is_ours(step, &value)?
    {
        return Ok(Some(foreigner(&value)));
    }
    step.draft.compare(&key);
    step.draft.put_on_lease(key, id.as_str().as_bytes(), native.lease);
    Ok(None)
}

/// Whether the value of a leader key is a member of ours. The record says that nobody holds the resource, so what such a
/// member left behind is overwritten.
fn is_ours(step: &mut Step<'_>, value: &[u8]) -> Result<bool, Stop> {
    let member = std::str::from_utf8(value).ok().and_then(|text| MemberId::new(text).ok());
    match member {
        Some(member) => Ok(step.pool_of(&member)?.is_some()),
        None => Ok(false),
    }
}

/// A name for whoever wrote the value.
fn foreigner(value: &[u8]) -> MemberId {
    let text = String::from_utf8_lossy(value);
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let name: String = text.chars().map(plain).take(100).collect();
    MemberId::new(&name).or_else(|_| MemberId::new("foreigner")).unwrap_or_else(|_| MemberId::generate())
}

/// Takes the leader key away with its term.
pub(super) fn give_back(
    step: &mut Step<'_>,
    campaign: &Campaign,
    holder: &MemberId,
    pool: &Pool,
    resource: &ResourceId,
) -> Result<(), Stop> {
    if let Some(key) = campaign.key(pool, resource)
        && step.draft.bytes(&key)?.as_deref() == Some(holder.as_str().as_bytes())
    {
        step.draft.compare(&key);
        step.draft.delete(key);
    }
    Ok(())
}

/// Puts leader keys back that etcd took away while the record says that the session holds their resources. Where somebody
/// else did, or a foreigner was faster, the term is told as revoked.
pub(super) fn refresh(
    step: &mut Step<'_>,
    campaign: &Campaign,
    id: &MemberId,
    own: &mut Own,
) -> Result<(), Stop> {
    let Some(native) = campaign.native else { return Ok(()) };
    let mirrors: Vec<(Key, Key, &ResourceId)> = (campaign.mirrors.iter())
        .filter(|(pool, ..)| **pool == own.pool)
        .map(|(pool, resource, key)| (step.keys.lease(pool, resource), key.clone(), resource))
        .collect();
    step.draft.need(mirrors.iter().flat_map(|(record, key, _)| [record.clone(), key.clone()]))?;
    for (record, key, resource) in mirrors {
        let held: Option<LeaseValue> = step.draft.peek(&record)?;
        let Some(held) = held.filter(|held| held.holder.as_ref() == Some(id) && !held.revoked) else {
            continue;
        };
        let value = step.draft.bytes(&key)?;
        match value {
            Some(value) if *value == *id.as_str().as_bytes() => {}
            Some(value) if !is_ours(step, &value)? => {
                tracing::warn!(%resource, by = %foreigner(&value), "a foreigner has the leader key; the term ends");
                revoke(step, id, own, record, held, resource)?;
            }
            None if native.carries_keys => {
                tracing::warn!(%resource, "somebody deleted the leader key; the term ends");
                revoke(step, id, own, record, held, resource)?;
            }
            _ => {
                step.draft.compare(&record);
                step.draft.compare(&key);
                step.draft.put_on_lease(key, id.as_str().as_bytes(), native.lease);
            }
        }
    }
    Ok(())
}

fn revoke(
    step: &mut Step<'_>,
    id: &MemberId,
    own: &mut Own,
    record: Key,
    held: LeaseValue,
    resource: &ResourceId,
) -> Result<(), Stop> {
    let term = Term { resource: resource.clone(), token: held.token };
    step.draft.compare(&record);
    step.draft.put(record, &LeaseValue { revoked: true, ..held })?;
    own.value.revoked.push(term);
    own.value.revoked.sort_unstable();
    keep(step, id, own)
}

/// Whether the session holds any mirrored resource.
pub(super) fn holds_any(
    step: &mut Step<'_>,
    campaign: &Campaign,
    id: &MemberId,
    pool: &Pool,
) -> Result<bool, Stop> {
    let mirrored = campaign.mirrors.iter().filter(|(of, ..)| *of == pool);
    let records: Vec<Key> = mirrored.map(|(pool, resource, _)| step.keys.lease(pool, resource)).collect();
    step.draft.need(records.iter().cloned())?;
    for record in records {
        let held: Option<LeaseValue> = step.draft.peek(&record)?;
        if held.is_some_and(|held| held.holder.as_ref() == Some(id)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The etcd leases of this handle's sessions.
#[derive(Debug, Default)]
pub(super) struct Natives(Mutex<HashMap<MemberId, Native>>);

/// An etcd lease.
#[derive(Debug, Clone, Copy)]
pub(super) struct Native {
    pub(super) lease: i64,
    ttl: Duration,
    /// Whether every leader key of the session was seen or put on it: one that is missing was then deleted.
    pub(super) carries_keys: bool,
}

impl Natives {
    fn find(&self, session: &MemberId) -> Option<Native> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(session).copied()
    }

    fn keep(&self, session: &MemberId, native: Option<Native>) {
        let mut natives = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match native {
            Some(native) => natives.insert(session.clone(), native),
            None => natives.remove(session),
        };
    }

    /// etcd has confirmed that the session's leader keys lie on this lease.
    pub(super) fn carries_keys(&self, session: &MemberId, native: Native) {
        if !native.carries_keys && self.find(session).is_some_and(|known| known.lease == native.lease) {
            self.keep(session, Some(Native { carries_keys: true, ..native }));
        }
    }

    /// The session's etcd lease, a new one if it has none that lives.
    pub(super) async fn lease_for(
        &self,
        client: &Client,
        session: &MemberId,
        ttl: Duration,
    ) -> Result<Native, StoreError> {
        if let Some(native) = self.find(session)
            && keep_alive(client, native.lease).await?
        {
            return Ok(native);
        }
        let native = Native { lease: grant(client, ttl).await?, ttl, carries_keys: false };
        self.keep(session, Some(native));
        Ok(native)
    }

    /// Keeps the session's etcd lease alive, if it has one; a lease that etcd has ended is replaced. What etcd does to its
    /// own leases does not concern the session, so nothing here fails.
    pub(super) async fn refresh(&self, client: &Client, session: &MemberId) -> Option<Native> {
        let native = self.find(session)?;
        match self.lease_for(client, session, native.ttl).await {
            Ok(native) => Some(native),
            Err(error) => {
                tracing::debug!(%error, "the etcd lease of the leader keys was not kept alive");
                None
            }
        }
    }

    /// Gives the session's etcd lease back, and with it every key that is left on it.
    pub(super) async fn end(&self, client: &Client, session: &MemberId) {
        let Some(native) = self.find(session) else { return };
        self.keep(session, None);
        let request = LeaseRevokeRequest { id: native.lease };
        let revoked = client.call(request, |channel, request| async move {
            LeaseClient::new(channel).lease_revoke(request).await
        });
        if let Err(error) = revoked.await {
            tracing::debug!(%error, "an etcd lease was not given back; it ends by itself");
        }
    }
}

async fn grant(client: &Client, ttl: Duration) -> Result<i64, StoreError> {
    let seconds = i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX).max(1);
    // The id is ours, so that a request that is sent twice grants one lease.
    let id = i64::try_from(Nonce::generate().0.max(1)).unwrap_or(1);
    let request = LeaseGrantRequest { ttl: seconds, id };
    let granted = client.call(request, |channel, request| async move {
        match LeaseClient::new(channel).lease_grant(request).await {
            Err(status) if status.message().contains("lease already exists") => Ok(Response::new(())),
            granted => granted.map(|granted| granted.map(|_| ())),
        }
    });
    granted.await.map(|()| id)
}

/// Whether the lease still lives. etcd answers a dead one with no time left, not with an error.
async fn keep_alive(client: &Client, lease: i64) -> Result<bool, StoreError> {
    let kept = client.call(lease, |channel, lease: tonic::Request<i64>| async move {
        let lease = lease.map(|id| Once(Some(LeaseKeepAliveRequest { id })));
        let mut answers = LeaseClient::new(channel).lease_keep_alive(lease).await?.into_inner();
        Ok(Response::new(answers.message().await?))
    });
    Ok(kept.await?.is_some_and(|kept| kept.ttl > 0))
}

/// A stream of one thing.
pub(super) struct Once<T>(pub(super) Option<T>);

impl<T: Unpin> futures_core::Stream for Once<T> {
    type Item = T;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        std::task::Poll::Ready(self.0.take())
    }
}
