//! Marks, declared resources, listings and the ledger on the server.

use async_trait::async_trait;

use super::args::{Args, json};
use super::failure::unreadable;
use super::pages::{Kinds, changed};
use super::reply::Reply;
use super::{ITEMS_MAX, RedisStore, scripts};
use crate::lease::{Pool, ResourceId};
use crate::ledger::{Entry, Event};
use crate::store::{
    Changed, Cursor, Declared, Listing, ListingId, Mark, MarkKind, Marked, Registry, StoreError, Version,
};

/// How many lines the ledger of a pool keeps: a server's memory is dear.
const LEDGER_MAX: u64 = 50_000;

const MARKS: Kinds = Kinds { name: "marks", fields: &["version", "value"] };
const DECLARED: Kinds =
    Kinds { name: "declared", fields: &["version", "weight", "requires", "removed", "labels", "document"] };

impl RedisStore {
    async fn put(&self, args: Args) -> Result<Marked, StoreError> {
        let mut reply = self.write(&scripts::PUT, args).await?;
        let version = Version(reply.rest.number()?);
        match reply.word.as_str() {
            "set" => Ok(Marked::Set(version)),
            "conflict" => Ok(Marked::Conflict(version)),
            _ => Err(reply.strange()),
        }
    }

    fn mark_name(&self, name: &str) -> Result<(MarkKind, String), StoreError> {
        let parts = name.split_once(':').and_then(|(kind, subject)| Some((MarkKind::parse(kind)?, subject)));
        let (kind, subject) = parts.ok_or_else(|| unreadable(&self.shared.address.place, "a mark"))?;
        Ok((kind, subject.to_owned()))
    }
}

#[async_trait]
impl Registry for RedisStore {
    async fn marks(&self, pool: &Pool, since: Cursor) -> Result<Changed<Mark>, StoreError> {
        changed(&self.shared, &MARKS, pool, since, |row| {
            let (version, value) = (Version(row.number()?), row.optional()?);
            let (kind, subject) = self.mark_name(&row.text()?)?;
            Ok(((kind, subject.clone()), Mark { kind, subject, value, version }))
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
        let name = format!("{}:{subject}", kind.as_str());
        let mut args = Args::of([MARKS.name, pool.as_str()]).text(name).number(expected.0);
        if let Some(value) = value {
            args = args.text("value").text(value);
        }
        self.put(args).await
    }

    async fn resources(&self, pool: &Pool, since: Cursor) -> Result<Changed<Declared>, StoreError> {
        changed(&self.shared, &DECLARED, pool, since, |row| {
            let version = Version(row.number()?);
            let weight = u32::try_from(row.number()?).unwrap_or(u32::MAX);
            let (requires, removed) = (row.json()?, row.flag()?);
            let labels = row.optional_json()?.unwrap_or_default();
            let document = row.optional_json()?;
            let resource: ResourceId = row.id()?;
            let declared =
                Declared { resource: resource.clone(), weight, requires, labels, document, removed, version };
            Ok((resource, declared))
        })
        .await
    }

    async fn declare(&self, pool: &Pool, declared: &Declared) -> Result<Marked, StoreError> {
        let mut args = Args::of([DECLARED.name, pool.as_str(), declared.resource.as_str()])
            .number(declared.version.0)
            .text("weight")
            .number(declared.weight.into())
            .text("requires")
            .text(json(&declared.requires)?)
            .text("removed")
            .number(declared.removed.into());
        if !declared.labels.is_empty() {
            args = args.text("labels").text(json(&declared.labels)?);
        }
        if let Some(document) = &declared.document {
            args = args.text("document").text(json(document)?);
        }
        self.put(args).await
    }

    async fn publish(&self, pool: &Pool, id: &ListingId, listing: &Listing) -> Result<(), StoreError> {
        let args = Args::of([pool.as_str(), id.0.as_str()]).text(json(listing)?);
        self.write(&scripts::PUBLISH, args).await.map(drop)
    }

    async fn listing(&self, pool: &Pool, id: &ListingId) -> Result<Option<Listing>, StoreError> {
        let args = Args::of([pool.as_str(), id.0.as_str()]);
        let mut reply = self.read(&scripts::LISTING, args).await?;
        let Some(content) = reply.rest.optional()? else { return Ok(None) };
        let listing = serde_json::from_str(&content);
        listing.map(Some).map_err(|_| unreadable(&self.shared.address.place, "a listing"))
    }

    async fn collect_listings(&self, pool: &Pool) -> Result<(), StoreError> {
        self.write(&scripts::COLLECT_LISTINGS, Args::of([pool.as_str()])).await.map(drop)
    }

    async fn append(&self, pool: &Pool, entries: &[Entry]) -> Result<(), StoreError> {
        for part in entries.chunks(ITEMS_MAX) {
            let mut args = Args::of([pool.as_str()]).number(LEDGER_MAX);
            for entry in part {
                let resource = entry.resource.as_ref().map_or("", ResourceId::as_str);
                let renews = if entry.event == Event::Renewed { entry.member.as_str() } else { "" };
                args = args.text(resource).text(renews).text(json(entry)?);
            }
            self.write(&scripts::APPEND, args).await?;
        }
        Ok(())
    }

    async fn ledger(
        &self,
        pool: &Pool,
        resource: Option<&ResourceId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Entry)>, StoreError> {
        let mut lines = Vec::new();
        let mut after = after;
        while lines.len() < limit {
            let count = (limit - lines.len()).min(ITEMS_MAX);
            let args = Args::of([pool.as_str(), resource.map_or("", ResourceId::as_str)]);
            let args = args.number(after).number(count as u64);
            let reply: Reply = self.read(&scripts::LEDGER, args).await?;
            let part = { reply }.rest.list(|line| Ok((line.number()?, line.json()?)))?;
            let Some((last, _)) = part.last() else { break };
            after = *last;
            lines.extend(part);
        }
        Ok(lines)
    }
}
