//! Sessions on a Redis server: a key each, JSON in it, found by looking through the keys.
//!
//! Invariant: what a look does not show is gone. A look reads every key that it found and every one that was known before,
//! because looking through keys may show a key twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::{ErrorKind, ServerErrorKind, Value};

use super::duty::{self, Call, Duty};
use super::events::Events;
use super::reports::{Reports, shown};
use super::session::{Session, SessionKeys, literal};
use super::{FOUND_MAX, Record, Source, SourceError, TOGETHER, Targets, VALUE_MAX};
use crate::clock::{self, Moment};
use crate::lease::ResourceId;
use crate::store::redis::RedisLine;
use crate::store::{Listing, StoreError, StoreUrl};

/// How many keys the server looks through in one step; it serves nobody else meanwhile.
const STEP: usize = 500;
/// How long one look may take.
const LOOK_MAX: Duration = Duration::from_secs(30);

/// The text of a session, or why it has none that can be used; `None` if it is not there. And what it says.
type Text = Option<Result<Vec<u8>, String>>;
type Parsed = Option<Result<Session, String>>;

/// Sessions as resources: those that neither rest nor are marked as deleted.
#[derive(Debug)]
pub struct RedisSessions {
    line: RedisLine,
    keys: SessionKeys,
    duty: Duty,
    events: Events,
    known: Mutex<Known>,
}

/// What was found. Sessions go by the part of their key after the prefix.
#[derive(Debug, Default)]
struct Known {
    sessions: BTreeMap<String, Result<Session, String>>,
    deleted: BTreeSet<String>,
    paused: BTreeSet<ResourceId>,
    /// What follows from all that, and the names of those that are listed.
    listing: Listing,
    listed: BTreeSet<String>,
    digest: Option<(String, Moment)>,
    reports: Reports,
}

impl RedisSessions {
    /// Sessions on the server of the store at `url`.
    ///
    /// # Errors
    /// The store is on no Redis server, or the server cannot be reached or used.
    pub async fn open(url: &StoreUrl, keys: SessionKeys) -> Result<Self, StoreError> {
        keys.check()?;
        let line = RedisLine::open(url).await?;
        let duty = Duty::of(&line, &format!("{keys:?}"));
        let patterns = [keys.prefix.clone(), keys.deleted()].map(|prefix| format!("{}*", literal(&prefix)));
        let events = Events::of(line.clone(), &patterns);
        Ok(Self { line, keys, duty, events, known: Mutex::default() })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks through all keys and reads every session.
    async fn look(&self) -> Result<Listing, SourceError> {
        let at = clock::now();
        let (mut found, deleted) = self.scan().await?;
        found.extend(self.known().sessions.keys().cloned());
        let read = self.read(&found.into_iter().collect::<Vec<_>>()).await?;
        let sessions = read.into_iter().filter_map(|(name, session)| Some((name, session?))).collect();
        let (listing, listed) = {
            let mut known = self.known();
            (known.sessions, known.deleted) = (sessions, deleted);
            (self.sort_out(&mut known, at), known.listed.clone())
        };
        self.duty.tell(&self.line, &listing.id().0, &listed).await?;
        Ok(listing)
    }

    /// Reads what somebody else found otherwise, and looks through everything if that does not explain it.
    async fn compare(&self) -> Result<Listing, SourceError> {
        if let Some((digest, theirs)) = self.duty.told(&self.line).await? {
            let key = |name: &String| format!("{}{name}", self.keys.prefix);
            let other: BTreeSet<String> =
                self.known().listed.symmetric_difference(&theirs).map(key).collect();
            let listing = self.look_at(other).await?;
            if listing.id().0 == digest {
                return Ok(listing);
            }
        }
        self.look().await
    }

    /// The names of all sessions, and of those that are marked as deleted.
    async fn scan(&self) -> Result<(BTreeSet<String>, BTreeSet<String>), SourceError> {
        let (mut found, mut deleted, mut cursor) = (BTreeSet::new(), BTreeSet::new(), b"0".to_vec());
        let mark = self.keys.deleted();
        loop {
            let mut step = redis::cmd("SCAN");
            step.arg(&cursor).arg("MATCH").arg(self.keys.pattern()).arg("COUNT").arg(STEP);
            let answer = self.line.query(step).await.map_err(|error| self.forbidden(error))?;
            let (next, keys): (Vec<u8>, Vec<Vec<u8>>) =
                redis::from_redis_value(answer).map_err(|error| SourceError::Other(error.to_string()))?;
            for key in keys {
                let key = String::from_utf8_lossy(&key);
                if let Some(name) = key.strip_prefix(&mark) {
                    deleted.insert(name.to_owned());
                } else if let Some(name) = key.strip_prefix(&self.keys.prefix) {
                    found.insert(name.to_owned());
                }
            }
            if found.len() > FOUND_MAX {
                return Err(SourceError::Other(format!(
                    "{} has more than {FOUND_MAX} keys that begin with {:?}; split the pool",
                    self.line.place(),
                    self.keys.prefix
                )));
            }
            if next == b"0" {
                return Ok((found, deleted));
            }
            cursor = next;
        }
    }

    /// Reads these sessions; `None` for one that is not there.
    async fn read(&self, names: &[String]) -> Result<Vec<(String, Parsed)>, SourceError> {
        let texts = self.texts(names).await?.into_iter();
        let parsed = texts.map(|text| text.map(|text| text.and_then(|text| Ok(self.keys.parse(&text)?.0))));
        Ok(names.iter().cloned().zip(parsed).collect())
    }

    /// The texts of these sessions.
    async fn texts(&self, names: &[String]) -> Result<Vec<Text>, SourceError> {
        let mut texts = Vec::with_capacity(names.len());
        for part in names.chunks(TOGETHER) {
            let mut ask = redis::pipe();
            for name in part {
                ask.cmd("GETRANGE").arg(format!("{}{name}", self.keys.prefix)).arg(0).arg(VALUE_MAX);
            }
            for answer in self.line.each(ask).await.map_err(SourceError::Server)? {
                texts.push(self.text(answer)?);
            }
        }
        Ok(texts)
    }

    /// The text of a session, why it has none that can be used, or `None` if it is not there.
    fn text(&self, answer: Result<Value, redis::RedisError>) -> Result<Text, SourceError> {
        match answer {
            Ok(Value::BulkString(text)) if text.is_empty() => Ok(None),
            Ok(Value::BulkString(text)) => Ok(Some(Ok(text))),
            Ok(_) => Ok(None),
            Err(error) if error.code() == Some("WRONGTYPE") => {
                Ok(Some(Err("it is no text but a list, a set, a hash or a stream".to_owned())))
            }
            Err(error) => Err(self.forbidden(self.line.told(error))),
        }
    }

    /// Says what a user may not do who may not look for sessions.
    fn forbidden(&self, error: StoreError) -> SourceError {
        let cause =
            std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<redis::RedisError>());
        let denied = cause.is_some_and(|cause| cause.kind() == ErrorKind::Server(ServerErrorKind::NoPerm));
        if !denied {
            return SourceError::Server(error);
        }
        let prefix = &self.keys.prefix;
        SourceError::Server(StoreError::misconfigured(format!(
            "{} does not permit this user to find sessions; grant it +scan +getrange +exists ~{prefix}* ~{}*",
            self.line.place(),
            self.keys.deleted()
        )))
    }

    /// Reads again what changed, and nothing else.
    async fn look_at(&self, keys: BTreeSet<String>) -> Result<Listing, SourceError> {
        if keys.is_empty() {
            return Ok(self.known().listing.clone());
        }
        let mark = self.keys.deleted();
        let name = |key: &String| {
            let name = key.strip_prefix(&mark).or_else(|| key.strip_prefix(&self.keys.prefix));
            name.map(str::to_owned)
        };
        let names: Vec<String> = keys.iter().filter_map(name).collect::<BTreeSet<_>>().into_iter().collect();
        let read = self.read(&names).await?;
        let marked = self.marked(&names).await?;
        let mut known = self.known();
        for ((name, session), marked) in read.into_iter().zip(marked) {
            if marked {
                known.deleted.insert(name.clone())
            } else {
                known.deleted.remove(&name)
            };
            match session {
                Some(session) => known.sessions.insert(name, session),
                None => known.sessions.remove(&name),
            };
        }
        let at = known.digest.as_ref().map_or_else(clock::now, |(_, at)| *at);
        Ok(self.sort_out(&mut known, at))
    }

    /// Which of these are marked as deleted. As a rule none is: that takes one question for many.
    async fn marked(&self, names: &[String]) -> Result<Vec<bool>, SourceError> {
        let (mark, mut marked) = (self.keys.deleted(), Vec::with_capacity(names.len()));
        for part in names.chunks(TOGETHER) {
            let mut any = redis::cmd("EXISTS");
            any.arg(part.iter().map(|name| format!("{mark}{name}")).collect::<Vec<_>>());
            if self.line.query(any).await.map_err(|error| self.forbidden(error))? == Value::Int(0) {
                marked.resize(marked.len() + part.len(), false);
                continue;
            }
            let mut ask = redis::pipe();
            for name in part {
                ask.cmd("EXISTS").arg(format!("{mark}{name}"));
            }
            for answer in self.line.each(ask).await.map_err(SourceError::Server)? {
                let answer = answer.map_err(|error| self.forbidden(self.line.told(error)))?;
                marked.push(answer == Value::Int(1));
            }
        }
        Ok(marked)
    }

    /// What follows from all that is known.
    fn sort_out(&self, known: &mut Known, at: Moment) -> Listing {
        let (mut targets, mut paused, mut wrong) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let mut listed = BTreeSet::new();
        for (name, session) in &known.sessions {
            let key = format!("{}{name}", self.keys.prefix);
            match session {
                Err(why) => {
                    wrong.insert(key, why.clone());
                }
                Ok(session)
                    if known.deleted.contains(name) || known.deleted.contains(session.id.as_str()) => {}
                Ok(session) if session.paused => {
                    paused.insert(session.id.clone());
                }
                Ok(session) => match targets.get(&session.id) {
                    None => {
                        targets.insert(session.id.clone(), key);
                        listed.insert(name.clone());
                    }
                    Some(first) => {
                        let why = format!("it has the id {} of {}", session.id, shown(first));
                        wrong.insert(key, why);
                    }
                },
            }
        }
        known.reports.take(wrong);
        (known.paused, known.listed) = (paused, listed);
        let listing = Listing::new(targets.into_keys().collect()).unwrap_or_default();
        known.digest = Some((listing.id().0, at));
        known.listing = listing.clone();
        listing
    }
}

#[async_trait]
impl Source for RedisSessions {
    async fn list(&self) -> Result<Listing, SourceError> {
        let looking = async {
            let changed = self.events.take();
            let mine = self.known().digest.clone();
            let mine = mine.as_ref().map(|(digest, at)| (digest.as_str(), *at));
            match (self.duty.calls(&self.line, mine).await?, changed) {
                (Call::Look, _) | (_, None) => self.look().await,
                (Call::Compare, Some(keys)) => {
                    self.look_at(keys).await?;
                    self.compare().await
                }
                (Call::Rest, Some(keys)) => self.look_at(keys).await,
            }
        };
        match tokio::time::timeout(LOOK_MAX, looking).await {
            Ok(listing) => listing,
            Err(_) => Err(SourceError::Other(format!(
                "looking for sessions took longer than {LOOK_MAX:?}; has {} very many keys?",
                self.line.place()
            ))),
        }
    }

    fn period(&self) -> Option<Duration> {
        Some(duty::TICK)
    }

    async fn changed(&self) {
        self.events.some().await;
    }

    fn is_certain(&self) -> bool {
        true
    }

    fn rests(&self, resource: &ResourceId) -> bool {
        self.known().paused.contains(resource)
    }
}

#[async_trait]
impl Targets for RedisSessions {
    async fn records(&self, ids: &[ResourceId]) -> Result<Vec<Record>, SourceError> {
        let names: Vec<String> = {
            let known = self.known();
            let named =
                known.sessions.iter().filter_map(|(name, session)| Some((&session.as_ref().ok()?.id, name)));
            let named: BTreeMap<&ResourceId, &String> = named.collect();
            ids.iter().map(|id| named.get(id).map_or_else(|| id.to_string(), ToString::to_string)).collect()
        };
        let (marked, texts) = (self.marked(&names).await?, self.texts(&names).await?);
        let mut records = Vec::with_capacity(ids.len());
        for (((id, name), text), marked) in ids.iter().zip(&names).zip(texts).zip(marked) {
            let parsed = text.and_then(|text| self.keys.parse(&text.ok()?).ok());
            let record = match parsed {
                Some((session, _)) if marked || session.id != *id => Record::Gone,
                Some((session, _)) if session.paused => Record::Paused,
                Some((_, value)) => Record::Kept(value),
                None => Record::Gone,
            };
            if !matches!(record, Record::Kept(_)) {
                // It was listed: it is looked at again now, and not after a while.
                self.events.add(format!("{}{name}", self.keys.prefix));
            }
            records.push(record);
        }
        Ok(records)
    }
}
