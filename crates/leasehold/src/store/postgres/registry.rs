//! Marks, declared resources, listings and the ledger.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::PostgresStore;
use super::call::{Class, Reply, columns, reading, unreadable, writing};
use super::failure::Failure;
use super::lanes::Param;
use super::reads::parse;
use super::seen::integer;
use super::sessions::json;
use crate::lease::{Pool, ResourceId};
use crate::ledger::{Entry, Event};
use crate::store::{
    Changed, Cursor, Declared, Listing, ListingId, Mark, MarkKind, Marked, Registry, StoreError, Version,
};

/// How many lines the ledger keeps, and how many it drops at most with one call beyond those it takes in.
pub(super) const LEDGER_MAX: u64 = 200_000;
const LEDGER_STEP: usize = 64;

const MARKS: &str = reading!("read_marks($1, $2, $3, $4)", "r.kinds, r.subjects, r.contents, r.versions");
const RESOURCES: &str = reading!(
    "read_declared($1, $2, $3, $4)",
    "r.names, r.weights, r.requirements, r.labels, r.documents, r.removals, r.versions"
);
const LISTING: &str = reading!("read_listing($1, $2, $3)", "r.names");
const LEDGER: &str = reading!("read_ledger($1, $2, $3, $4, $5)", "r.numbers, r.entries");
const SET_MARK: &str = writing!("set_mark($1, $2, $3, $4, $5, $6)");
const DECLARE: &str = writing!("declare($1, $2, $3, $4, $5, $6, $7, $8, $9)");
const PUBLISH: &str = writing!("publish($1, $2, $3, $4)");
const COLLECT_LISTINGS: &str = writing!("collect_listings($1, $2)");
const APPEND: &str = writing!("append($1, $2, $3, $4, $5, $6, $7)");

#[async_trait]
impl Registry for PostgresStore {
    async fn marks(&self, pool: &Pool, since: Cursor) -> Result<Changed<Mark>, StoreError> {
        self.shared.read(MARKS, self.shared.since(pool, since), marks).await
    }

    async fn set_mark(
        &self,
        pool: &Pool,
        kind: MarkKind,
        subject: &str,
        value: Option<&str>,
        expected: Version,
    ) -> Result<Marked, StoreError> {
        let params = vec![
            Param::text(pool.as_str()),
            Param::text(kind.as_str()),
            Param::text(subject),
            Param::Text(value.map(str::to_owned)),
            Param::Int(integer(expected.0)),
        ];
        marked(&self.shared.write(Class::Write, SET_MARK, params).await?)
    }

    async fn resources(&self, pool: &Pool, since: Cursor) -> Result<Changed<Declared>, StoreError> {
        self.shared.read(RESOURCES, self.shared.since(pool, since), resources).await
    }

    async fn declare(&self, pool: &Pool, declared: &Declared) -> Result<Marked, StoreError> {
        let params = vec![
            Param::text(pool.as_str()),
            Param::text(declared.resource.as_str()),
            Param::Int(i64::from(declared.weight)),
            Param::text(json(&declared.requires)?),
            Param::Text((!declared.labels.is_empty()).then(|| json(&declared.labels)).transpose()?),
            Param::Text(declared.document.as_ref().map(json).transpose()?),
            Param::Flag(declared.removed),
            Param::Int(integer(declared.version.0)),
        ];
        marked(&self.shared.write(Class::Write, DECLARE, params).await?)
    }

    async fn publish(&self, pool: &Pool, id: &ListingId, listing: &Listing) -> Result<(), StoreError> {
        let params = vec![Param::text(pool.as_str()), Param::text(&*id.0), Param::text(json(listing)?)];
        self.shared.write(Class::Write, PUBLISH, params).await?;
        Ok(())
    }

    async fn listing(&self, pool: &Pool, id: &ListingId) -> Result<Option<Listing>, StoreError> {
        let params = vec![Param::text(pool.as_str()), Param::text(&*id.0)];
        let content = |row: &Row| {
            let found = columns::<&str>(row, "names")?.into_iter();
            found.map(|content| serde_json::from_str(content).map_err(unreadable)).collect()
        };
        Ok(self.shared.read(LISTING, params, content).await?.items.pop())
    }

    async fn collect_listings(&self, pool: &Pool) -> Result<(), StoreError> {
        self.shared.write(Class::Write, COLLECT_LISTINGS, vec![Param::text(pool.as_str())]).await?;
        Ok(())
    }

    async fn append(&self, pool: &Pool, entries: &[Entry]) -> Result<(), StoreError> {
        let resource = |entry: &Entry| entry.resource.as_ref().map(|resource| resource.as_str().to_owned());
        let renews = |entry: &Entry| (entry.event == Event::Renewed).then(|| entry.member.to_string());
        let lines: Result<Vec<_>, _> = entries.iter().map(|entry| json(entry).map(Some)).collect();
        // More than came in, so that the bound is reached again after it was lowered.
        let step = i64::try_from(entries.len() + LEDGER_STEP).unwrap_or(i64::MAX);
        let params = vec![
            Param::text(pool.as_str()),
            Param::Texts(entries.iter().map(resource).collect()),
            Param::Texts(entries.iter().map(renews).collect()),
            Param::Texts(lines?),
            Param::Int(integer(self.shared.rows_max.load(Ordering::Relaxed))),
            Param::Int(step),
        ];
        self.shared.write(Class::Write, APPEND, params).await?;
        Ok(())
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
        let params = vec![
            Param::text(pool.as_str()),
            Param::Text(resource.map(|resource| resource.as_str().to_owned())),
            Param::Int(integer(after)),
            Param::Int(i64::try_from(limit).unwrap_or(i64::MAX)),
        ];
        Ok(self.shared.read(LEDGER, params, lines).await?.items)
    }
}

fn marked(reply: &Reply) -> Result<Marked, StoreError> {
    match (reply.said.as_str(), reply.numbers.first()) {
        ("done", Some(Some(version))) => Ok(Marked::Set(Version(version.unsigned_abs()))),
        ("conflict", Some(Some(version))) => Ok(Marked::Conflict(Version(version.unsigned_abs()))),
        _ => Err(reply.unexpected()),
    }
}

fn marks(row: &Row) -> Result<Vec<Mark>, Failure> {
    let kinds = columns::<&str>(row, "kinds")?.into_iter();
    let (subjects, values) =
        (columns::<String>(row, "subjects")?, columns::<Option<String>>(row, "contents")?);
    let rows = kinds.zip(subjects).zip(values).zip(columns::<i64>(row, "versions")?);
    rows.map(|(((kind, subject), value), version)| {
        let kind = MarkKind::parse(kind).ok_or_else(|| unreadable(format!("the mark {kind:?}")))?;
        Ok(Mark { kind, subject, value, version: Version(version.unsigned_abs()) })
    })
    .collect()
}

fn resources(row: &Row) -> Result<Vec<Declared>, Failure> {
    let names = columns::<&str>(row, "names")?.into_iter();
    let (weights, requires) = (columns::<i64>(row, "weights")?, columns::<&str>(row, "requirements")?);
    let (labels, documents) =
        (columns::<Option<&str>>(row, "labels")?, columns::<Option<&str>>(row, "documents")?);
    let (removals, versions) = (columns::<bool>(row, "removals")?, columns::<i64>(row, "versions")?);
    let rows = names.zip(weights).zip(requires).zip(labels).zip(documents).zip(removals).zip(versions);
    rows.map(|((((((name, weight), requires), labels), document), removed), version)| {
        Ok(Declared {
            resource: parse(name)?,
            weight: u32::try_from(weight).map_err(unreadable)?,
            requires: serde_json::from_str(requires).map_err(unreadable)?,
            labels: optional(labels)?.unwrap_or_default(),
            document: optional(document)?,
            removed,
            version: Version(version.unsigned_abs()),
        })
    })
    .collect()
}

/// What a column that may be null has as JSON, whose own `null` is none too.
fn optional<T: serde::de::DeserializeOwned>(text: Option<&str>) -> Result<Option<T>, Failure> {
    text.map_or(Ok(None), |text| serde_json::from_str(text).map_err(unreadable))
}

fn lines(row: &Row) -> Result<Vec<(u64, Entry)>, Failure> {
    let rows = columns::<i64>(row, "numbers")?.into_iter().zip(columns::<&str>(row, "entries")?);
    let line = |(number, entry): (i64, &str)| {
        Ok((number.unsigned_abs(), serde_json::from_str(entry).map_err(unreadable)?))
    };
    rows.map(line).collect()
}
