//! Where a member learns which resources there are.
//!
//! A member publishes what its own source lists; the pool is the union, and a member is eligible only for what
//! it lists itself. A source that fails later on changes nothing: the last good listing stands.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::lease::ResourceId;
use crate::store::{Listing, ListingError};

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

/// Looks at a source once and then again and again, for as long as somebody holds the receiver.
pub(crate) async fn follow(
    source: Arc<dyn Source>,
    clock: Arc<dyn Clock>,
) -> Result<watch::Receiver<Arc<Listing>>, SourceError> {
    let (sender, receiver) = watch::channel(Arc::new(source.list().await?));
    if let Some(period) = source.period() {
        tokio::spawn(async move {
            let mut follower = Follower { sender, shrunk: None, said: String::new() };
            while !follower.sender.is_closed() {
                clock.sleep(period).await;
                follower.take(source.list().await);
            }
        });
    }
    Ok(receiver)
}

/// What is known of a source, and what is not believed yet.
struct Follower {
    sender: watch::Sender<Arc<Listing>>,
    /// A listing that lacks something: it counts if the next look shows the same, because a file may be read
    /// while it is being written.
    shrunk: Option<Listing>,
    said: String,
}

impl Follower {
    fn take(&mut self, listed: Result<Listing, SourceError>) {
        match listed {
            Ok(listing) => {
                self.said.clear();
                self.believe(listing);
            }
            Err(error) => {
                self.shrunk = None;
                let problem = with_causes(&error);
                if problem != self.said {
                    tracing::warn!(error = problem, "the last good list of resources stays in force");
                    self.said = problem;
                }
            }
        }
    }

    fn believe(&mut self, listing: Listing) {
        let known = Arc::clone(&self.sender.borrow());
        let lacks = known.ids().iter().any(|id| !listing.contains(id));
        if lacks && self.shrunk.as_ref() != Some(&listing) {
            self.shrunk = Some(listing);
            return;
        }
        self.shrunk = None;
        if *known != listing {
            self.sender.send_replace(Arc::new(listing));
        }
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
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn a_file_that_disappears_or_doubles_an_id_leaves_the_last_good_list_in_force() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("resources");
        std::fs::write(&path, "# cameras\na\n\nb\n").unwrap();
        let mut listing = follow(Arc::new(FileSource(path.clone())), Arc::new(SystemClock)).await.unwrap();
        assert_eq!(listing.borrow().ids().len(), 2);
        std::fs::remove_file(&path).unwrap();
        tokio::time::sleep(Duration::from_millis(1200)).await;
        std::fs::write(&path, "a\nb\na\n").unwrap();
        tokio::time::sleep(Duration::from_millis(1200)).await;
        assert!(!listing.has_changed().unwrap());
        std::fs::write(&path, "a\nb\nc\n").unwrap();
        listing.changed().await.unwrap();
        assert_eq!(listing.borrow().ids().len(), 3);
    }

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

    #[test]
    fn a_listing_that_lacks_something_counts_only_if_the_next_look_shows_the_same() {
        let listing = |text: &str| Listing::parse(text).unwrap();
        let (sender, receiver) = watch::channel(Arc::new(listing("a\nb\nc\n")));
        let mut follower = Follower { sender, shrunk: None, said: String::new() };
        let mut look = |text: &str| {
            let unreadable = || SourceError::Other("it was being written".to_owned());
            follower.take(if text == "unreadable" { Err(unreadable()) } else { Ok(listing(text)) });
            receiver.borrow().ids().iter().map(ResourceId::as_str).collect::<String>()
        };
        assert_eq!(look("a\n"), "abc", "half a file may have been read");
        assert_eq!(look("a\nb\nc\n"), "abc", "and the other half was written");
        assert_eq!(look("a\n"), "abc");
        assert_eq!(look("a\nb\n"), "abc", "it is still being written");
        assert_eq!(look("unreadable"), "abc");
        assert_eq!(look("a\nb\n"), "abc", "two looks in a row");
        assert_eq!(look("a\nb\n"), "ab");
        assert_eq!(look("a\nb\nd\n"), "abd", "what is new counts at once");
        assert_eq!(look("e\n"), "abd");
        assert_eq!(look("e\n"), "e");
    }
}
