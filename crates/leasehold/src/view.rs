//! What a reader knows of a pool: sessions, leases, marks, resources, and the era they were read in.
//!
//! Views may be late or differ between members; that costs time, never safety, because the store decides every
//! race.

mod facts;
mod news;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::lease::{MemberId, Nonce, Pool, ResourceId, Token};
use crate::operate::{RESIGNS, SEAT};
use crate::store::{
    Changed, Cursor, Declared, Era, LeaseRecord, Listing, ListingId, Mark, MarkKind, Others, SessionRecord,
    Store, StoreError, Version,
};

pub use news::News;

/// How often everything is read again, to find what changes lost; and how long for each lease and reader, so that many
/// readers of many leases do not read all the time.
const WHOLE_EVERY: Duration = Duration::from_secs(60);
const WHOLE_EVERY_LEASE: Duration = Duration::from_micros(600);
const WHOLE_EVERY_MAX: Duration = Duration::from_secs(3600);
/// In how many steps up to half of that is added by chance: who began together would else read together for ever.
const WHOLE_SPREAD: u32 = 64;
/// How often a refresh begins again because the era changed under it.
const TRIES_MAX: usize = 4;

/// A pool as a reader knows it.
#[derive(Debug)]
pub struct View {
    pool: Pool,
    era: Option<Era>,
    /// The era of marks and declared resources, which may be kept apart from the rest.
    registry: Option<Nonce>,
    sessions: BTreeMap<MemberId, SessionRecord>,
    leases: BTreeMap<ResourceId, LeaseRecord>,
    marks: BTreeMap<(MarkKind, String), Mark>,
    declared: BTreeMap<ResourceId, Declared>,
    listings: HashMap<ListingId, Arc<Listing>>,
    cursors: Cursors,
    whole_at: Moment,
    /// What was read and not yet told, because the rest of the refresh failed.
    news: News,
}

#[derive(Debug, Clone, Copy)]
struct Cursors {
    leases: Cursor,
    sessions: Cursor,
    marks: Cursor,
    declared: Cursor,
}

impl Cursors {
    const START: Self = Self {
        leases: Cursor::START,
        sessions: Cursor::START,
        marks: Cursor::START,
        declared: Cursor::START,
    };
}

/// What one refresh brought.
#[derive(Debug, Clone)]
pub struct Refreshed {
    /// Read after the last answer arrived.
    pub at: Moment,
    /// What is other than before.
    pub news: News,
}

impl View {
    /// A view that has seen nothing yet.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self {
            pool,
            era: None,
            registry: None,
            sessions: BTreeMap::new(),
            leases: BTreeMap::new(),
            marks: BTreeMap::new(),
            declared: BTreeMap::new(),
            listings: HashMap::new(),
            cursors: Cursors::START,
            whole_at: Moment::default(),
            news: News::Nothing,
        }
    }

    /// The era of the last refresh.
    #[must_use]
    pub fn era(&self) -> Option<Era> {
        self.era
    }

    /// Every session the store told of, ended ones included.
    #[must_use]
    pub fn sessions(&self) -> &BTreeMap<MemberId, SessionRecord> {
        &self.sessions
    }

    /// Every lease the store told of, free ones included.
    #[must_use]
    pub fn leases(&self) -> &BTreeMap<ResourceId, LeaseRecord> {
        &self.leases
    }

    /// Operators' marks that are in force.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.marks.values().filter(|mark| mark.value.is_some())
    }

    /// The mark of this kind on this subject, if it is in force.
    #[must_use]
    pub fn mark(&self, kind: MarkKind, subject: &str) -> Option<&Mark> {
        self.marks.get(&(kind, subject.to_owned())).filter(|mark| mark.value.is_some())
    }

    /// Whether members of this name are to hold nothing. A leader that is to resign is drained from one term: once somebody leads under a
    /// newer token the mark says nothing more, whether or not whoever set it came to take it back.
    #[must_use]
    pub fn is_drained(&self, name: &str) -> bool {
        let Some(value) = self.mark(MarkKind::Drain, name).and_then(|mark| mark.value.as_deref()) else {
            return false;
        };
        let resigns_from: Option<Token> = value.strip_prefix(RESIGNS).and_then(|token| token.parse().ok());
        resigns_from.is_none_or(|from| self.leases.get(SEAT).is_none_or(|lease| lease.token <= from))
    }

    /// The version of the mark of this kind on this subject, in force or removed.
    #[must_use]
    pub fn version_of_mark(&self, kind: MarkKind, subject: &str) -> Version {
        self.marks.get(&(kind, subject.to_owned())).map(|mark| mark.version).unwrap_or_default()
    }

    /// The token that every new term of a resource must be above, where a fence knows of one.
    #[must_use]
    pub fn floor(&self, resource: &ResourceId) -> Option<Token> {
        self.mark(MarkKind::Floor, resource.as_str())?.value.as_ref()?.parse().ok()
    }

    /// Whether a resource is held under a token that fences refuse. Whoever holds it has to let go and take it anew.
    #[must_use]
    pub fn is_below_floor(&self, resource: &ResourceId) -> bool {
        let Some(floor) = self.floor(resource) else { return false };
        self.holder(resource).is_some() && self.leases.get(resource).is_some_and(|lease| lease.token < floor)
    }

    /// Every declared resource the store told of, removed ones included.
    #[must_use]
    pub fn declared(&self) -> &BTreeMap<ResourceId, Declared> {
        &self.declared
    }

    /// Who holds a resource: the session named by its lease, if that one has no tombstone.
    #[must_use]
    pub fn holder(&self, resource: &ResourceId) -> Option<&MemberId> {
        let holder = self.leases.get(resource)?.holder.as_ref()?;
        let ended = self.sessions.get(holder).is_some_and(|session| session.ended);
        (!ended).then_some(holder)
    }

    /// Each of these sessions with the resources whose leases name it, whether or not it has ended.
    #[must_use]
    pub fn named_by(&self, sessions: &[MemberId]) -> BTreeMap<MemberId, Vec<ResourceId>> {
        let mut named: BTreeMap<MemberId, Vec<ResourceId>> =
            sessions.iter().map(|session| (session.clone(), Vec::new())).collect();
        for lease in self.leases.values().filter(|_| !sessions.is_empty()) {
            if let Some(held) = lease.holder.as_ref().and_then(|holder| named.get_mut(holder)) {
                held.push(lease.resource.clone());
            }
        }
        named
    }

    /// Whether the store has this listing.
    pub(crate) fn has_listing(&self, id: &ListingId) -> bool {
        self.listings.contains_key(id)
    }

    /// The store no longer has this session's record, not even as a tombstone.
    pub fn lose_session(&mut self, session: &MemberId) {
        if self.sessions.remove(session).is_some() {
            self.news = News::Anything;
        }
    }

    /// Reads what changed since the last refresh, and now and then everything.
    ///
    /// # Errors
    /// The store did not answer. What was not read yet is read by the next refresh.
    pub async fn refresh(&mut self, store: &dyn Store, clock: &dyn Clock) -> Result<Refreshed, StoreError> {
        if clock.now().since(self.whole_at) > self.whole_every() {
            self.forget();
            self.whole_at = clock.now();
        }
        for _ in 0..TRIES_MAX {
            if self.read(store).await? {
                let at = clock.now();
                self.fetch_listings(store).await?;
                return Ok(Refreshed { at, news: std::mem::take(&mut self.news) });
            }
            self.forget();
        }
        Err(StoreError::unavailable(
            "the store's era keeps changing; is something restoring it again and again?",
        ))
    }

    fn whole_every(&self) -> Duration {
        let readers = self.sessions.values().filter(|session| !session.ended).count();
        let rows = u32::try_from(self.leases.len().saturating_mul(readers)).unwrap_or(u32::MAX);
        let every = WHOLE_EVERY_LEASE.saturating_mul(rows).clamp(WHOLE_EVERY, WHOLE_EVERY_MAX);
        // The last digits of the moment at which it was read last are as good as a die.
        let die = self.whole_at.since(Moment::default()).subsec_nanos() % WHOLE_SPREAD;
        every + every / 2 / WHOLE_SPREAD * die
    }

    fn forget(&mut self) {
        *self = Self {
            era: self.era,
            registry: self.registry,
            listings: std::mem::take(&mut self.listings),
            whole_at: self.whole_at,
            news: News::Anything,
            ..Self::new(self.pool.clone())
        };
    }

    /// Reads what changed; answers false if the era is another than before, so that everything must be read anew.
    async fn read(&mut self, store: &dyn Store) -> Result<bool, StoreError> {
        let pool = self.pool.clone();
        if let Some(known) = self.read_if_quiet(store).await? {
            return Ok(known);
        }
        // Leases before sessions: whoever holds a lease that was read has a session that is read after it.
        let leases = store.leases(&pool, self.cursors.leases).await?;
        let sessions = store.sessions(&pool, self.cursors.sessions).await?;
        let marks = store.marks(&pool, self.cursors.marks).await?;
        let declared = store.resources(&pool, self.cursors.declared).await?;
        let known = self.era.replace(sessions.era).map(|era| era.nonce);
        let registry = self.registry.replace(declared.era.nonce);
        let fresh = self.cursors.leases == Cursor::START;
        let is_new = |known: Option<Nonce>, now: Nonce| !fresh && known.is_some_and(|known| known != now);
        if is_new(known, sessions.era.nonce)
            || is_new(registry, declared.era.nonce)
            || leases.era.nonce != sessions.era.nonce
            || marks.era.nonce != declared.era.nonce
        {
            return Ok(false);
        }
        if fresh {
            self.news = News::Anything;
        }
        leases.items.iter().for_each(|lease| self.news.note(&lease.resource));
        marks.items.iter().for_each(|mark| self.news.note_mark(mark));
        declared.items.iter().for_each(|declared| self.news.note(&declared.resource));
        self.cursors.leases = take(leases, &mut self.leases, |lease| lease.resource.clone());
        self.cursors.marks = take(marks, &mut self.marks, |mark| (mark.kind, mark.subject.clone()));
        self.cursors.declared = take(declared, &mut self.declared, |declared| declared.resource.clone());
        self.take_sessions(sessions);
        Ok(true)
    }

    /// Reads nothing but beats where nothing else changed; answers as [`View::read`] does, or `None` if everything must be
    /// read after all. Whoever shows two eras has a registry of its own, and cannot be asked this way.
    async fn read_if_quiet(&mut self, store: &dyn Store) -> Result<Option<bool>, StoreError> {
        let Cursors { leases, sessions, marks, declared } = self.cursors;
        let known = self.era.map(|era| era.nonce).filter(|nonce| Some(*nonce) == self.registry);
        if leases == Cursor::START || known.is_none() {
            return Ok(None);
        }
        let others = Others { leases, marks, declared };
        let Some(quiet) = store.sessions_if_quiet(&self.pool, sessions, others).await? else {
            return Ok(None);
        };
        self.era = Some(quiet.era);
        self.registry = Some(quiet.era.nonce);
        if Some(quiet.era.nonce) != known {
            return Ok(Some(false));
        }
        self.take_sessions(quiet);
        Ok(Some(true))
    }

    fn take_sessions(&mut self, sessions: Changed<SessionRecord>) {
        let is_news = |new: &SessionRecord| {
            let old = self.sessions.get(&new.id);
            old.is_none_or(|old| old.ended != new.ended || old.profile != new.profile)
        };
        // Everybody's listing counts for every resource, and an end frees all that was held.
        if sessions.items.iter().any(is_news) {
            self.news = News::Anything;
        }
        self.cursors.sessions = take(sessions, &mut self.sessions, |session| session.id.clone());
    }

    async fn fetch_listings(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let live = self.sessions.values().filter(|session| !session.ended);
        let used: Vec<ListingId> = live.filter_map(|session| session.profile.listing.clone()).collect();
        self.listings.retain(|id, _| used.contains(id));
        for id in used {
            if self.listings.contains_key(&id) {
                continue;
            }
            if let Some(listing) = store.listing(&self.pool, &id).await? {
                self.listings.insert(id, Arc::new(listing));
                self.news = News::Anything;
            }
        }
        Ok(())
    }
}

fn take<K: Ord, T>(changed: Changed<T>, into: &mut BTreeMap<K, T>, key: impl Fn(&T) -> K) -> Cursor {
    into.extend(changed.items.into_iter().map(|item| (key(&item), item)));
    changed.cursor
}
