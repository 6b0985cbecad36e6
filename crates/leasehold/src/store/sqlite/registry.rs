//! Marks, declared resources, listings and the ledger in the file.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use rusqlite::{Row, named_params};

use super::SqliteStore;
use super::era::integer;
use super::ledger;
use super::reader::{About, changed};
use super::sessions::{json, parse, unreadable};
use super::writer::{Class, Ground};
use crate::lease::{Pool, ResourceId};
use crate::ledger::Entry;
use crate::store::{
    Changed, Cursor, Declared, Listing, ListingId, Mark, MarkKind, Marked, Registry, StoreError, Version,
};

/// What a column that may be null has as JSON, whose own `null` is none too.
fn optional<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else { return Ok(None) };
    serde_json::from_str(text).map_err(unreadable)
}

#[async_trait]
impl Registry for SqliteStore {
    async fn marks(&self, pool: &Pool, since: Cursor) -> Result<Changed<Mark>, StoreError> {
        let pool = pool.clone();
        self.read(About::Aside, move |connection, era| {
            changed(connection, era, include_str!("marks.sql"), (&pool, since), |row| {
                let kind: String = row.get(0)?;
                let kind = MarkKind::parse(&kind).ok_or(rusqlite::Error::InvalidQuery)?;
                let version = Version(row.get(3)?);
                Ok(Mark { kind, subject: row.get(1)?, value: row.get(2)?, version })
            })
        })
        .await
    }

    async fn set_mark(
        &self,
        pool: &Pool,
        kind: MarkKind,
        subject: &str,
        value: Option<&str>,
        expected: Version,
    ) -> Result<Marked, StoreError> {
        let (pool, subject, value) = (pool.clone(), subject.to_owned(), value.map(str::to_owned));
        self.write((Class::Durable, Ground::Aside), move |txn| {
            let params = named_params! {":pool": pool.as_str(), ":kind": kind.as_str(), ":subject": subject};
            let found = txn.row(include_str!("mark.sql"), params, |row| row.get::<_, u64>(0))?.unwrap_or(0);
            if Version(found) != expected {
                return Ok(Marked::Conflict(Version(found)));
            }
            let params = named_params! {
                ":pool": pool.as_str(),
                ":kind": kind.as_str(),
                ":subject": subject,
                ":value": value,
                ":version": integer(found + 1),
                ":seq": txn.step(),
            };
            txn.run(include_str!("set_mark.sql"), params)?;
            txn.tell(&pool);
            Ok(Marked::Set(Version(found + 1)))
        })
        .await
    }

    async fn resources(&self, pool: &Pool, since: Cursor) -> Result<Changed<Declared>, StoreError> {
        let pool = pool.clone();
        self.read(About::Aside, move |connection, era| {
            changed(connection, era, include_str!("resources.sql"), (&pool, since), |row| {
                Ok(Declared {
                    resource: parse(row.get(0)?)?,
                    weight: row.get(1)?,
                    requires: serde_json::from_str(row.get_ref(2)?.as_str()?).map_err(unreadable)?,
                    removed: row.get(3)?,
                    version: Version(row.get(4)?),
                    labels: optional(row, 5)?.unwrap_or_default(),
                    document: optional(row, 6)?,
                })
            })
        })
        .await
    }

    async fn declare(&self, pool: &Pool, declared: &Declared) -> Result<Marked, StoreError> {
        let (pool, declared) = (pool.clone(), declared.clone());
        self.write((Class::Durable, Ground::Aside), move |txn| {
            let params = named_params! {":pool": pool.as_str(), ":resource": declared.resource.as_str()};
            let found =
                txn.row(include_str!("resource.sql"), params, |row| row.get::<_, u64>(0))?.unwrap_or(0);
            if Version(found) != declared.version {
                return Ok(Marked::Conflict(Version(found)));
            }
            let params = named_params! {
                ":pool": pool.as_str(),
                ":resource": declared.resource.as_str(),
                ":weight": declared.weight,
                ":requires": json(&declared.requires)?,
                ":labels": (!declared.labels.is_empty()).then(|| json(&declared.labels)).transpose()?,
                ":document": declared.document.as_ref().map(json).transpose()?,
                ":removed": declared.removed,
                ":version": integer(found + 1),
                ":seq": txn.step(),
            };
            txn.run(include_str!("declare.sql"), params)?;
            txn.tell(&pool);
            Ok(Marked::Set(Version(found + 1)))
        })
        .await
    }

    async fn publish(&self, pool: &Pool, id: &ListingId, listing: &Listing) -> Result<(), StoreError> {
        let (pool, id, listing) = (pool.clone(), id.clone(), listing.clone());
        self.write((Class::Durable, Ground::Aside), move |txn| {
            let content = json(&listing)?;
            let params = named_params! {":pool": pool.as_str(), ":id": id.0, ":content": content};
            txn.run(include_str!("publish.sql"), params)?;
            Ok(())
        })
        .await
    }

    async fn listing(&self, pool: &Pool, id: &ListingId) -> Result<Option<Listing>, StoreError> {
        let (pool, id) = (pool.clone(), id.clone());
        self.read(About::Aside, move |connection, _| {
            use rusqlite::OptionalExtension;
            let mut statement = connection.prepare_cached(include_str!("listing.sql"))?;
            let found = statement.query_row(named_params! {":pool": pool.as_str(), ":id": id.0}, |row| {
                serde_json::from_str(row.get_ref(0)?.as_str()?).map_err(unreadable)
            });
            Ok(found.optional()?)
        })
        .await
    }

    async fn collect_listings(&self, pool: &Pool) -> Result<(), StoreError> {
        let pool = pool.clone();
        self.write((Class::Lazy, Ground::Rows), move |txn| {
            txn.run(include_str!("collect_listings.sql"), named_params! {":pool": pool.as_str()})?;
            Ok(())
        })
        .await
    }

    async fn append(&self, pool: &Pool, entries: &[Entry]) -> Result<(), StoreError> {
        let (pool, entries) = (pool.clone(), entries.to_vec());
        let keep = integer(self.shared.rows_max.load(Ordering::Relaxed));
        self.write((Class::Lazy, Ground::Aside), move |txn| ledger::append(txn, &pool, &entries, keep)).await
    }

    fn keep_rows(&self, most: u64) {
        self.shared.rows_max.store(most, Ordering::Relaxed);
    }

    async fn ledger(
        &self,
        pool: &Pool,
        resource: Option<&ResourceId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Entry)>, StoreError> {
        let asked = ledger::Asked { pool: pool.clone(), resource: resource.cloned(), after, limit };
        self.read(About::Aside, move |connection, _| ledger::lines(connection, &asked)).await
    }
}
