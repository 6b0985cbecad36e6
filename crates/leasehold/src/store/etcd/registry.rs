//! Marks, declared resources, listings and the ledger in etcd.

use async_trait::async_trait;

use super::record::{MarkValue, decode, unreadable};
use super::{EtcdStore, on_the_whole, within};
use crate::lease::{Pool, ResourceId};
use crate::ledger::Entry;
use crate::store::{
    Changed, Cursor, Declared, Listing, ListingId, Mark, MarkKind, Marked, Registry, StoreError, Version,
};

#[async_trait]
impl Registry for EtcdStore {
    async fn marks(&self, pool: &Pool, since: Cursor) -> Result<Changed<Mark>, StoreError> {
        let prefix = self.engine.keys.marks(pool);
        let read = self.engine.changed(&prefix, since, |name, kv| {
            let (kind, subject) = name.split_once('/').ok_or_else(|| unreadable(&kv.key))?;
            let kind = MarkKind::parse(kind).ok_or_else(|| unreadable(&kv.key))?;
            let MarkValue { value, version } = decode(&kv.key, &kv.value)?;
            Ok(Mark { kind, subject: subject.to_owned(), value, version })
        });
        on_the_whole(read).await
    }

    async fn set_mark(
        &self,
        pool: &Pool,
        kind: MarkKind,
        subject: &str,
        value: Option<&str>,
        expected: Version,
    ) -> Result<Marked, StoreError> {
        let key = self.engine.keys.mark(pool, kind, subject);
        within(self.engine.transact(&[], |step| {
            let found: Option<MarkValue> = step.draft.read(&key)?;
            let found = found.map_or(Version(0), |found| found.version);
            if found != expected {
                return Ok(Marked::Conflict(found));
            }
            let version = Version(found.0 + 1);
            step.draft.put(key.clone(), &MarkValue { value: value.map(str::to_owned), version })?;
            Ok(Marked::Set(version))
        }))
        .await
    }

    async fn resources(&self, pool: &Pool, since: Cursor) -> Result<Changed<Declared>, StoreError> {
        let prefix = self.engine.keys.resources(pool);
        on_the_whole(self.engine.changed(&prefix, since, |_, kv| decode(&kv.key, &kv.value))).await
    }

    async fn declare(&self, pool: &Pool, declared: &Declared) -> Result<Marked, StoreError> {
        let key = self.engine.keys.resource(pool, &declared.resource);
        within(self.engine.transact(&[], |step| {
            let found: Option<Declared> = step.draft.read(&key)?;
            let found = found.map_or(Version(0), |found| found.version);
            if found != declared.version {
                return Ok(Marked::Conflict(found));
            }
            let version = Version(found.0 + 1);
            step.draft.put(key.clone(), &Declared { version, ..declared.clone() })?;
            Ok(Marked::Set(version))
        }))
        .await
    }

    async fn publish(&self, pool: &Pool, id: &ListingId, listing: &Listing) -> Result<(), StoreError> {
        within(self.engine.publish(pool, id, listing)).await
    }

    async fn listing(&self, pool: &Pool, id: &ListingId) -> Result<Option<Listing>, StoreError> {
        within(self.engine.listing(pool, id)).await
    }

    async fn collect_listings(&self, pool: &Pool) -> Result<(), StoreError> {
        within(self.engine.collect_listings(pool)).await
    }

    async fn append(&self, pool: &Pool, entries: &[Entry]) -> Result<(), StoreError> {
        within(self.engine.append(pool, entries)).await
    }

    async fn ledger(
        &self,
        pool: &Pool,
        resource: Option<&ResourceId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Entry)>, StoreError> {
        within(self.engine.ledger(pool, resource, after, limit)).await
    }
}
