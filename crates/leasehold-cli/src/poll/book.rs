//! What is known of the endpoints that this member owns: read when a lease is granted, and again every few seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::ResourceId;
use leasehold::clock::{Clock, SystemClock};
use leasehold::discover::{Record, Targets};
use tokio::sync::{Notify, watch};

use super::target::{Rules, Target};
use crate::failure::chain;

/// How often everything owned is read again.
const EVERY: Duration = Duration::from_secs(5);
/// How long leases that are granted together are waited for.
const TOGETHER: Duration = Duration::from_millis(10);
/// How long to wait after reading failed.
const AGAIN: Duration = Duration::from_secs(1);

/// What is known of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// Nothing was read yet.
    Unread,
    /// It can be asked.
    Target(Arc<Target>),
    /// It rests, or is gone; its lease will go, too.
    Resting,
    /// What is kept about it cannot be used.
    Wrong(String),
}

/// The endpoints of this member.
#[derive(Debug)]
pub(super) struct Book {
    entries: Mutex<HashMap<ResourceId, watch::Sender<Known>>>,
    new: Notify,
}

/// One endpoint in the book, until it is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    book: Arc<Book>,
    id: ResourceId,
    known: watch::Receiver<Known>,
}

impl Book {
    /// A book that is kept up to date from now on.
    pub(super) fn open(source: Arc<dyn Targets>, rules: Rules) -> Arc<Self> {
        let book = Arc::new(Self { entries: Mutex::default(), new: Notify::new() });
        tokio::spawn(Arc::clone(&book).keep(source, rules));
        book
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<ResourceId, watch::Sender<Known>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to follow an endpoint.
    pub(super) fn enter(self: &Arc<Self>, id: &ResourceId) -> Entry {
        let (sender, known) = watch::channel(Known::Unread);
        self.entries().insert(id.clone(), sender);
        self.new.notify_one();
        Entry { book: Arc::clone(self), id: id.clone(), known }
    }

    async fn keep(self: Arc<Self>, source: Arc<dyn Targets>, rules: Rules) {
        let mut said = String::new();
        loop {
            let whole = tokio::select! {
                () = SystemClock.sleep(EVERY) => true,
                () = self.new.notified() => false,
            };
            tokio::time::sleep(TOGETHER).await;
            let ids: Vec<ResourceId> = {
                let entries = self.entries();
                let wanted = entries.iter().filter(|(_, known)| whole || *known.borrow() == Known::Unread);
                wanted.map(|(id, _)| id.clone()).collect()
            };
            if ids.is_empty() {
                continue;
            }
            match source.records(&ids).await {
                Ok(records) => {
                    said.clear();
                    self.take(&rules, ids.into_iter().zip(records));
                }
                Err(error) => {
                    let error = chain(&error);
                    if error != said {
                        tracing::warn!(
                            error,
                            "what is kept about endpoints could not be read; what was read last counts"
                        );
                        said = error;
                    }
                    SystemClock.sleep(AGAIN).await;
                    self.new.notify_one();
                }
            }
        }
    }

    fn take(&self, rules: &Rules, read: impl Iterator<Item = (ResourceId, Record)>) {
        let entries = self.entries();
        for (id, record) in read {
            let Some(entry) = entries.get(&id) else { continue };
            let now = match record {
                Record::Gone | Record::Paused => Known::Resting,
                Record::Kept(session) => match rules.target(&id, &session) {
                    Ok(target) => Known::Target(Arc::new(target)),
                    Err(why) => Known::Wrong(why),
                },
            };
            entry.send_if_modified(|known| {
                let changed = *known != now;
                if let (true, Known::Wrong(why)) = (changed, &now) {
                    tracing::warn!(endpoint = %id, why, "this endpoint is not asked until it is mended");
                }
                if changed {
                    *known = now;
                }
                changed
            });
        }
    }
}

impl Entry {
    /// What to ask, as soon as that is known.
    pub(super) async fn target(&mut self) -> Arc<Target> {
        loop {
            if let Known::Target(target) = &*self.known.borrow_and_update() {
                return Arc::clone(target);
            }
            if self.known.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether this is still what to ask.
    pub(super) fn is(&self, target: &Arc<Target>) -> bool {
        matches!(&*self.known.borrow(), Known::Target(known) if known == target)
    }

    /// Ends when something else is known.
    pub(super) async fn changed(&mut self) {
        if self.known.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut entries = self.book.entries();
        // A later lease on the same endpoint has an entry of its own.
        if entries.get(&self.id).is_some_and(|known| known.subscribe().same_channel(&self.known)) {
            entries.remove(&self.id);
        }
    }
}
