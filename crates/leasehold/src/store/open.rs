//! From a store's URL to the store.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::around::{Bounded, Metered};
use super::server::{ServerUrl, ServerUrlError};
use super::{Store, StoreError, memory};

/// Which store, as the command line and the environment say it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreUrl {
    /// `memory:`: within this process.
    Memory,
    /// `sqlite:PATH`: a file shared by the processes of one host.
    Sqlite(PathBuf),
    /// `postgres://…`: a PostgreSQL server.
    Postgres(ServerUrl),
    /// `redis://…`, `rediss://…` with TLS, `redis+sentinel://…`: a Redis server.
    Redis(ServerUrl),
    /// `etcd://…`, `etcds://…` with TLS: an etcd cluster.
    Etcd(ServerUrl),
    /// `http://…`, `https://…`: a Leasehold server, which has the store.
    Http(ServerUrl),
}

/// How a store that knows nothing begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Frozen: it may have forgotten everything, and somebody may still hold something.
    Frozen,
    /// Live: whoever asks for it knows that nobody holds anything.
    Live,
}

/// What a migration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The version that was found, if there was one.
    pub before: Option<u32>,
    /// The version that it has now.
    pub now: u32,
}

/// A string names no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreUrlError {
    /// No store goes by that scheme.
    #[error(
        "unknown store {scheme:?}; use sqlite:PATH, postgres://…, redis://…, etcd://…, https://… or memory:"
    )]
    Scheme {
        /// What stood before the colon.
        scheme: String,
    },
    /// There is no path.
    #[error("sqlite: needs a path, as in sqlite:work.db")]
    Path,
    /// A server's address is wrong.
    #[error("{0}")]
    Server(#[from] ServerUrlError),
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        // Only the scheme is repeated in errors: what follows may hold a password.
        let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
        match (scheme, rest) {
            ("memory", "") if text.contains(':') => Ok(Self::Memory),
            ("sqlite", "" | "//") => Err(StoreUrlError::Path),
            ("sqlite", path) => Ok(Self::Sqlite(path.strip_prefix("//").unwrap_or(path).into())),
            ("postgres" | "postgresql", rest) => {
                Ok(Self::Postgres(ServerUrl::parse("postgres", rest, 5432)?))
            }
            ("redis" | "rediss", rest) => Ok(Self::Redis(ServerUrl::parse(scheme, rest, 6379)?)),
            ("redis+sentinel" | "rediss+sentinel", rest) => {
                Ok(Self::Redis(ServerUrl::parse(scheme, rest, 26379)?))
            }
            ("etcd" | "etcds", rest) => Ok(Self::Etcd(ServerUrl::parse(scheme, rest, 2379)?)),
            ("http", rest) => Ok(Self::Http(ServerUrl::parse(scheme, rest, 80)?)),
            ("https", rest) => Ok(Self::Http(ServerUrl::parse(scheme, rest, 443)?)),
            _ => Err(StoreUrlError::Scheme { scheme: scheme.chars().take(40).collect() }),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            // Two slashes in front would be taken for part of the scheme.
            Self::Sqlite(path) if path.as_os_str().as_encoded_bytes().starts_with(b"//") => {
                write!(f, "sqlite://{}", path.display())
            }
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) | Self::Redis(url) | Self::Etcd(url) | Self::Http(url) => url.fmt(f),
        }
    }
}

/// How long a call of a store may take that was opened by its URL ([`Deadline`](super::around::Deadline)). Who needs an answer sooner waits less.
const CALL_MAX: Duration = Duration::from_secs(10);

/// Opens the store that `url` names. Its calls are bounded and measured ([`around`](super::around)).
///
/// # Errors
/// The store cannot be reached or used, or support for it was not built in.
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    let store = Bounded::new(plain(url).await?, CALL_MAX);
    Ok(Arc::new(Metered::new(Arc::new(store))))
}

async fn plain(url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    match url {
        StoreUrl::Memory => Ok(Arc::new(memory::MemoryStore::new())),
        #[cfg(feature = "sqlite")]
        StoreUrl::Sqlite(path) => Ok(Arc::new(super::sqlite::SqliteStore::open(path).await?)),
        #[cfg(not(feature = "sqlite"))]
        StoreUrl::Sqlite(_) => Err(not_built_in("SQLite", "sqlite")),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => Ok(Arc::new(super::postgres::PostgresStore::open(url).await?)),
        #[cfg(not(feature = "postgres"))]
        StoreUrl::Postgres(_) => Err(not_built_in("PostgreSQL", "postgres")),
        #[cfg(feature = "redis")]
        StoreUrl::Redis(url) => Ok(Arc::new(super::redis::RedisStore::open(url).await?)),
        #[cfg(not(feature = "redis"))]
        StoreUrl::Redis(_) => Err(not_built_in("Redis", "redis")),
        #[cfg(feature = "etcd")]
        StoreUrl::Etcd(url) => Ok(Arc::new(super::etcd::EtcdStore::open(url).await?)),
        #[cfg(not(feature = "etcd"))]
        StoreUrl::Etcd(_) => Err(not_built_in("etcd", "etcd")),
        #[cfg(feature = "http")]
        StoreUrl::Http(url) => Ok(Arc::new(super::http::HttpStore::open(url).await?)),
        #[cfg(not(feature = "http"))]
        StoreUrl::Http(_) => Err(not_built_in("client of a Leasehold server", "http")),
    }
}

/// Creates what the store that `url` names needs, or brings it up to date as far as programs of the version before go on with it.
///
/// # Errors
/// Those of [`migrate`].
pub async fn prepare(url: &StoreUrl, begin: Begin) -> Result<Migrated, StoreError> {
    match url {
        #[cfg(feature = "redis")]
        StoreUrl::Redis(url) => super::redis::RedisStore::prepare(url, begin).await,
        _ => migrate(url, begin).await,
    }
}

/// Creates what the store that `url` names needs, or brings it up to date. What is there already is kept.
///
/// On Redis programs of before version 2 of its layout can do nothing with it afterwards.
///
/// # Errors
/// The store cannot be reached or used, was written by a newer version, or support for it was not built in.
pub async fn migrate(url: &StoreUrl, begin: Begin) -> Result<Migrated, StoreError> {
    let _ = begin;
    match url {
        StoreUrl::Memory => {
            Err(StoreError::misconfigured("memory: lives within one process; there is nothing to prepare"))
        }
        StoreUrl::Sqlite(_) => {
            open(url).await?;
            Ok(Migrated { before: None, now: 1 })
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => super::postgres::PostgresStore::migrate(url, begin).await,
        #[cfg(not(feature = "postgres"))]
        StoreUrl::Postgres(_) => Err(not_built_in("PostgreSQL", "postgres")),
        #[cfg(feature = "redis")]
        StoreUrl::Redis(url) => super::redis::RedisStore::migrate(url, begin).await,
        #[cfg(not(feature = "redis"))]
        StoreUrl::Redis(_) => Err(not_built_in("Redis", "redis")),
        #[cfg(feature = "etcd")]
        StoreUrl::Etcd(url) => super::etcd::EtcdStore::migrate(url, begin).await,
        #[cfg(not(feature = "etcd"))]
        StoreUrl::Etcd(_) => Err(not_built_in("etcd", "etcd")),
        StoreUrl::Http(url) => Err(StoreError::misconfigured(format!(
            "{url} is a Leasehold server, which prepares its store itself; there is nothing to prepare from here"
        ))),
    }
}

#[cfg(not(all(
    feature = "sqlite",
    feature = "postgres",
    feature = "redis",
    feature = "etcd",
    feature = "http"
)))]
fn not_built_in(name: &str, feature: &str) -> StoreError {
    StoreError::misconfigured(format!("this build has no {name}; enable the feature `{feature}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_same_store_when_it_is_written_and_read_again() {
        for (text, path) in
            [("sqlite:a.db", "a.db"), ("sqlite:///a.db", "/a.db"), ("sqlite:////a.db", "//a.db")]
        {
            let url: StoreUrl = text.parse().unwrap();
            assert_eq!(url, StoreUrl::Sqlite(path.into()));
            // As text: as paths `//a.db` and `/a.db` are the same.
            assert!(matches!(&url, StoreUrl::Sqlite(taken) if taken.as_os_str() == path), "{url:?}");
            assert_eq!(url.to_string().parse(), Ok(url));
        }
        assert_eq!("memory:".parse(), Ok(StoreUrl::Memory));
    }

    #[test]
    fn a_url_without_a_path_is_refused() {
        for text in ["sqlite:", "sqlite://", "sqlite"] {
            assert_eq!(text.parse::<StoreUrl>(), Err(StoreUrlError::Path), "{text:?}");
        }
        assert!("memory".parse::<StoreUrl>().is_err() && "memory:x".parse::<StoreUrl>().is_err());
    }
}
