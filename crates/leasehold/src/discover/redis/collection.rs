//! A plain list on a Redis server: the members of a set, or the fields of a hash. Read whole, in one step of the server.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;

use super::reports::{Reports, shown};
use super::{FOUND_MAX, Record, Source, SourceError, TOGETHER, Targets, VALUE_MAX};
use crate::lease::ResourceId;
use crate::store::redis::RedisLine;
use crate::store::{Listing, StoreError, StoreUrl};

/// How often it is read: it is one small question of the server.
const EVERY: Duration = Duration::from_secs(2);

/// The members of a set or the fields of a hash as resources.
#[derive(Debug)]
pub struct RedisCollection {
    line: RedisLine,
    key: String,
    kind: Kind,
    reports: Mutex<Reports>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Set,
    Hash,
}

impl RedisCollection {
    /// The members of the set `key` on the server of the store at `url`. One that is not there has none.
    ///
    /// # Errors
    /// The store is on no Redis server, or the server cannot be reached or used.
    pub async fn set(url: &StoreUrl, key: &str) -> Result<Self, StoreError> {
        Self::open(url, key, Kind::Set).await
    }

    /// The fields of the hash `key`; the value of each is its address, or a JSON object about it.
    ///
    /// # Errors
    /// The store is on no Redis server, or the server cannot be reached or used.
    pub async fn hash(url: &StoreUrl, key: &str) -> Result<Self, StoreError> {
        Self::open(url, key, Kind::Hash).await
    }

    async fn open(url: &StoreUrl, key: &str, kind: Kind) -> Result<Self, StoreError> {
        let line = RedisLine::open(url).await?;
        Ok(Self { line, key: key.to_owned(), kind, reports: Mutex::default() })
    }

    fn wrong(&self, error: StoreError) -> SourceError {
        let what = if self.kind == Kind::Set { "set" } else { "hash" };
        let cause =
            std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<redis::RedisError>());
        match cause.and_then(redis::RedisError::code) {
            Some("WRONGTYPE") => SourceError::Other(format!(
                "the key {} on {} is no {what}; name one that is",
                shown(&self.key),
                self.line.place()
            )),
            Some("NOPERM") => SourceError::Server(StoreError::misconfigured(format!(
                "{} does not permit this user to read the {what}; grant it +scard +smembers +hlen +hkeys +hmget ~{}",
                self.line.place(),
                shown(&self.key)
            ))),
            _ => SourceError::Server(error),
        }
    }

    async fn ask(&self, command: &str) -> Result<Value, SourceError> {
        let mut ask = redis::cmd(command);
        ask.arg(&self.key);
        self.line.query(ask).await.map_err(|error| self.wrong(error))
    }
}

#[async_trait]
impl Source for RedisCollection {
    async fn list(&self) -> Result<Listing, SourceError> {
        let (count, names) = if self.kind == Kind::Set { ("SCARD", "SMEMBERS") } else { ("HLEN", "HKEYS") };
        match self.ask(count).await? {
            Value::Int(count) if usize::try_from(count).is_ok_and(|count| count > FOUND_MAX) => {
                return Err(SourceError::Other(format!(
                    "the key {} on {} has {count} entries; at most {FOUND_MAX} are allowed, so split the pool",
                    shown(&self.key),
                    self.line.place()
                )));
            }
            _ => {}
        }
        let names: Vec<Vec<u8>> = redis::from_redis_value(self.ask(names).await?)
            .map_err(|error| SourceError::Other(error.to_string()))?;
        let (mut ids, mut wrong) = (Vec::with_capacity(names.len()), BTreeMap::new());
        for name in names {
            let name = String::from_utf8_lossy(&name);
            match ResourceId::new(&name) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    wrong.insert(format!("{} in {}", shown(&name), self.key), error.to_string());
                }
            }
        }
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).take(wrong);
        // Neither a set nor the fields of a hash name anything twice.
        Ok(Listing::new(ids).unwrap_or_default())
    }

    fn period(&self) -> Option<Duration> {
        Some(EVERY)
    }

    fn is_certain(&self) -> bool {
        true
    }
}

#[async_trait]
impl Targets for RedisCollection {
    async fn records(&self, ids: &[ResourceId]) -> Result<Vec<Record>, SourceError> {
        let mut records = Vec::with_capacity(ids.len());
        for part in ids.chunks(TOGETHER) {
            if self.kind == Kind::Set {
                records.extend(part.iter().map(|_| Record::Kept(serde_json::json!({}))));
                continue;
            }
            let mut ask = redis::cmd("HMGET");
            ask.arg(&self.key).arg(part.iter().map(ResourceId::as_str).collect::<Vec<_>>());
            let answer = self.line.query(ask).await.map_err(|error| self.wrong(error))?;
            let values: Vec<Option<Vec<u8>>> =
                redis::from_redis_value(answer).map_err(|error| SourceError::Other(error.to_string()))?;
            records.extend(values.into_iter().map(|value| value.map_or(Record::Gone, |value| kept(&value))));
        }
        Ok(records)
    }
}

/// A JSON object as it is; anything else is an address.
fn kept(value: &[u8]) -> Record {
    if value.len() > VALUE_MAX {
        return Record::Gone;
    }
    match serde_json::from_slice(value) {
        Ok(object @ serde_json::Value::Object(_)) => Record::Kept(object),
        _ => Record::Kept(serde_json::json!({ "address": String::from_utf8_lossy(value) })),
    }
}
