//! What surrounds ownership, behind a server.

use async_trait::async_trait;

use super::wire::{Position, calls};
use super::{HttpStore, failure};
use crate::lease::{Pool, ResourceId};
use crate::ledger::Entry;
use crate::store::{
    Changed, Cursor, Declared, Listing, ListingId, Mark, MarkKind, Marked, Registry, StoreError, Version,
};

#[async_trait]
impl Registry for HttpStore {
    async fn marks(&self, pool: &Pool, since: Cursor) -> Result<Changed<Mark>, StoreError> {
        let call = calls::MarksCall { pool: pool.clone(), since: Position(since) };
        Ok(self.line.call(&call).await?.value.read(Into::into))
    }

    async fn set_mark(
        &self,
        pool: &Pool,
        kind: MarkKind,
        subject: &str,
        value: Option<&str>,
        expected: Version,
    ) -> Result<Marked, StoreError> {
        let (subject, value) = (subject.to_owned(), value.map(str::to_owned));
        let call = calls::SetMarkCall { pool: pool.clone(), kind, subject, value, expected };
        Ok(self.line.call(&call).await?.value.into())
    }

    async fn resources(&self, pool: &Pool, since: Cursor) -> Result<Changed<Declared>, StoreError> {
        let call = calls::ResourcesCall { pool: pool.clone(), since: Position(since) };
        Ok(self.line.call(&call).await?.value.read(|declared| declared))
    }

    async fn declare(&self, pool: &Pool, declared: &Declared) -> Result<Marked, StoreError> {
        let call = calls::DeclareCall { pool: pool.clone(), declared: declared.clone() };
        Ok(self.line.call(&call).await?.value.into())
    }

    async fn publish(&self, pool: &Pool, id: &ListingId, listing: &Listing) -> Result<(), StoreError> {
        let (pool, id, listing) = (pool.clone(), id.clone(), listing.ids().to_vec());
        self.line.call(&calls::PublishCall { pool, id, listing }).await.map(|_| ())
    }

    async fn listing(&self, pool: &Pool, id: &ListingId) -> Result<Option<Listing>, StoreError> {
        let call = calls::ListingCall { pool: pool.clone(), id: id.clone() };
        let Some(ids) = self.line.call(&call).await?.value else { return Ok(None) };
        let twice = |_| failure::strange(self.line.place(), "a listing");
        Listing::new(ids).map(Some).map_err(twice)
    }

    async fn collect_listings(&self, pool: &Pool) -> Result<(), StoreError> {
        self.line.call(&calls::CollectListingsCall { pool: pool.clone() }).await.map(|_| ())
    }

    async fn append(&self, pool: &Pool, entries: &[Entry]) -> Result<(), StoreError> {
        let call = calls::AppendCall { pool: pool.clone(), entries: entries.to_vec() };
        self.line.call(&call).await.map(|_| ())
    }

    async fn ledger(
        &self,
        pool: &Pool,
        resource: Option<&ResourceId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Entry)>, StoreError> {
        let call = calls::LedgerCall { pool: pool.clone(), resource: resource.cloned(), after, limit };
        let rows = self.line.call(&call).await?.value;
        Ok(rows.into_iter().map(|row| (row.row, row.entry)).collect())
    }
}
