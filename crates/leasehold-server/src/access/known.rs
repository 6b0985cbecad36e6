//! The keys that this replica knows.
//!
//! They are read whenever the store hints that something changed, and twice a second in any case. So a key that was
//! revoked anywhere is refused here within a second, as long as the store answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use leasehold::Pool;
use leasehold::clock::{self, Moment};
use leasehold::lease::Nonce;
use leasehold::store::{Cursor, Hints, Mark, MarkKind, Store, StoreError};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::Identity;
use super::session::csrf_of;
use crate::keys::{Hash, Record, id_of, wall_millis};
use crate::own::server_pool;

/// How often the keys are read at least.
const EVERY: Duration = Duration::from_millis(400);
/// How long lies between two reads at least.
const GATHER: Duration = Duration::from_millis(20);
/// How often all of them are read, not only what changed.
const WHOLE_EVERY: Duration = Duration::from_secs(30);

/// The keys that this replica knows.
#[derive(Debug)]
pub(super) struct Known {
    shared: Arc<Shared>,
    reading: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    table: RwLock<Table>,
    /// How many reads have begun.
    begun: AtomicU64,
    /// The last read: its number, whether it brought an answer.
    done: watch::Sender<(u64, bool)>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Table {
    keys: HashMap<String, Entry>,
    /// Whether there was ever a key, as far as this process knows.
    ever: bool,
    /// When the last read that brought an answer began.
    at: Moment,
}

#[derive(Debug)]
struct Entry {
    record: Record,
    identity: Identity,
}

/// What is to be thought of a key.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is this one's.
    Good(Identity),
    /// Its time is over; its id.
    Expired(String),
    /// It is nobody's.
    Wrong,
}

impl Entry {
    fn is_over(&self) -> bool {
        self.record.expires_ms.is_some_and(|expires| expires <= wall_millis())
    }

    fn fits(&self, hash: &Hash) -> bool {
        let current = self.record.hash.is(hash);
        let previous = self.record.previous.as_ref();
        current | previous.is_some_and(|previous| previous.hash.is(hash) && wall_millis() < previous.until_ms)
    }
}

impl Table {
    fn take(&mut self, mark: &Mark) {
        if mark.kind != MarkKind::Key {
            return;
        }
        self.ever = true;
        match Record::of(mark) {
            Some(record) => {
                let identity = Identity::of(&mark.subject, &record);
                self.keys.insert(mark.subject.clone(), Entry { record, identity });
            }
            None => {
                self.keys.remove(&mark.subject);
            }
        }
    }
}

impl Known {
    pub(super) async fn start(store: Arc<dyn Store>, call: Duration) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared {
            table: RwLock::default(),
            begun: AtomicU64::new(0),
            done: watch::Sender::new((0, false)),
            wake: Notify::new(),
        });
        let pool = server_pool();
        let mut reader = Reader {
            hints: Some(store.changes(&pool)),
            store,
            pool,
            call,
            cursor: Cursor::START,
            era: None,
            whole_at: clock::now(),
        };
        reader.read(&shared).await?;
        let reading = tokio::spawn(read_always(reader, Arc::clone(&shared)));
        Ok(Self { shared, reading })
    }

    fn table(&self) -> std::sync::RwLockReadGuard<'_, Table> {
        self.shared.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be thought of a key. It takes the same time for any that is not good.
    pub(super) fn verdict(&self, offered: &str) -> Verdict {
        let hash = Hash::of(offered);
        let table = self.table();
        // What a browser has in its cookie is no key.
        let known = id_of(offered).and_then(|id| table.keys.get(id));
        let Some(entry) = known.filter(|entry| entry.record.session_of.is_none()) else {
            std::hint::black_box(Hash::NONE.is(&hash));
            return Verdict::Wrong;
        };
        match (entry.fits(&hash), entry.is_over()) {
            (false, _) => Verdict::Wrong,
            (true, true) => Verdict::Expired(entry.identity.key().unwrap_or_default().to_owned()),
            (true, false) => Verdict::Good(entry.identity.clone()),
        }
    }

    /// The same of what a browser has in its cookie. It may do what its key may now.
    pub(super) fn session(&self, offered: &str) -> Verdict {
        let hash = Hash::of(offered);
        let table = self.table();
        let entry = id_of(offered).and_then(|id| Some((id, table.keys.get(id)?)));
        let Some((id, entry)) = entry.filter(|(_, entry)| entry.fits(&hash)) else { return Verdict::Wrong };
        let Some(key) = &entry.record.session_of else { return Verdict::Wrong };
        match table.keys.get(key) {
            Some(of) if !of.is_over() && !entry.is_over() => {
                Verdict::Good(of.identity.in_session(id, csrf_of(offered)))
            }
            _ => Verdict::Expired(key.clone()),
        }
    }

    /// What is written down of a key.
    pub(super) fn record(&self, id: &str) -> Option<Record> {
        self.table().keys.get(id).map(|entry| entry.record.clone())
    }

    /// Whether the key with that id may still be used by somebody.
    pub(super) fn stands(&self, id: &str) -> bool {
        self.table().keys.get(id).is_some_and(|entry| !entry.is_over())
    }

    pub(super) fn any(&self) -> bool {
        self.table().keys.values().any(|entry| entry.record.session_of.is_none())
    }

    pub(super) fn any_ever(&self) -> bool {
        self.table().ever
    }

    /// How old what is known is.
    pub(super) fn age(&self) -> Duration {
        clock::now().since(self.table().at)
    }

    /// Has the keys read from now on; `false` if the store gave no answer.
    pub(super) async fn look(&self) -> bool {
        let asked = self.shared.begun.load(Ordering::SeqCst);
        let mut done = self.shared.done.subscribe();
        self.shared.wake.notify_one();
        let seen = done.wait_for(|(number, _)| *number > asked).await;
        seen.is_ok_and(|seen| seen.1)
    }

    /// Waits for a read to end, whatever it brought.
    pub(super) async fn another_read(&self) {
        let mut done = self.shared.done.subscribe();
        let _ = done.changed().await;
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// Where the reading is.
struct Reader {
    store: Arc<dyn Store>,
    pool: Pool,
    call: Duration,
    cursor: Cursor,
    era: Option<Nonce>,
    whole_at: Moment,
    hints: Option<Hints>,
}

impl Reader {
    async fn read(&mut self, shared: &Shared) -> Result<(), StoreError> {
        let began = clock::now();
        let number = shared.begun.fetch_add(1, Ordering::SeqCst) + 1;
        if began.since(self.whole_at) > WHOLE_EVERY {
            self.cursor = Cursor::START;
        }
        let read = self.changes(shared, began).await;
        shared.done.send_replace((number, read.is_ok()));
        read
    }

    async fn changes(&mut self, shared: &Shared, began: Moment) -> Result<(), StoreError> {
        let late = |_| StoreError::unavailable(format!("the store gave no answer within {:?}", self.call));
        let marks = async |cursor| {
            let asked = tokio::time::timeout(self.call, self.store.marks(&self.pool, cursor)).await;
            asked.map_err(late)?
        };
        let mut changed = marks(self.cursor).await?;
        if self.era.is_some_and(|era| era != changed.era.nonce) && self.cursor != Cursor::START {
            self.cursor = Cursor::START;
            changed = marks(self.cursor).await?;
        }
        let mut table = shared.table.write().unwrap_or_else(PoisonError::into_inner);
        if self.cursor == Cursor::START {
            table.keys.clear();
            self.whole_at = began;
        }
        changed.items.iter().for_each(|mark| table.take(mark));
        table.at = began;
        self.cursor = changed.cursor;
        self.era = Some(changed.era.nonce);
        Ok(())
    }

    /// Waits for a hint; for ever once there will be no more.
    async fn hint(&mut self) {
        if let Some(hints) = &mut self.hints
            && std::future::poll_fn(|context| hints.as_mut().poll_next(context)).await.is_some()
        {
            return;
        }
        self.hints = None;
        std::future::pending().await
    }
}

async fn read_always(mut reader: Reader, shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(GATHER).await;
        tokio::select! {
            () = reader.hint() => {}
            () = shared.wake.notified() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
        if let Err(error) = reader.read(&shared).await {
            tracing::debug!(%error, "the keys cannot be read at the moment");
        }
    }
}
