//! Reading: every answer is one revision of the cluster, with the era of that revision.
//!
//! What a log of changes answers instead (`news.rs`) is of that revision or of one right after it, and what came after is told again
//! from the cursor. One reader of a handle at a time reads a large range, and the others wait: etcd serves nobody sooner for being asked
//! by all of them.
//!
//! A cursor is a revision. Long answers are read in pages, each a request with a time of its own, all at the revision of the first.
//!
//! Invariant: pages are put together only if they are of one memory. A cluster that was set back uses revisions again, so every page's
//! answer is held against what was known before it was asked for, as any other; and where the revision was compacted in the
//! meantime, everything is read again.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::client::Client;
use super::failure::{COMPACTED, FUTURE};
use super::keys::{Key, after, end_of};
use super::news::{Listening, Touched};
use super::proto::request_op::Request as Op;
use super::proto::response_op::Response as Answered;
use super::proto::{KeyValue, RangeRequest, RangeResponse, RequestOp, ResponseHeader, TxnRequest};
use super::record::{EraValue, SessionValue, decode, unreadable};
use super::transact::{Engine, range};
use super::within;
use crate::lease::{MemberId, Pool};
use crate::store::{Changed, Cursor, Others, SessionRecord, StoreError};

/// How many records the first request for a range brings, how many times more each further one, and how many at most. With each
/// page etcd walks over all that is left of the range, so that small ones would cost more the more there is.
const PAGE: i64 = 1000;
const PAGE_GROWS: i64 = 8;
const PAGE_MAX: i64 = 50_000;
/// How often a reader begins again because the store was frozen or compacted under it.
const TRIES: usize = 5;

/// What was read at one revision.
#[derive(Debug)]
pub(super) struct Seen<T> {
    pub(super) era: EraValue,
    pub(super) revision: i64,
    pub(super) items: Vec<T>,
    touched: Touched,
}

impl Engine {
    /// Everything under `prefix` that changed after `since`, each key told by what follows the prefix.
    pub(super) async fn scan<T>(
        &self,
        prefix: &Key,
        since: Cursor,
        read: impl Fn(&str, &KeyValue) -> Result<T, StoreError>,
    ) -> Result<Seen<T>, StoreError> {
        // To find what changed etcd looks at everything, so that is done in as few pages as can be.
        let limit = if since == Cursor::START { PAGE } else { PAGE_MAX };
        let first = RangeRequest { limit, ..changed_after(prefix, since) };
        let touched = self.keys.touched(prefix).map(|key| RangeRequest { key, ..RangeRequest::default() });
        let ranges: Vec<RangeRequest> = std::iter::once(first.clone()).chain(touched).collect();
        for _ in 0..TRIES {
            let (era, header, mut found) = within(self.look(ranges.clone())).await?;
            let touched = found.get(1).and_then(|touched| touched.kvs.first());
            let (touched, page) = (Touched::of(touched), found.swap_remove(0));
            let seen = Seen { era, revision: header.revision, items: Vec::new(), touched };
            if let Some(seen) = self.read_on(seen, &header, page, &first, (prefix, &read)).await? {
                return Ok(seen);
            }
        }
        Err(StoreError::unavailable(
            "etcd forgets old revisions faster than they can be read, or is restored again and again; try again",
        ))
    }

    /// Reads the pages after the first, each while the one before it is taken in. `None` if the first one's revision cannot be read any
    /// more: it was compacted, or belongs to another memory.
    async fn read_on<T>(
        &self,
        mut seen: Seen<T>,
        header: &ResponseHeader,
        mut page: RangeResponse,
        first: &RangeRequest,
        (prefix, read): (&Key, &impl Fn(&str, &KeyValue) -> Result<T, StoreError>),
    ) -> Result<Option<Seen<T>>, StoreError> {
        let generation = self.lineage.memory().generation;
        let mut limit = first.limit;
        let mut asking = JoinSet::new();
        loop {
            let before = self.lineage.memory();
            let last = page.kvs.last().filter(|_| page.more);
            if let Some(last) = last {
                limit = (limit * PAGE_GROWS).min(PAGE_MAX);
                let (key, revision) = (next_key(&last.key), seen.revision);
                let next = RangeRequest { key, limit, revision, ..first.clone() };
                asking.spawn(ask(Arc::clone(&self.client), next));
            }
            for kv in &page.kvs {
                let name = after(&kv.key, prefix).ok_or_else(|| unreadable(&kv.key))?;
                seen.items.push(read(name, kv)?);
            }
            if last.is_none() {
                return Ok(Some(seen));
            }
            page = match asking.join_next().await {
                Some(Ok(Ok(next))) => next,
                Some(Ok(Err(error))) if is_of_no_revision(&error) => return Ok(None),
                Some(Ok(Err(error))) => return Err(error),
                Some(Err(_)) | None => return Err(StoreError::unavailable("the store on etcd has stopped")),
            };
            let goes_on = page.header.as_ref().is_some_and(|now| {
                before.generation == generation
                    && now.cluster_id == header.cluster_id
                    && now.raft_term >= header.raft_term
                    && self.lineage.follows(&before, now)
            });
            if !goes_on {
                return Ok(None);
            }
        }
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
        let is_large = self.keys.touched(prefix).is_some();
        let listening =
            is_large.then(|| self.news.listen(prefix, self.lineage.memory().generation)).flatten();
        if let Some(known) = self.changed_lately(prefix, since, listening, &read).await? {
            return Ok(known);
        }
        let reading = self.news.reading(prefix);
        let _reading = match reading.try_lock() {
            Ok(reading) => reading,
            Err(_) => {
                let reading = reading.lock().await;
                if let Some(known) = self.changed_lately(prefix, since, listening, &read).await? {
                    return Ok(known);
                }
                reading
            }
        };
        let seen = self.scan(prefix, since, &read).await?;
        if let Some(listening) = listening {
            // From here on the watch tells the rest.
            self.news.begin(prefix, listening, seen.touched);
        }
        let cursor = Cursor(seen.revision.unsigned_abs());
        Ok(Changed { era: seen.era.shown(), items: seen.items, cursor })
    }

    /// The answer to a reader of a large range who has seen all of it but the newest. etcd would look at the whole range.
    async fn changed_lately<T>(
        &self,
        prefix: &Key,
        since: Cursor,
        listening: Option<Listening>,
        read: &impl Fn(&str, &KeyValue) -> Result<T, StoreError>,
    ) -> Result<Option<Changed<T>>, StoreError> {
        let Some(key) = self.keys.touched(prefix).filter(|_| since != Cursor::START) else { return Ok(None) };
        let range = RangeRequest { key, ..RangeRequest::default() };
        let (era, header, found) = within(self.look(vec![range])).await?;
        let touched = Touched::of(found.first().and_then(|touched| touched.kvs.first()));
        let seen = i64::try_from(since.0).unwrap_or(i64::MAX);
        // Invariant: whatever is written in the range is written together with this key.
        let changes = match listening {
            _ if touched.revision <= seen => Vec::new(),
            None => return Ok(None),
            Some(listening) => match self.news.after(prefix, listening, seen, touched).await {
                Some(changes) => changes,
                None => return Ok(None),
            },
        };
        let items = changes.iter().map(|kv| {
            let name = after(&kv.key, prefix).ok_or_else(|| unreadable(&kv.key))?;
            read(name, kv)
        });
        let items = items.collect::<Result<_, _>>()?;
        Ok(Some(Changed { era: era.shown(), items, cursor: Cursor(header.revision.unsigned_abs()) }))
    }

    /// The sessions that changed, if nothing else in the pool did: all in one instant.
    pub(super) async fn sessions_if_quiet(
        &self,
        pool: &Pool,
        since: Cursor,
        others: Others,
    ) -> Result<Option<Changed<SessionRecord>>, StoreError> {
        let (sessions, marks) = (self.keys.sessions(pool), self.keys.marks(pool));
        let large = [self.keys.leases(pool), self.keys.resources(pool)];
        let mut ranges = vec![
            RangeRequest { limit: PAGE, ..changed_after(&sessions, since) },
            RangeRequest { limit: 1, keys_only: true, ..changed_after(&marks, others.marks) },
        ];
        let touched = large.iter().filter_map(|range| self.keys.touched(range));
        ranges.extend(touched.map(|key| RangeRequest { key, ..RangeRequest::default() }));
        let (era, header, found) = self.look(ranges).await?;
        let [changed, marks, leases, declared] = found.as_slice() else { return Ok(None) };
        let is_new = |range: &RangeResponse, since: Cursor| {
            range.kvs.first().is_some_and(|kv| kv.mod_revision.unsigned_abs() > since.0)
        };
        if changed.more
            || is_new(marks, others.marks)
            || is_new(leases, others.leases)
            || is_new(declared, others.declared)
        {
            return Ok(None);
        }
        let items = changed
            .kvs
            .iter()
            .map(|kv| session(after(&kv.key, &sessions).ok_or_else(|| unreadable(&kv.key))?, kv));
        let items = items.collect::<Result<_, _>>()?;
        Ok(Some(Changed { era: era.shown(), items, cursor: Cursor(header.revision.unsigned_abs()) }))
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

async fn ask(client: Arc<Client>, page: RangeRequest) -> Result<RangeResponse, StoreError> {
    within(client.range(page)).await
}

/// The first key after `key`.
pub(super) fn next_key(key: &[u8]) -> Key {
    [key, &[0]].concat()
}

/// What is under a prefix and changed after a cursor.
fn changed_after(prefix: &Key, since: Cursor) -> RangeRequest {
    let since = i64::try_from(since.0).unwrap_or(i64::MAX - 1);
    let min_mod_revision = if since == 0 { 0 } else { since + 1 };
    RangeRequest {
        key: prefix.clone(),
        range_end: end_of(prefix),
        min_mod_revision,
        ..RangeRequest::default()
    }
}

/// A session as readers see it.
pub(super) fn session(name: &str, kv: &KeyValue) -> Result<SessionRecord, StoreError> {
    let id: MemberId = name.parse().map_err(|_| unreadable(&kv.key))?;
    Ok(decode::<SessionValue>(&kv.key, &kv.value)?.shown(id))
}

/// Whether etcd has no such revision, because it was compacted or because the cluster was set back.
fn is_of_no_revision(error: &StoreError) -> bool {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    cause.contains(COMPACTED) || cause.contains(FUTURE)
}
