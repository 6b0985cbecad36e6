//! Who looks through all keys: one of those that look for the same, every few seconds, so that many cost no more than one.
//!
//! Whoever has the duty publishes a digest and the names of what it found. Who finds another digest than its own reads what it
//! had otherwise: nobody takes another's word for what there is. The server's clock ends a duty; where it goes wrong, everybody
//! still looks now and then.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::Value;

use super::super::SourceError;
use crate::clock::{self, Moment};
use crate::plan::rendezvous::hash_id;
use crate::store::redis::RedisLine;

/// How often it is asked whether there is anything to do.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// How long one duty lasts. With a tick it is what may pass between two looks.
const DUTY: Duration = Duration::from_secs(4);
/// How long a digest is kept.
const DIGEST_KEPT: Duration = Duration::from_secs(60);
/// How long anybody relies on the others.
const ALONE_EVERY: Duration = Duration::from_secs(900);
/// The most bytes that names may have; where there are more, everybody looks.
const NAMES_MAX: usize = 4 * 1024 * 1024;

/// What there is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Call {
    Rest,
    /// Somebody found something else.
    Compare,
    Look,
}

/// The duty of those who look for the same.
#[derive(Debug)]
pub(super) struct Duty {
    key: String,
    digest_key: String,
    names_key: String,
}

impl Duty {
    /// `what` names all that decides what is found.
    pub(super) fn of(line: &RedisLine, what: &str) -> Self {
        let key = line.key(&format!("look:{:016x}", hash_id(what)));
        Self { digest_key: format!("{key}:found"), names_key: format!("{key}:names"), key }
    }

    /// What to do now. `mine` is what was found last, and when.
    pub(super) async fn calls(
        &self,
        line: &RedisLine,
        mine: Option<(&str, Moment)>,
    ) -> Result<Call, SourceError> {
        let mut both = redis::pipe();
        both.cmd("SET").arg(&self.key).arg("1").arg("NX").arg("PX").arg(millis(DUTY));
        both.cmd("GET").arg(&self.digest_key);
        let answers = line.each(both).await.map_err(SourceError::Server)?;
        let mut answers = answers.into_iter().map(|answer| answer.map_err(|error| line.told(error)));
        let mut next = || answers.next().unwrap_or(Ok(Value::Nil)).map_err(SourceError::Server);
        let (taken, found) = (next()?, next()?);
        let Some((digest, at)) = mine else { return Ok(Call::Look) };
        let other = !matches!(&found, Value::BulkString(found) if found == digest.as_bytes());
        Ok(if taken != Value::Nil || clock::now().since(at) > ALONE_EVERY {
            Call::Look
        } else if found != Value::Nil && other {
            Call::Compare
        } else {
            Call::Rest
        })
    }

    /// The names that whoever looked last found, and their digest.
    pub(super) async fn told(
        &self,
        line: &RedisLine,
    ) -> Result<Option<(String, BTreeSet<String>)>, SourceError> {
        let mut both = redis::pipe();
        both.cmd("GET").arg(&self.digest_key).cmd("GET").arg(&self.names_key);
        let answers = line.each(both).await.map_err(SourceError::Server)?;
        let answers: Vec<Value> = answers.into_iter().flatten().collect();
        let [Value::BulkString(digest), Value::BulkString(names)] = answers.as_slice() else {
            return Ok(None);
        };
        let digest = String::from_utf8_lossy(digest).into_owned();
        Ok(serde_json::from_slice(names).ok().map(|names| (digest, names)))
    }

    /// Tells the others what was found.
    pub(super) async fn tell(
        &self,
        line: &RedisLine,
        digest: &str,
        names: &BTreeSet<String>,
    ) -> Result<(), SourceError> {
        let names = serde_json::to_vec(names).unwrap_or_default();
        let mut both = redis::pipe();
        if names.len() <= NAMES_MAX {
            both.cmd("SET").arg(&self.names_key).arg(names).arg("PX").arg(millis(DIGEST_KEPT));
        }
        both.cmd("SET").arg(&self.digest_key).arg(digest).arg("PX").arg(millis(DIGEST_KEPT));
        for answer in line.each(both).await.map_err(SourceError::Server)? {
            answer.map_err(|error| SourceError::Server(line.told(error)))?;
        }
        Ok(())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
