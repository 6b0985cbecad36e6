//! Marks, declared resources, listings and the ledger in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use async_trait::async_trait;

use super::MemoryStore;
use crate::lease::{MemberId, Pool, ResourceId};
use crate::ledger::{Entry, Event};
use crate::store::{
    Changed, Cursor, Declared, LeaseStore, Listing, ListingId, Mark, MarkKind, Marked, Registry, StoreError,
    Version,
};

/// How many rows the ledger keeps.
const LEDGER_MAX: usize = 100_000;

#[derive(Debug, Clone)]
pub(super) struct RegistryState {
    marks: BTreeMap<(Pool, MarkKind, String), (Mark, u64)>,
    resources: BTreeMap<(Pool, ResourceId), (Declared, u64)>,
    listings: BTreeMap<(Pool, ListingId), Listing>,
    ledger: VecDeque<(u64, Pool, Entry)>,
    rows: u64,
    rows_max: usize,
    /// The row of each member's last confirmed heartbeat.
    renewed: BTreeMap<(Pool, MemberId), u64>,
    sequence: u64,
}

impl Default for RegistryState {
    fn default() -> Self {
        Self {
            marks: BTreeMap::new(),
            resources: BTreeMap::new(),
            listings: BTreeMap::new(),
            ledger: VecDeque::new(),
            rows: 0,
            rows_max: LEDGER_MAX,
            renewed: BTreeMap::new(),
            sequence: 0,
        }
    }
}

impl RegistryState {
    pub(super) fn pools(&self) -> Vec<Pool> {
        self.resources.keys().map(|(pool, _)| pool.clone()).collect()
    }

    /// Puts a heartbeat into the row of the one before it. Answers whether there was one.
    fn replace_renewed(&mut self, pool: &Pool, entry: &Entry) -> bool {
        if entry.event != Event::Renewed {
            return false;
        }
        let row = *self.renewed.entry((pool.clone(), entry.member.clone())).or_insert(self.rows + 1);
        let found = self.ledger.binary_search_by_key(&row, |(row, ..)| *row);
        let before = found.ok().and_then(|place| self.ledger.get_mut(place));
        before.map(|(_, _, before)| before.clone_from(entry)).is_some()
    }

    fn since<'a, T: Clone + 'a>(rows: impl Iterator<Item = &'a (T, u64)>, since: Cursor) -> Vec<T> {
        rows.filter(|(_, changed)| *changed > since.0).map(|(row, _)| row.clone()).collect()
    }
}

impl MemoryStore {
    fn registry_changed<T>(&self, read: impl FnOnce(&RegistryState) -> Vec<T>) -> Changed<T> {
        let mut everything = self.lock();
        let items = read(&everything.registry);
        let cursor = Cursor(everything.registry.sequence);
        let era = everything.leases.era();
        Changed { era, items, cursor }
    }
}

#[async_trait]
impl Registry for MemoryStore {
    async fn marks(&self, pool: &Pool, since: Cursor) -> Result<Changed<Mark>, StoreError> {
        let read = |state: &RegistryState| {
            let rows = state.marks.iter().filter(|((of, ..), _)| of == pool);
            RegistryState::since(rows.map(|(_, row)| row), since)
        };
        Ok(self.registry_changed(read))
    }

    async fn set_mark(
        &self,
        pool: &Pool,
        kind: MarkKind,
        subject: &str,
        value: Option<&str>,
        expected: Version,
    ) -> Result<Marked, StoreError> {
        let mut everything = self.lock();
        let state = &mut everything.registry;
        let key = (pool.clone(), kind, subject.to_owned());
        let found = state.marks.get(&key).map_or(Version(0), |(mark, _)| mark.version);
        if found != expected {
            return Ok(Marked::Conflict(found));
        }
        state.sequence += 1;
        let version = Version(found.0 + 1);
        let value = value.map(str::to_owned);
        let mark = Mark { kind, subject: subject.to_owned(), value, version };
        state.marks.insert(key, (mark, state.sequence));
        drop(everything);
        self.tell(vec![pool.clone()]);
        Ok(Marked::Set(version))
    }

    async fn resources(&self, pool: &Pool, since: Cursor) -> Result<Changed<Declared>, StoreError> {
        let read = |state: &RegistryState| {
            let rows = state.resources.iter().filter(|((of, _), _)| of == pool);
            RegistryState::since(rows.map(|(_, row)| row), since)
        };
        Ok(self.registry_changed(read))
    }

    async fn declare(&self, pool: &Pool, declared: &Declared) -> Result<Marked, StoreError> {
        let mut everything = self.lock();
        let state = &mut everything.registry;
        let key = (pool.clone(), declared.resource.clone());
        let found = state.resources.get(&key).map_or(Version(0), |(row, _)| row.version);
        if found != declared.version {
            return Ok(Marked::Conflict(found));
        }
        state.sequence += 1;
        let version = Version(found.0 + 1);
        let document = declared.document.clone().filter(|document| !document.is_null());
        let declared = Declared { version, document, ..declared.clone() };
        state.resources.insert(key, (declared, state.sequence));
        drop(everything);
        self.tell(vec![pool.clone()]);
        Ok(Marked::Set(version))
    }

    async fn publish(&self, pool: &Pool, id: &ListingId, listing: &Listing) -> Result<(), StoreError> {
        self.lock().registry.listings.insert((pool.clone(), id.clone()), listing.clone());
        Ok(())
    }

    async fn listing(&self, pool: &Pool, id: &ListingId) -> Result<Option<Listing>, StoreError> {
        Ok(self.lock().registry.listings.get(&(pool.clone(), id.clone())).cloned())
    }

    async fn collect_listings(&self, pool: &Pool) -> Result<(), StoreError> {
        let sessions = self.sessions(pool, Cursor::START).await?.items;
        let used: BTreeSet<ListingId> =
            sessions.into_iter().filter(|s| !s.ended).filter_map(|s| s.profile.listing).collect();
        self.lock().registry.listings.retain(|(of, id), _| of != pool || used.contains(id));
        Ok(())
    }

    async fn append(&self, pool: &Pool, entries: &[Entry]) -> Result<(), StoreError> {
        let mut everything = self.lock();
        let state = &mut everything.registry;
        for entry in entries {
            if !state.replace_renewed(pool, entry) {
                state.rows += 1;
                state.ledger.push_back((state.rows, pool.clone(), entry.clone()));
            }
        }
        let surplus = state.ledger.len().saturating_sub(state.rows_max);
        for (_, pool, entry) in state.ledger.drain(..surplus) {
            if entry.event == Event::Renewed {
                state.renewed.remove(&(pool, entry.member));
            }
        }
        Ok(())
    }

    fn keep_rows(&self, most: u64) {
        self.lock().registry.rows_max = usize::try_from(most).unwrap_or(usize::MAX);
    }

    async fn ledger(
        &self,
        pool: &Pool,
        resource: Option<&ResourceId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Entry)>, StoreError> {
        let everything = self.lock();
        let rows = everything.registry.ledger.iter().filter(|(row, of, entry)| {
            *row > after && of == pool && resource.is_none_or(|id| entry.resource.as_ref() == Some(id))
        });
        Ok(rows.take(limit).map(|(row, _, entry)| (*row, entry.clone())).collect())
    }
}
