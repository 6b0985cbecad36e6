//! Listings, in parts that etcd takes.
//!
//! Invariant: where the record of a listing is, all its parts are. It is written only while they are, and they go together.

use std::collections::BTreeSet;

use super::keys::{after, end_of};
use super::proto::RangeRequest;
use super::reader::next_key;
use super::record::{SessionValue, decode};
use super::transact::Engine;
use crate::lease::{Pool, ResourceId};
use crate::store::{Cursor, Listing, ListingId, StoreError};

/// How many ids one part holds: at most some 130 bytes each, and etcd takes 1.5 MiB.
const IDS: usize = 4000;
/// The most parts, so that they are written and removed in one transaction.
const PARTS_MAX: usize = 100;

impl Engine {
    pub(super) async fn publish(
        &self,
        pool: &Pool,
        id: &ListingId,
        listing: &Listing,
    ) -> Result<(), StoreError> {
        let record = self.keys.listing(pool, id);
        let parts: Vec<&[ResourceId]> = listing.ids().chunks(IDS).collect();
        if parts.len() > PARTS_MAX {
            return Err(StoreError::misconfigured(format!(
                "{} resources are more than an etcd store lists ({}); split the pool",
                listing.ids().len(),
                IDS * PARTS_MAX
            )));
        }
        let known: bool = self.transact(&[], |step| Ok(step.draft.bytes(&record)?.is_some())).await?;
        if known {
            // The same id is the same content.
            return Ok(());
        }
        for (number, ids) in parts.iter().enumerate() {
            let key = self.keys.listing_part(pool, id, number);
            self.transact(&[], |step| step.draft.put(key.clone(), ids)).await?;
        }
        let keys: Vec<_> = (0..parts.len()).map(|number| self.keys.listing_part(pool, id, number)).collect();
        let complete = self.transact(&[], |step| {
            step.draft.need(keys.iter().cloned().chain([record.clone()]))?;
            for key in &keys {
                if step.draft.bytes(key)?.is_none() {
                    return Ok(false);
                }
                step.draft.compare(key);
            }
            step.draft.put(record.clone(), &keys.len())?;
            Ok(true)
        });
        if !complete.await? {
            return Err(StoreError::unavailable("the listing was collected while it was written; try again"));
        }
        Ok(())
    }

    pub(super) async fn listing(&self, pool: &Pool, id: &ListingId) -> Result<Option<Listing>, StoreError> {
        let record = self.keys.listing(pool, id);
        let count = self.transact(&[], |step| step.draft.peek::<usize>(&record)).await?;
        let Some(count) = count else { return Ok(None) };
        let mut ids: Vec<ResourceId> = Vec::new();
        for number in 0..count {
            let key = self.keys.listing_part(pool, id, number);
            let part = self.transact(&[], |step| step.draft.peek::<Vec<ResourceId>>(&key)).await?;
            match part {
                Some(mut part) => ids.append(&mut part),
                // It was collected in the meantime.
                None => return Ok(None),
            }
        }
        Ok(Listing::new(ids).ok())
    }

    /// Forgets the listings that no living session of the pool publishes.
    pub(super) async fn collect_listings(&self, pool: &Pool) -> Result<(), StoreError> {
        let prefix = self.keys.sessions(pool);
        let sessions = self.scan(&prefix, Cursor::START, |_, kv| {
            let session: SessionValue = decode(&kv.key, &kv.value)?;
            Ok(session.profile.listing.filter(|_| !session.ended).map(|id| id.0))
        });
        let used: BTreeSet<String> = sessions.await?.items.into_iter().flatten().collect();
        for id in self.published(pool).await? {
            if !used.contains(&id) {
                self.forget_listing(pool, &ListingId(id)).await?;
            }
        }
        Ok(())
    }

    /// Every listing of which there is at least a part.
    async fn published(&self, pool: &Pool) -> Result<BTreeSet<String>, StoreError> {
        let prefix = self.keys.all_parts(pool);
        let mut found = BTreeSet::new();
        let mut key = prefix.clone();
        loop {
            let range_end = end_of(&prefix);
            let range =
                RangeRequest { key, range_end, limit: 1000, keys_only: true, ..RangeRequest::default() };
            let (_, _, mut pages) = self.look(vec![range]).await?;
            let page = pages.pop().unwrap_or_default();
            found.extend(page.kvs.iter().filter_map(|kv| listing_of(&kv.key, &prefix)).map(str::to_owned));
            match page.kvs.last().filter(|_| page.more) {
                Some(last) => key = next_key(&last.key),
                None => return Ok(found),
            }
        }
    }

    async fn forget_listing(&self, pool: &Pool, id: &ListingId) -> Result<(), StoreError> {
        let prefix = self.keys.listing_parts(pool, id);
        let range_end = end_of(&prefix);
        let range = RangeRequest { key: prefix, range_end, keys_only: true, ..RangeRequest::default() };
        let (_, _, mut pages) = self.look(vec![range]).await?;
        let parts = pages.pop().unwrap_or_default().kvs;
        let record = self.keys.listing(pool, id);
        self.transact(&[], |step| {
            step.draft.delete(record.clone());
            for part in &parts {
                step.draft.delete(part.key.clone());
            }
            Ok(())
        })
        .await
    }
}

/// The name of the listing that a part belongs to.
fn listing_of<'a>(key: &'a [u8], parts: &[u8]) -> Option<&'a str> {
    after(key, parts)?.split_once('/').map(|(id, _)| id)
}
