//! The ledger in etcd: numbered rows, a bounded number of them for each pool.

use super::draft::Stop;
use super::era::Step;
use super::keys::{Key, after, end_of};
use super::proto::request_op::Request as Op;
use super::proto::{DeleteRangeRequest, RangeRequest, RequestOp, TxnRequest};
use super::record::{decode, unreadable};
use super::transact::Engine;
use crate::lease::{Pool, ResourceId};
use crate::ledger::{Entry, Event};
use crate::store::StoreError;

/// How many rows a pool's ledger keeps, and how far it may grow beyond that before the oldest are dropped.
const LEDGER_MAX: u64 = 20_000;
const LEDGER_SLACK: u64 = 500;
/// How many rows are written at once, so that they fit into one transaction: a heartbeat's takes two operations.
const ROWS: usize = 110;
const ROWS_WITH_BEATS: usize = 50;
/// How many are read at once.
const PAGE: usize = 500;

impl Engine {
    pub(super) async fn append(&self, pool: &Pool, entries: &[Entry]) -> Result<(), StoreError> {
        let beats = entries.iter().any(|entry| entry.event == Event::Renewed);
        // All writers want the same next number. Those that share this handle need not fight for it.
        let _turn = self.appends.lock().await;
        for entries in entries.chunks(if beats { ROWS_WITH_BEATS } else { ROWS }) {
            let newest = self.transact(&[], |step| append(step, pool, entries)).await?;
            if let Some(last) = newest.filter(|last| *last > LEDGER_MAX && last % LEDGER_SLACK < ROWS as u64)
            {
                self.prune(pool, last - LEDGER_MAX).await?;
            }
        }
        Ok(())
    }

    /// Drops the rows up to and with `row`.
    async fn prune(&self, pool: &Pool, row: u64) -> Result<(), StoreError> {
        let key = self.keys.all_rows(pool);
        let range_end = self.keys.row(pool, row + 1);
        let drop = Op::RequestDeleteRange(DeleteRangeRequest { key, range_end });
        let success = vec![RequestOp { request: Some(drop) }];
        self.client.txn(TxnRequest { success, ..TxnRequest::default() }).await?;
        Ok(())
    }

    pub(super) async fn ledger(
        &self,
        pool: &Pool,
        resource: Option<&ResourceId>,
        after_row: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Entry)>, StoreError> {
        let prefix = self.keys.all_rows(pool);
        let mut rows = Vec::new();
        let mut last = after_row;
        while rows.len() < limit {
            let page = if resource.is_none() { PAGE.min(limit - rows.len()) } else { PAGE };
            let range = RangeRequest {
                key: self.keys.row(pool, last.saturating_add(1)),
                range_end: end_of(&prefix),
                limit: i64::try_from(page).unwrap_or(i64::MAX),
                ..RangeRequest::default()
            };
            let (_, _, mut pages) = self.look(vec![range]).await?;
            let found = pages.pop().unwrap_or_default();
            for kv in &found.kvs {
                last = after(&kv.key, &prefix)
                    .and_then(|row| row.parse().ok())
                    .ok_or_else(|| unreadable(&kv.key))?;
                let entry: Entry = decode(&kv.key, &kv.value)?;
                if resource.is_none_or(|id| entry.resource.as_ref() == Some(id)) {
                    rows.push((last, entry));
                }
            }
            if !found.more || found.kvs.is_empty() {
                break;
            }
        }
        rows.truncate(limit);
        Ok(rows)
    }
}

/// Writes rows; a member's heartbeat goes into the row of the one before it. Answers the newest row's number, if there
/// is a new one.
fn append(step: &mut Step<'_>, pool: &Pool, entries: &[Entry]) -> Result<Option<u64>, Stop> {
    let counter = step.keys.rows(pool);
    let renews = entries.iter().filter(|entry| entry.event == Event::Renewed);
    let places: Vec<Key> = renews.map(|entry| step.keys.renewed(pool, &entry.member)).collect();
    step.draft.need(places.iter().cloned().chain([counter.clone()]))?;
    let mut rows = Vec::new();
    for place in &places {
        if let Some(row) = step.draft.peek::<u64>(place)? {
            rows.push(step.keys.row(pool, row));
        }
    }
    step.draft.need(rows)?;
    let before = step.draft.peek::<u64>(&counter)?.unwrap_or(0);
    let mut last = before;
    for entry in entries {
        let place = (entry.event == Event::Renewed).then(|| step.keys.renewed(pool, &entry.member));
        let renewed = match &place {
            Some(place) => step.draft.peek::<u64>(place)?,
            None => None,
        };
        if let Some(row) = renewed {
            let key = step.keys.row(pool, row);
            // A row that is written in this same call was not read.
            let is_new = row > before;
            if is_new || step.draft.bytes(&key)?.is_some() {
                if !is_new {
                    // It must not have been dropped in the meantime: it would come back out of order.
                    step.draft.compare(&key);
                }
                step.draft.put(key, entry)?;
                continue;
            }
        }
        last += 1;
        step.draft.put(step.keys.row(pool, last), entry)?;
        if let Some(place) = place {
            step.draft.put(place, &last)?;
        }
    }
    if last > before {
        step.draft.compare(&counter);
        step.draft.put(counter, &last)?;
        return Ok(Some(last));
    }
    Ok(None)
}
