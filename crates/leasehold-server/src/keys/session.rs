//! Log-ins: a browser's own short-lived secret in a key's place.
//!
//! A log-in is a record like a key's, with a hash and an end, that names the key it stands for and may do what that key may at the
//! moment it is asked. It ends with its time, with its key, or when somebody logs out, on every replica. Each key has a
//! bounded number of places for them; whoever comes when all are taken takes the oldest one's.

use std::time::Duration;

use leasehold::store::{Cursor, Mark, MarkKind, Marked, Store, Version};
use sha2::{Digest, Sha256};

use super::record::Record;
use super::secret::{self, Hash, Secret};
use super::{KeyError, TRIES, millis, wall_millis};
use crate::own::server_pool;

/// How long a log-in lasts.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 3600);
/// How many there may be with one key at once.
const PLACES: u8 = 16;

/// The ids of a key's places: always the same, so that the records do not become more and more.
fn places(key: &str) -> impl Iterator<Item = String> {
    (0..PLACES).map(move |place| {
        let digest = Sha256::digest(format!("log-in {place} of {key}"));
        digest[..6].iter().map(|byte| format!("{byte:02x}")).collect()
    })
}

/// Logs in with a key that was found good. The secret is nowhere but in the answer.
pub(crate) async fn begin(
    store: &dyn Store,
    key: &str,
    of: &Record,
    lasts: Duration,
) -> Result<Secret, KeyError> {
    for _ in 0..TRIES {
        let marks = store.marks(&server_pool(), Cursor::START).await?.items;
        let found =
            |id: &String| marks.iter().find(|mark: &&Mark| mark.kind == MarkKind::Key && mark.subject == *id);
        // The one that ends first has ended, is free, or is the oldest.
        let ends = |id: &String| found(id).and_then(Record::of).and_then(|record| record.expires_ms);
        let Some(id) = places(key).min_by_key(|id| ends(id).unwrap_or(0)) else { break };
        let version = found(&id).map_or(Version(0), |mark| mark.version);
        let secret = secret::generate_for(&id)?;
        let now = wall_millis();
        let ends = now.saturating_add(millis(lasts));
        let record = Record {
            name: of.name.clone(),
            hash: Hash::of(secret.expose()),
            role: of.role,
            pools: of.pools.clone(),
            tenant: of.tenant.clone(),
            created_ms: now,
            expires_ms: Some(of.expires_ms.map_or(ends, |key_ends| key_ends.min(ends))),
            previous: None,
            session_of: Some(key.to_owned()),
        };
        let pool = server_pool();
        if let Marked::Set(_) =
            store.set_mark(&pool, MarkKind::Key, &id, Some(&record.json()), version).await?
        {
            return Ok(secret);
        }
    }
    Err(KeyError::Busy(key.to_owned()))
}

/// Logs out. One that has ended already stays so.
pub(crate) async fn end(store: &dyn Store, id: &str) -> Result<(), KeyError> {
    for _ in 0..TRIES {
        let marks = store.marks(&server_pool(), Cursor::START).await?.items;
        let is_it = |mark: &&Mark| mark.kind == MarkKind::Key && mark.subject == id && mark.value.is_some();
        let Some(mark) = marks.iter().find(is_it) else { return Ok(()) };
        if let Marked::Set(_) = store.set_mark(&server_pool(), MarkKind::Key, id, None, mark.version).await? {
            return Ok(());
        }
    }
    Err(KeyError::Busy(id.to_owned()))
}
