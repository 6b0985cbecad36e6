//! The world as this process knows it. Every replica keeps one, also those that only stand by, so that a new leader begins at
//! once.
//!
//! Invariant: a cache is some revision of etcd, whole; it only ever goes forward.

use std::time::Duration;

use tokio::sync::watch;

use crate::etcd::{CALL, Etcd, EtcdError};
use crate::world::{PREFIX, World};

/// How long one watch lasts. One that was cut off looks like one on which nothing happens, so each is replaced soon.
const WATCH: Duration = Duration::from_secs(5);
/// How long is waited after a call that failed: the more of them in a row, the longer.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A copy of the world that follows it.
#[derive(Debug)]
pub struct Cache {
    etcd: Etcd,
    world: watch::Sender<World>,
}

impl Cache {
    /// A cache that knows nothing yet.
    #[must_use]
    pub fn of(etcd: Etcd) -> Self {
        Self { etcd, world: watch::Sender::new(World::default()) }
    }

    /// Where it reads, for those who also write.
    #[must_use]
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    /// The world, as it changes.
    #[must_use]
    pub fn world(&self) -> watch::Receiver<World> {
        self.world.subscribe()
    }

    /// Follows the world for ever: reads all of it, and from then on hears what changes.
    pub async fn follow(&self) {
        loop {
            self.read_all().await;
            // Whatever was missed, history that is compacted included, is in the next full reading.
            while let Err(error) = self.listen().await {
                tracing::debug!(error = &error as &dyn std::error::Error, "the watch is begun again");
                self.read_all().await;
            }
        }
    }

    async fn listen(&self) -> Result<(), EtcdError> {
        let next = self.world.borrow().revision + 1;
        let mut watch = self.etcd.watch(PREFIX, next).await?;
        let hear = async {
            loop {
                let events = watch.next().await?;
                self.world.send_if_modified(|world| {
                    let before = world.revision;
                    world.hear(events);
                    world.revision > before
                });
            }
        };
        tokio::time::timeout(WATCH, hear).await.unwrap_or(Ok(()))
    }

    /// Reads everything, as often as it takes.
    pub async fn read_all(&self) {
        let mut pause = PAUSE;
        loop {
            match self.etcd.read(PREFIX).await {
                Ok((revision, kvs)) => {
                    self.world.send_if_modified(|world| {
                        let newer = revision > world.revision;
                        if newer {
                            *world = World::read(revision, kvs);
                        }
                        newer
                    });
                    return;
                }
                Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "cannot read"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Waits until the cache has heard of a revision at which something of interest was written. If it does not hear of
    /// it soon, everything is read.
    pub async fn reach(&self, revision: i64) {
        let mut world = self.world.subscribe();
        let heard = world.wait_for(|world| world.revision >= revision);
        if tokio::time::timeout(CALL, heard).await.is_err() {
            self.read_all().await;
        }
    }
}
