//! Looks at a source again and again, and decides what of it is believed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{Source, SourceError, with_causes};
use crate::clock::Clock;
use crate::store::Listing;

/// A listing that lacks something is looked at again after so long, if its source is not looked at sooner.
const AGAIN: Duration = Duration::from_millis(500);

/// Looks at a source once and then again and again, for as long as somebody holds the receiver.
pub(crate) async fn follow(
    source: Arc<dyn Source>,
    clock: Arc<dyn Clock>,
) -> Result<watch::Receiver<Arc<Listing>>, SourceError> {
    let (sender, receiver) = watch::channel(Arc::new(source.list().await?));
    if let Some(period) = source.period() {
        tokio::spawn(async move {
            let certain = source.is_certain();
            let mut follower = Follower { sender, certain, shrunk: None, said: String::new() };
            while !follower.sender.is_closed() {
                let wait = if follower.shrunk.is_some() { period.min(AGAIN) } else { period };
                tokio::select! {
                    () = clock.sleep(wait) => {}
                    () = source.changed() => {}
                }
                follower.take(source.list().await);
            }
        });
    }
    Ok(receiver)
}

/// What is known of a source, and what is not believed yet.
struct Follower {
    sender: watch::Sender<Arc<Listing>>,
    /// Whether one look is enough to know that something is gone.
    certain: bool,
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
        let lacks = !self.certain && known.ids().iter().any(|id| !listing.contains(id));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::discover::FileSource;
    use crate::lease::ResourceId;

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

    fn listing(text: &str) -> Listing {
        Listing::parse(text).unwrap()
    }

    fn of(listing: &watch::Receiver<Arc<Listing>>) -> String {
        listing.borrow().ids().iter().map(ResourceId::as_str).collect()
    }

    #[test]
    fn a_listing_that_lacks_something_counts_only_if_the_next_look_shows_the_same() {
        let (sender, receiver) = watch::channel(Arc::new(listing("a\nb\nc\n")));
        let mut follower = Follower { sender, certain: false, shrunk: None, said: String::new() };
        let mut look = |text: &str| {
            let unreadable = || SourceError::Other("it was being written".to_owned());
            follower.take(if text == "unreadable" { Err(unreadable()) } else { Ok(listing(text)) });
            of(&receiver)
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

    #[test]
    fn a_source_that_is_certain_is_believed_at_once() {
        let (sender, receiver) = watch::channel(Arc::new(listing("a\nb\n")));
        let mut follower = Follower { sender, certain: true, shrunk: None, said: String::new() };
        follower.take(Ok(listing("a\n")));
        assert_eq!(of(&receiver), "a");
    }
}
