//! Where a member learns which resources there are.
//!
//! A member publishes what its own source lists; the pool is the union, and a member is eligible only for what
//! it lists itself. A source that fails later on changes nothing: the last good listing stands.

mod follow;
#[cfg(feature = "redis")]
mod redis;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;

pub(crate) use self::follow::follow;
#[cfg(feature = "redis")]
pub use self::redis::{Record, RedisCollection, RedisSessions, SessionKeys, Targets};
use crate::lease::ResourceId;
use crate::store::{Listing, ListingError, StoreError};

/// The most bytes a file of resources may have.
const FILE_MAX: u64 = 64 << 20;

/// A source cannot say which resources there are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It cannot be read.
    #[error("cannot read the resources from {from}")]
    Read {
        /// The file, directory or command.
        from: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is too large.
    #[error("{from} is larger than {FILE_MAX} bytes; split the pool")]
    Large {
        /// The file.
        from: String,
    },
    /// What it says is not a list of resources.
    #[error("{from} does not list resources")]
    Content {
        /// The file, directory or command.
        from: String,
        /// What is wrong.
        source: ListingError,
    },
    /// The server that it is kept on does not answer or refuses.
    #[error(transparent)]
    Server(StoreError),
    /// It failed in its own way.
    #[error("{0}")]
    Other(String),
}

/// Something that lists resources.
#[async_trait]
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// What there is now.
    async fn list(&self) -> Result<Listing, SourceError>;

    /// How often to look again; `None` if it never changes.
    fn period(&self) -> Option<Duration>;

    /// Ends when there is a reason to look again sooner. Nothing is lost if nobody waits for it to the end.
    async fn changed(&self) {
        std::future::pending().await
    }

    /// Whether what one look does not show is really gone. A file may be read while it is being written.
    fn is_certain(&self) -> bool {
        false
    }

    /// Whether the source knows this resource and says that it rests: why it is not listed, for the ledger.
    fn rests(&self, _: &ResourceId) -> bool {
        false
    }
}

/// A list that never changes.
#[derive(Debug, Clone)]
pub struct Fixed(pub Listing);

#[async_trait]
impl Source for Fixed {
    async fn list(&self) -> Result<Listing, SourceError> {
        Ok(self.0.clone())
    }

    fn period(&self) -> Option<Duration> {
        None
    }
}

/// A file with one id a line, read again as it changes.
#[derive(Debug, Clone)]
pub struct FileSource(pub PathBuf);

#[async_trait]
impl Source for FileSource {
    async fn list(&self) -> Result<Listing, SourceError> {
        let path = self.0.clone();
        off_the_runtime(move || read_file(&path)).await
    }

    fn period(&self) -> Option<Duration> {
        Some(Duration::from_millis(500))
    }
}

fn read_file(path: &Path) -> Result<Listing, SourceError> {
    let from = path.display().to_string();
    let read = |source| SourceError::Read { from: from.clone(), source };
    if std::fs::metadata(path).map_err(read)?.len() > FILE_MAX {
        return Err(SourceError::Large { from });
    }
    let text = std::fs::read_to_string(path).map_err(read)?;
    Listing::parse(&text).map_err(|source| SourceError::Content { from: from.clone(), source })
}

/// A directory whose entries' names are the ids; names that begin with a dot do not count.
#[derive(Debug, Clone)]
pub struct DirectorySource(pub PathBuf);

#[async_trait]
impl Source for DirectorySource {
    async fn list(&self) -> Result<Listing, SourceError> {
        let path = self.0.clone();
        off_the_runtime(move || read_directory(&path)).await
    }

    fn period(&self) -> Option<Duration> {
        Some(Duration::from_millis(500))
    }
}

fn read_directory(path: &Path) -> Result<Listing, SourceError> {
    let from = path.display().to_string();
    let read = |source| SourceError::Read { from: from.clone(), source };
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(path).map_err(read)? {
        let name = entry.map_err(read)?.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        match ResourceId::new(&name) {
            Ok(id) => ids.push(id),
            Err(error) => tracing::debug!(directory = from, %error, "a name in the directory is skipped"),
        }
    }
    Listing::new(ids).map_err(|twice| SourceError::Content { from, source: ListingError::Twice(twice) })
}

async fn off_the_runtime(
    read: impl FnOnce() -> Result<Listing, SourceError> + Send + 'static,
) -> Result<Listing, SourceError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(listing) => listing,
        Err(_) => Err(SourceError::Other("reading the resources was interrupted".to_owned())),
    }
}

/// An error and what caused it, on one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_that_cannot_be_used_at_the_start_is_refused_with_a_sentence() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("resources");
        std::fs::write(&path, "a\nb/c\n").unwrap();
        let said = with_causes(&FileSource(path.clone()).list().await.unwrap_err());
        assert!(said.contains("line 2 is not a resource") && said.contains("'/'"), "{said}");
        std::fs::write(&path, "a\na\n").unwrap();
        let said = with_causes(&FileSource(path.clone()).list().await.unwrap_err());
        assert!(said.contains("resource a is listed twice"), "{said}");
        std::fs::remove_file(&path).unwrap();
        let said = with_causes(&FileSource(path).list().await.unwrap_err());
        assert!(said.contains("No such file"), "{said}");
    }

    #[tokio::test]
    async fn a_directory_lists_the_names_in_it() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["cam-1", "cam-2", ".hidden", "not valid"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let listing = DirectorySource(directory.path().to_owned()).list().await.unwrap();
        assert_eq!(listing.ids().iter().map(ResourceId::as_str).collect::<Vec<_>>(), ["cam-1", "cam-2"]);
    }
}
