//! Who looks through all keys: one of those that look for the same, every few seconds, so that many cost no more than one.
//!
//! Whoever has the duty publishes a digest of what it found. Who finds another digest than its own looks itself: nobody takes
//! another's word for what there is. The server's clock ends a duty; where it goes wrong, everybody still looks now and then.

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
const ALONE_EVERY: Duration = Duration::from_secs(300);

/// The duty of those who look for the same.
#[derive(Debug)]
pub(super) struct Duty {
    key: String,
    digest_key: String,
}

impl Duty {
    /// `what` names all that decides what is found.
    pub(super) fn of(line: &RedisLine, what: &str) -> Self {
        let key = line.key(&format!("look:{:016x}", hash_id(what)));
        Self { digest_key: format!("{key}:found"), key }
    }

    /// Whether to look now. `mine` is what was found last, and when.
    pub(super) async fn calls(
        &self,
        line: &RedisLine,
        mine: Option<(&str, Moment)>,
    ) -> Result<bool, SourceError> {
        let mut both = redis::pipe();
        both.cmd("SET").arg(&self.key).arg("1").arg("NX").arg("PX").arg(millis(DUTY));
        both.cmd("GET").arg(&self.digest_key);
        let answers = line.each(both).await.map_err(SourceError::Server)?;
        let mut answers = answers.into_iter().map(|answer| answer.map_err(|error| line.told(error)));
        let mut next = || answers.next().unwrap_or(Ok(Value::Nil)).map_err(SourceError::Server);
        let (taken, found) = (next()?, next()?);
        let Some((digest, at)) = mine else { return Ok(true) };
        let other = |found: &Value| !matches!(found, Value::BulkString(found) if found == digest.as_bytes());
        Ok(taken != Value::Nil
            || (found != Value::Nil && other(&found))
            || clock::now().since(at) > ALONE_EVERY)
    }

    /// Tells the others what was found.
    pub(super) async fn tell(&self, line: &RedisLine, digest: &str) -> Result<(), SourceError> {
        let mut set = redis::cmd("SET");
        set.arg(&self.digest_key).arg(digest).arg("PX").arg(millis(DIGEST_KEPT));
        line.query(set).await.map(drop).map_err(SourceError::Server)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
