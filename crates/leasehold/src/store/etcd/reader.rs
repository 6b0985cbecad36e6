//! Reading: every answer is one revision of the cluster, with the era of that revision.
//!
//! Long answers are read in pages, all at the revision of the first. A cursor is a revision.

use super::keys::{Key, after, end_of};
use super::proto::request_op::Request as Op;
use super::proto::response_op::Response as Answered;
use super::proto::{KeyValue, RangeRequest, RangeResponse, RequestOp, ResponseHeader, TxnRequest};
use super::record::{EraValue, decode, unreadable};
use super::transact::{Engine, range};
use crate::lease::Pool;
use crate::store::{Changed, Cursor, StoreError};

/// How many records one request brings.
const PAGE: i64 = 1000;
/// How often a reader begins again because the store was frozen or compacted under it.
const TRIES: usize = 5;

/// What was read at one revision.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) era: EraValue,
    pub(super) revision: i64,
    pub(super) kvs: Vec<KeyValue>,
}

impl Engine {
    /// Everything under `prefix` that changed after `since`.
    pub(super) async fn scan(&self, prefix: &Key, since: Cursor) -> Result<Seen, StoreError> {
        let since = i64::try_from(since.0).unwrap_or(i64::MAX - 1);
        let min_mod_revision = if since == 0 { 0 } else { since + 1 };
        let first = RangeRequest {
            key: prefix.clone(),
            range_end: end_of(prefix),
            limit: PAGE,
            min_mod_revision,
            ..RangeRequest::default()
        };
        for _ in 0..TRIES {
            let (era, header, mut pages) = self.look(vec![first.clone()]).await?;
            let mut seen = Seen { era, revision: header.revision, kvs: Vec::new() };
            let mut page = pages.pop().unwrap_or_default();
            loop {
                let more = page.more.then(|| page.kvs.last().map(|last| next_key(&last.key))).flatten();
                seen.kvs.append(&mut page.kvs);
                let Some(key) = more else { return Ok(seen) };
                let next = RangeRequest { key, revision: seen.revision, ..first.clone() };
                match self.client.range(next).await {
                    Ok(next) => page = next,
                    // The first page's revision is gone: begin again with a newer one.
                    Err(error) if is_compacted(&error) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Err(StoreError::unavailable("etcd forgets old revisions faster than they can be read; try again"))
    }

    /// Reads ranges and the era in one instant. A store that has forgotten something is frozen first.
    pub(super) async fn look(
        &self,
        ranges: Vec<RangeRequest>,
    ) -> Result<(EraValue, ResponseHeader, Vec<RangeResponse>), StoreError> {
        for _ in 0..TRIES {
            let before = self.lineage.memory();
            let mut success = vec![range(self.keys.era())];
            success.extend(
                ranges.iter().map(|range| RequestOp { request: Some(Op::RequestRange(range.clone())) }),
            );
            let answer = self.client.txn(TxnRequest { success, ..TxnRequest::default() }).await?;
            let strange = || StoreError::unavailable("etcd answered something else than was asked");
            let header = answer.header.ok_or_else(strange)?;
            let mut found = Vec::with_capacity(answer.responses.len());
            for response in answer.responses {
                let Some(Answered::ResponseRange(range)) = response.response else { return Err(strange()) };
                found.push(range);
            }
            if found.len() != ranges.len() + 1 {
                return Err(strange());
            }
            let era = found.remove(0).kvs.into_iter().next();
            let era: Option<EraValue> = era.map(|era| decode(&era.key, &era.value)).transpose()?;
            let follows = self.lineage.follows(&before, &header);
            match era {
                Some(era)
                    if follows
                        && era.cluster == header.cluster_id
                        && era.raft_term <= header.raft_term
                        && before.nonce == Some(era.nonce)
                        && self.lineage.accept(before.generation, &header, false, &era) =>
                {
                    return Ok((era, header, found));
                }
                // Something is new: it is judged, and perhaps frozen, by a call that may write.
                _ => self.notice().await?,
            }
        }
        Err(StoreError::unavailable("the store's era keeps changing; try again"))
    }

    /// What changed since a cursor, each key told by what follows the prefix.
    pub(super) async fn changed<T>(
        &self,
        prefix: &Key,
        since: Cursor,
        read: impl Fn(&str, &KeyValue) -> Result<T, StoreError>,
    ) -> Result<Changed<T>, StoreError> {
        if let Some(nothing) = self.nothing_changed(prefix, since).await? {
            return Ok(nothing);
        }
        let seen = self.scan(prefix, since).await?;
        let items = seen.kvs.iter().map(|kv| {
            let name = after(&kv.key, prefix).ok_or_else(|| unreadable(&kv.key))?;
            read(name, kv)
        });
        let items: Vec<T> = items.collect::<Result<_, _>>()?;
        Ok(Changed { era: seen.era.shown(), items, cursor: Cursor(seen.revision.unsigned_abs()) })
    }

    /// The answer to a reader that has seen everything in a large range. etcd would look at all of it to find nothing.
    async fn nothing_changed<T>(
        &self,
        prefix: &Key,
        since: Cursor,
    ) -> Result<Option<Changed<T>>, StoreError> {
        let Some(key) = self.keys.touched(prefix).filter(|_| since != Cursor::START) else { return Ok(None) };
        let (era, header, found) = self.look(vec![RangeRequest { key, ..RangeRequest::default() }]).await?;
        let touched =
            found.iter().flat_map(|range| &range.kvs).map(|kv| kv.mod_revision.unsigned_abs()).max();
        // Invariant: whatever is written in the range is written together with this key.
        Ok((touched.unwrap_or(0) <= since.0).then(|| Changed {
            era: era.shown(),
            items: Vec::new(),
            cursor: Cursor(header.revision.unsigned_abs()),
        }))
    }

    /// Every pool with a session, a lease or a declared resource, found by skipping from one to the next.
    pub(super) async fn pools(&self) -> Result<Vec<Pool>, StoreError> {
        let families = self.keys.of_pools();
        let mut pools = Vec::new();
        let mut from = families.clone();
        loop {
            let ranges = from.iter().zip(&families).map(|(key, family)| RangeRequest {
                key: key.clone(),
                range_end: end_of(family),
                limit: 1,
                keys_only: true,
                ..RangeRequest::default()
            });
            let (_, _, found) = self.look(ranges.collect()).await?;
            let mut ended = true;
            for ((found, family), from) in found.iter().zip(&families).zip(&mut from) {
                let Some(kv) = found.kvs.first() else {
                    from.clone_from(&end_of(family));
                    continue;
                };
                ended = false;
                let name = after(&kv.key, family).and_then(|rest| rest.split_once('/'));
                let (pool, _) = name.ok_or_else(|| unreadable(&kv.key))?;
                let pool: Pool = pool.parse().map_err(|_| unreadable(&kv.key))?;
                *from = end_of(&[family.as_slice(), pool.as_str().as_bytes(), b"/"].concat());
                pools.push(pool);
            }
            if ended {
                pools.sort_unstable();
                pools.dedup();
                return Ok(pools);
            }
        }
    }
}

/// The first key after `key`.
pub(super) fn next_key(key: &[u8]) -> Key {
    [key, &[0]].concat()
}

fn is_compacted(error: &StoreError) -> bool {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    cause.contains("has been compacted")
}
