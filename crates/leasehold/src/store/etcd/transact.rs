//! Carries decisions out: reads what they need, commits what they write, and decides again where something changed.
//!
//! Invariant: an answer is given only if everything it rests on held in one transaction, and if the cluster's answers
//! follow from what this handle knew before they were asked for.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::client::Client;
use super::draft::{Draft, Stop, Versioned, Write};
use super::era::{Live, Step, new_era};
use super::keys::{Key, Keys};
use super::lineage::{Lineage, Memory};
use super::news::News;
use super::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use super::proto::request_op::Request as Op;
use super::proto::response_op::Response as Answered;
use super::proto::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp, ResponseHeader, TxnRequest,
    TxnResponse,
};
use super::record::{EraValue, decode, encode};
use crate::lease::Nonce;
use crate::store::StoreError;

/// How often a decision is made again because something changed in the meantime.
const TRIES: u32 = 32;
/// After so many a moment passes before the next, up to so long and each time longer, so that those who collide do not go on doing so
/// however many they are.
const TRIES_AT_ONCE: u32 = 2;
const PAUSE: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// How often a decision may find that it needs more.
const READS_MAX: u32 = 32;
/// How many keys are remembered from one call to the next.
const KNOWN_MAX: usize = 4096;
/// The most operations that etcd takes in one transaction unless it is set up otherwise.
pub(super) const OPS_MAX: usize = 128;

/// A handle's half of every call: the cluster and what is remembered of it.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) client: Arc<Client>,
    pub(super) keys: Keys,
    pub(super) lineage: Lineage,
    /// What the handle's last calls knew of the era and its own sessions, so that a heartbeat is one request.
    known: Mutex<HashMap<Key, Versioned>>,
    pub(super) news: News,
    pub(super) appends: tokio::sync::Mutex<()>,
}

impl Engine {
    pub(super) fn new(client: Client, keys: Keys) -> Self {
        let (known, news, appends) = (Mutex::default(), News::default(), tokio::sync::Mutex::default());
        Self { client: Arc::new(client), keys, lineage: Lineage::default(), known, news, appends }
    }

    /// Decides and carries out. `supposed` are the keys for which an earlier call's knowledge is good enough to begin with.
    pub(super) async fn transact<T: Send>(
        &self,
        supposed: &[Key],
        mut decide: impl FnMut(&mut Step<'_>) -> Result<T, Stop> + Send,
    ) -> Result<T, StoreError> {
        let mut attempt = Attempt::new(self, supposed);
        let (mut tries, mut reads) = (0, 0);
        while tries < TRIES && reads < READS_MAX {
            attempt.keep_up();
            match attempt.decide(&mut decide) {
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Need(keys)) => {
                    reads += 1;
                    attempt.read(&keys).await?;
                }
                Ok((answer, era)) => {
                    let settled = attempt.draft.is_settled();
                    if (settled || attempt.commit().await?) && attempt.accept(&era) {
                        attempt.remember(supposed);
                        return Ok(answer);
                    }
                    tries += 1;
                    if tries > TRIES_AT_ONCE {
                        tokio::time::sleep(pause(tries - TRIES_AT_ONCE)).await;
                    }
                }
            }
        }
        Err(StoreError::unavailable("others keep changing what this call rests on; try again"))
    }

    /// Freezes the store if it has forgotten something, and learns what era it is in.
    pub(super) async fn notice(&self) -> Result<(), StoreError> {
        self.transact(&[], |_| Ok(())).await
    }

    /// What an earlier call knew of a key.
    pub(super) fn known_value<T: serde::de::DeserializeOwned>(&self, key: &Key) -> Option<T> {
        serde_json::from_slice(self.known(key)?.value.as_deref()?).ok()
    }

    /// Writes the first era if there is none; gives back the one that is there otherwise.
    pub(super) async fn create_era(&self, frozen: bool) -> Result<Option<EraValue>, StoreError> {
        let key = self.keys.era();
        let look = || TxnRequest { success: vec![range(key.clone())], ..TxnRequest::default() };
        let answer = self.client.txn(look()).await?;
        let mut there = found(std::slice::from_ref(&key), &answer)?;
        if there.iter().all(|(_, found)| found.value.is_none()) {
            let era = new_era(&answer.header.unwrap_or_default(), frozen);
            let create = TxnRequest {
                compare: vec![unchanged(&key, &Versioned::default(), false)],
                success: vec![op(&key, &Write::Put(encode(&era)?.into(), 0))],
                failure: vec![range(key.clone())],
            };
            let answer = self.client.txn(create).await?;
            if answer.succeeded {
                return Ok(None);
            }
            there = found(std::slice::from_ref(&key), &answer)?;
        }
        let value = there.into_iter().find_map(|(_, found)| found.value);
        value.map(|value| decode(&key, &value)).transpose()
    }

    fn known(&self, key: &Key) -> Option<Versioned> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn forget_known(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// How long to wait before what has collided so often is tried again: any time up to a limit that doubles.
fn pause(collided: u32) -> Duration {
    let most = PAUSE.saturating_mul(1 << collided.min(16)).min(PAUSE_MAX);
    most.mul_f64(Nonce::generate().0 as f64 / u64::MAX as f64)
}

/// One call on its way.
struct Attempt<'a> {
    engine: &'a Engine,
    draft: Draft,
    /// What was known when this generation of answers began.
    before: Memory,
    header: Option<ResponseHeader>,
    fell: bool,
}

impl<'a> Attempt<'a> {
    fn new(engine: &'a Engine, supposed: &[Key]) -> Self {
        let mut draft = Draft::default();
        for key in supposed {
            if let Some(found) = engine.known(key) {
                draft.suppose(key.clone(), found);
            }
        }
        Self { engine, draft, before: engine.lineage.memory(), header: None, fell: false }
    }

    /// Begins anew if another call of this handle found the cluster to be another memory.
    fn keep_up(&mut self) {
        let now = self.engine.lineage.memory();
        if now.generation != self.before.generation {
            self.draft.clear();
            (self.header, self.fell) = (None, false);
        }
        if !self.fell {
            self.before = now;
        }
    }

    fn decide<T>(
        &mut self,
        decide: &mut impl FnMut(&mut Step<'_>) -> Result<T, Stop>,
    ) -> Result<(T, EraValue), Stop> {
        self.draft.begin();
        let live = Live { header: self.header.as_ref(), memory: self.before, fell: self.fell };
        let mut step = Step::begin(&mut self.draft, &self.engine.keys, live)?;
        let answer = decide(&mut step)?;
        Ok((answer, step.finish()?))
    }

    /// Takes in an answer's header; false if what was read before belongs to another memory.
    fn take(&mut self, header: Option<ResponseHeader>) -> Result<bool, StoreError> {
        let header = header.ok_or_else(|| StoreError::unavailable("etcd answered without a header"))?;
        let goes_on = self
            .header
            .as_ref()
            .is_none_or(|last| last.cluster_id == header.cluster_id && last.revision <= header.revision);
        let follows = self.fell || self.engine.lineage.follows(&self.before, &header);
        self.header = Some(header);
        if follows && goes_on {
            return Ok(true);
        }
        self.fell |= !follows;
        self.draft.clear();
        self.engine.forget_known();
        Ok(false)
    }

    async fn read(&mut self, keys: &[Key]) -> Result<(), StoreError> {
        // The era is read again with everything else, so that a short call sees one instant.
        let era = self.engine.keys.era();
        let with_era = std::iter::once(&era).chain(keys.iter().filter(|key| **key != era));
        let keys: Vec<Key> = with_era.cloned().collect();
        for keys in keys.chunks(OPS_MAX) {
            let success = keys.iter().map(|key| range(key.clone())).collect();
            let answer = self.engine.client.txn(TxnRequest { success, ..TxnRequest::default() }).await?;
            let found = found(keys, &answer)?;
            self.take(answer.header)?;
            self.draft.learn(found);
        }
        Ok(())
    }

    /// Commits if everything that the decision rests on is still the same; otherwise learns what it is now.
    async fn commit(&mut self) -> Result<bool, StoreError> {
        let compared: Vec<Key> = self.draft.compares().into_iter().map(|(key, _)| key.clone()).collect();
        let era = self.engine.keys.era();
        let compare: Vec<Compare> = self
            .draft
            .compares()
            .into_iter()
            .map(|(key, found)| unchanged(key, found, *key == era))
            .collect();
        let writes = self.draft.writes();
        let touched: BTreeSet<Key> =
            writes.keys().filter_map(|key| self.engine.keys.touched_with(key)).collect();
        let nothing = Write::Put(Arc::default(), 0);
        let success: Vec<RequestOp> = writes
            .iter()
            .map(|(key, write)| op(key, write))
            .chain(touched.iter().map(|key| op(key, &nothing)))
            .collect();
        if compare.len().max(success.len()) > OPS_MAX {
            return Err(StoreError::misconfigured("a call carries more than one transaction can hold"));
        }
        let failure = compared.iter().map(|key| range(key.clone())).collect();
        let answer = self.engine.client.txn(TxnRequest { compare, success, failure }).await?;
        let now = if answer.succeeded { Vec::new() } else { found(&compared, &answer)? };
        let succeeded = answer.succeeded;
        let same_memory = self.take(answer.header)?;
        if !succeeded {
            self.draft.learn(now);
        }
        Ok(succeeded && same_memory)
    }

    /// Whether the answer counts: the era it was decided in is the era of the cluster that answered.
    fn accept(&mut self, era: &EraValue) -> bool {
        let Some(header) = &self.header else { return false };
        // An era that was only supposed is held against the header here: the next decision sees the header and freezes.
        era.cluster == header.cluster_id
            && era.raft_term <= header.raft_term
            && self.engine.lineage.accept(self.before.generation, header, self.fell, era)
    }

    fn remember(&self, supposed: &[Key]) {
        let Some(header) = &self.header else { return };
        let mut known = self.engine.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > KNOWN_MAX {
            known.clear();
        }
        for key in supposed {
            match self.draft.after(key, header.revision) {
                Some(new) if known.get(key).is_none_or(|old| old.revision <= new.revision) => {
                    known.insert(key.clone(), new);
                }
                Some(_) => {}
                None => {
                    known.remove(key);
                }
            }
        }
    }
}

/// What one transaction said about each of some keys, in their order.
pub(super) fn found(keys: &[Key], answer: &TxnResponse) -> Result<Vec<(Key, Versioned)>, StoreError> {
    let each = keys.iter().zip(&answer.responses).map(|(key, response)| match &response.response {
        Some(Answered::ResponseRange(range)) => Ok((key.clone(), versioned(range.kvs.first()))),
        _ => Err(StoreError::unavailable("etcd answered something else than was asked")),
    });
    if keys.len() != answer.responses.len() {
        return Err(StoreError::unavailable("etcd answered less than was asked"));
    }
    each.collect()
}

fn versioned(kv: Option<&KeyValue>) -> Versioned {
    kv.map_or_else(Versioned::default, |kv| Versioned {
        revision: kv.mod_revision,
        value: Some(kv.value.as_slice().into()),
    })
}

pub(super) fn range(key: Key) -> RequestOp {
    RequestOp { request: Some(Op::RequestRange(RangeRequest { key, ..RangeRequest::default() })) }
}

/// A key is as it was found. Revisions are used again in a cluster that was set back; the era's value is not, because of
/// its nonce.
fn unchanged(key: &Key, found: &Versioned, by_value: bool) -> Compare {
    let (target, union) = match &found.value {
        Some(value) if by_value => (CompareTarget::Value, TargetUnion::Value(value.to_vec())),
        _ => (CompareTarget::Mod, TargetUnion::ModRevision(found.revision)),
    };
    Compare {
        result: CompareResult::Equal.into(),
        target: target.into(),
        key: key.clone(),
        target_union: Some(union),
    }
}

fn op(key: &Key, write: &Write) -> RequestOp {
    let request = match write {
        Write::Put(value, lease) => {
            Op::RequestPut(PutRequest { key: key.clone(), value: value.to_vec(), lease: *lease })
        }
        Write::Delete => {
            Op::RequestDeleteRange(DeleteRangeRequest { key: key.clone(), ..DeleteRangeRequest::default() })
        }
    };
    RequestOp { request: Some(request) }
}
