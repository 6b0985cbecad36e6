//! API keys: made, listed, revoked and rotated in the store.
//!
//! A key is a mark of the control plane's own pool, under its id. So every replica, and the command line on the same
//! database, see the same keys, and two who change one at the same time do not overwrite each other.
//!
//! Invariant: only the hash of a key is ever written down. The key itself is in the answer to whoever made it, once.

mod record;
mod secret;
pub(crate) mod session;

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::Pool;
use leasehold::clock;
use leasehold::store::{Cursor, Mark, MarkKind, Marked, Store, StoreError, Version};

pub use self::record::{KeyInfo, Role, RoleError};
pub(crate) use self::record::{Previous, Record};
pub use self::secret::Secret;
pub(crate) use self::secret::{Hash, id_of};
use crate::own::server_pool;

/// The longest name of a key, and the longest id of a tenant.
const NAME_MAX: usize = 64;
/// The most pools that one key may name.
const POOLS_MAX: usize = 256;
/// The longest that a key may last, or be kept while it is rotated: a century.
const LASTS_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
/// How often a change is tried again that somebody else was faster with.
const TRIES: usize = 8;

/// What a new key is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// In which pools, as their tenant calls them; `None` for all.
    pub pools: Option<BTreeSet<String>>,
    /// Whose pools; `None` for those of nobody, and all others under their full names.
    pub tenant: Option<String>,
    /// How long it lasts; `None` for ever.
    pub lasts: Option<Duration>,
}

/// A key cannot be made, found or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// What was asked for cannot be.
    #[error("{0}")]
    Invalid(String),
    /// There is no such key.
    #[error("there is no key {0:?}; `leasehold keys list` shows those that there are")]
    Unknown(String),
    /// Somebody else keeps changing it.
    #[error("the key {0:?} keeps being changed by others; look and try again")]
    Busy(String),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Wall time in milliseconds.
pub(crate) fn wall_millis() -> u64 {
    clock::unix_nanos() / 1_000_000
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl NewKey {
    /// Refuses what cannot be.
    fn check(&self) -> Result<(), KeyError> {
        let refuse = |said: String| Err(KeyError::Invalid(said));
        if self.name.chars().count() > NAME_MAX || self.name.chars().any(char::is_control) {
            return refuse(format!(
                "the name of a key has at most {NAME_MAX} characters and no control characters"
            ));
        }
        if let Some(pools) = &self.pools {
            if pools.is_empty() || pools.len() > POOLS_MAX {
                return refuse(format!("a key is for 1 to {POOLS_MAX} pools, or for all: name none"));
            }
            for pool in pools {
                Pool::new(pool).map_err(|error| KeyError::Invalid(error.to_string()))?;
                if pool.starts_with('_') {
                    return refuse(format!("{pool:?} cannot be the name of a pool; it is reserved"));
                }
            }
        }
        self.tenant.as_deref().map_or(Ok(()), check_tenant)?;
        lasts(self.lasts.unwrap_or_default())
    }
}

/// Refuses what cannot be a tenant.
pub(crate) fn check_tenant(tenant: &str) -> Result<(), KeyError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !tenant.is_empty() && tenant.len() <= NAME_MAX && !tenant.starts_with('_') && tenant.bytes().all(plain)
    {
        return Ok(());
    }
    Err(KeyError::Invalid(format!(
        "{tenant:?} is no tenant; give up to {NAME_MAX} of the characters A-Z a-z 0-9 - _, not beginning with _"
    )))
}

fn lasts(time: Duration) -> Result<(), KeyError> {
    if time > LASTS_MAX {
        return Err(KeyError::Invalid("a key lasts at most a hundred years; leave the time out".to_owned()));
    }
    Ok(())
}

/// Makes a key. The secret is nowhere but in the answer.
///
/// # Errors
/// What was asked for cannot be, or the store does not answer.
pub async fn create(store: &dyn Store, new: &NewKey) -> Result<(KeyInfo, Secret), KeyError> {
    new.check()?;
    let (id, secret) = secret::generate()?;
    let now = wall_millis();
    let record = Record {
        name: new.name.clone(),
        hash: Hash::of(secret.expose()),
        role: new.role,
        pools: new.pools.clone(),
        tenant: new.tenant.clone(),
        created_ms: now,
        expires_ms: new.lasts.map(|lasts| now.saturating_add(millis(lasts))),
        previous: None,
        session_of: None,
    };
    match store.set_mark(&server_pool(), MarkKind::Key, &id, Some(&record.json()), Version(0)).await? {
        Marked::Set(_) => Ok((record.info(&id), secret)),
        Marked::Conflict(_) => Err(KeyError::Busy(id)),
    }
}

/// Every key, the oldest first. No secret, and no hash of one, is in it.
///
/// # Errors
/// The store does not answer.
pub async fn list(store: &dyn Store) -> Result<Vec<KeyInfo>, KeyError> {
    let marks = store.marks(&server_pool(), Cursor::START).await?.items;
    let mut found: Vec<(u64, KeyInfo)> = marks
        .iter()
        .filter_map(|mark| {
            let record = Record::of(mark).filter(|record| record.session_of.is_none())?;
            Some((record.created_ms, record.info(&mark.subject)))
        })
        .collect();
    found.sort_by(|(a, x), (b, y)| (a, &x.id).cmp(&(b, &y.id)));
    Ok(found.into_iter().map(|(_, info)| info).collect())
}

async fn find(store: &dyn Store, id: &str) -> Result<(Record, Version), KeyError> {
    let marks = store.marks(&server_pool(), Cursor::START).await?.items;
    let is_it = |mark: &&Mark| mark.kind == MarkKind::Key && mark.subject == id;
    let found = marks.iter().find(is_it).and_then(|mark| Some((Record::of(mark)?, mark.version)));
    let found = found.filter(|(record, _)| record.session_of.is_none());
    found.ok_or_else(|| KeyError::Unknown(id.to_owned()))
}

/// The key with that id.
///
/// # Errors
/// There is none, or the store does not answer.
pub async fn get(store: &dyn Store, id: &str) -> Result<KeyInfo, KeyError> {
    find(store, id).await.map(|(record, _)| record.info(id))
}

/// Ends a key: within a second no control plane takes it any more. It cannot be brought back.
///
/// # Errors
/// There is none, or the store does not answer.
pub async fn revoke(store: &dyn Store, id: &str) -> Result<(), KeyError> {
    let pool = server_pool();
    for _ in 0..TRIES {
        let (_, version) = find(store, id).await?;
        if let Marked::Set(_) = store.set_mark(&pool, MarkKind::Key, id, None, version).await? {
            return Ok(());
        }
    }
    Err(KeyError::Busy(id.to_owned()))
}

/// Gives a key a new secret. The one before is taken for `grace` longer; one from before that is not.
///
/// # Errors
/// There is no such key, the grace is too long, or the store does not answer.
pub async fn rotate(store: &dyn Store, id: &str, grace: Duration) -> Result<(KeyInfo, Secret), KeyError> {
    lasts(grace)?;
    let (pool, secret) = (server_pool(), secret::generate_for(id)?);
    for _ in 0..TRIES {
        let (mut record, version) = find(store, id).await?;
        let until_ms = wall_millis().saturating_add(millis(grace));
        let before = std::mem::replace(&mut record.hash, Hash::of(secret.expose()));
        record.previous = (!grace.is_zero()).then_some(Previous { hash: before, until_ms });
        let value = record.json();
        if let Marked::Set(_) = store.set_mark(&pool, MarkKind::Key, id, Some(&value), version).await? {
            return Ok((record.info(id), secret));
        }
    }
    Err(KeyError::Busy(id.to_owned()))
}
