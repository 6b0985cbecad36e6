//! From a store's URL to the store.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use super::{Store, StoreError, memory};

/// Which store, as the command line and the environment say it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreUrl {
    /// `memory:`: within this process.
    Memory,
    /// `sqlite:PATH`: a file shared by the processes of one host.
    Sqlite(PathBuf),
}

/// A string names no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreUrlError {
    /// No store goes by that scheme.
    #[error("unknown store {scheme:?}; use sqlite:PATH or memory:")]
    Scheme {
        /// What stood before the colon.
        scheme: String,
    },
    /// There is no path.
    #[error("sqlite: needs a path, as in sqlite:work.db")]
    Path,
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
        }
    }
}

/// Opens the store that `url` names.
///
/// # Errors
/// The store cannot be reached or used, or support for it was not built in.
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    match url {
        StoreUrl::Memory => Ok(Arc::new(memory::MemoryStore::new())),
        #[cfg(feature = "sqlite")]
        StoreUrl::Sqlite(path) => Ok(Arc::new(super::sqlite::SqliteStore::open(path).await?)),
        #[cfg(not(feature = "sqlite"))]
        StoreUrl::Sqlite(_) => {
            Err(StoreError::misconfigured("this build has no SQLite; enable the feature `sqlite`"))
        }
    }
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
