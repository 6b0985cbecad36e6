//! How a view is brought up to date: it is asked what it would like to know, the store answers, and the answer is taken in.
//!
//! Invariant: nothing waits for the store while the view is changed, so that others can look at it meanwhile. What they see is what
//! one answer after the other left, and never a view that is being read.
//!
//! Invariant: answers are taken in in the order of their questions, one at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::DerefMut;
use std::time::Duration;

use super::{Cursors, News, Refreshed, View};
use crate::clock::{Clock, Moment};
use crate::lease::{Nonce, Pool};
use crate::store::{
    Changed, Cursor, Declared, LeaseRecord, Listing, ListingId, Mark, Others, SessionRecord, Store,
    StoreError,
};

/// How often everything is read again, to find what changes lost; and how long for each lease and reader, so that many
/// readers of many leases do not read all the time.
const WHOLE_EVERY: Duration = Duration::from_secs(60);
const WHOLE_EVERY_LEASE: Duration = Duration::from_micros(600);
const WHOLE_EVERY_MAX: Duration = Duration::from_secs(3600);
/// In how many steps up to half of that is added by chance: who began together would else read together for ever.
const WHOLE_SPREAD: u32 = 64;
/// How often a refresh begins again because the era changed under it.
const TRIES_MAX: usize = 4;

/// Where a view is kept.
pub trait Place: Send {
    /// The view, for no longer than something is done with it: nobody waits for a store meanwhile.
    fn view(&mut self) -> impl Future<Output = impl DerefMut<Target = View> + Send> + Send;
}

impl Place for &mut View {
    fn view(&mut self) -> impl Future<Output = impl DerefMut<Target = View> + Send> + Send {
        std::future::ready(&mut **self)
    }
}

/// Reads what changed since the last refresh, and now and then everything. There is no other refresh of that view at the same time.
///
/// # Errors
/// The store did not answer. What was not read yet is read by the next refresh.
pub async fn refresh(
    mut place: impl Place,
    store: &dyn Store,
    clock: &dyn Clock,
) -> Result<Refreshed, StoreError> {
    for _ in 0..TRIES_MAX {
        let question = place.view().await.question(clock.now());
        let told = question.ask(store).await?;
        let at = clock.now();
        let missing = {
            let mut view = place.view().await;
            view.take_in(&question, told, at).then(|| view.missing_listings())
        };
        let Some(missing) = missing else { continue };
        for id in missing {
            if let Some(listing) = store.listing(&question.pool, &id).await? {
                place.view().await.take_listing(id, listing);
            }
        }
        return Ok(Refreshed { at, news: std::mem::take(&mut place.view().await.news) });
    }
    Err(StoreError::unavailable("the store's era keeps changing; is something restoring it again and again?"))
}

/// What a view would like to know: what changed since these cursors.
#[derive(Debug)]
struct Question {
    pool: Pool,
    cursors: Cursors,
    /// The era that is known, if a quiet pool can be told by it. Whoever shows two eras has a registry of its own, and cannot be
    /// asked that way.
    era: Option<Nonce>,
    /// When it was decided that everything is to be read.
    whole: Option<Moment>,
}

/// What a store told.
enum Told {
    /// There is nothing new but this.
    Quiet(Changed<SessionRecord>),
    All(Changed<LeaseRecord>, Changed<SessionRecord>, Changed<Mark>, Changed<Declared>),
}

impl Question {
    async fn ask(&self, store: &dyn Store) -> Result<Told, StoreError> {
        let Self { pool, cursors: Cursors { leases, sessions, marks, declared }, .. } = self;
        if self.era.is_some() && !self.is_whole() {
            let others = Others { leases: *leases, marks: *marks, declared: *declared };
            if let Some(quiet) = store.sessions_if_quiet(pool, *sessions, others).await? {
                return Ok(Told::Quiet(quiet));
            }
        }
        // Leases before sessions: whoever holds a lease that was read has a session that is read after it.
        let leases = store.leases(pool, *leases).await?;
        let sessions = store.sessions(pool, *sessions).await?;
        let marks = store.marks(pool, *marks).await?;
        Ok(Told::All(leases, sessions, marks, store.resources(pool, *declared).await?))
    }

    fn is_whole(&self) -> bool {
        self.cursors.leases == Cursor::START
    }
}

impl View {
    fn question(&self, now: Moment) -> Question {
        let whole = (now.since(self.whole_at) > self.whole_every()).then_some(now);
        Question {
            pool: self.pool.clone(),
            cursors: if whole.is_some() { Cursors::START } else { self.cursors },
            era: self.era.map(|era| era.nonce).filter(|nonce| Some(*nonce) == self.registry),
            whole,
        }
    }

    fn whole_every(&self) -> Duration {
        let rows = u32::try_from(self.leases.len().saturating_mul(self.living().count())).unwrap_or(u32::MAX);
        let every = WHOLE_EVERY_LEASE.saturating_mul(rows).clamp(WHOLE_EVERY, WHOLE_EVERY_MAX);
        // The last digits of the moment at which it was read last are as good as a die.
        let die = self.whole_at.since(Moment::default()).subsec_nanos() % WHOLE_SPREAD;
        every + every / 2 / WHOLE_SPREAD * die
    }

    /// Takes in what was told, whose last part arrived at `at`; answers false if the era is another than before, so that
    /// everything must be read anew.
    fn take_in(&mut self, question: &Question, told: Told, at: Moment) -> bool {
        self.whole_at = question.whole.unwrap_or(self.whole_at);
        let whole = question.is_whole();
        let is_new = |known: Option<Nonce>, now: Nonce| !whole && known.is_some_and(|known| known != now);
        let known = self.era.map(|era| era.nonce);
        match told {
            Told::Quiet(sessions) => {
                let now = sessions.era.nonce;
                self.era = Some(sessions.era);
                self.registry = Some(now);
                if is_new(known, now) {
                    self.forget();
                    return false;
                }
                self.take_sessions(sessions, at);
            }
            Told::All(leases, sessions, marks, declared) => {
                let now = sessions.era.nonce;
                self.era = Some(sessions.era);
                let registry = self.registry.replace(declared.era.nonce);
                if is_new(known, now)
                    || is_new(registry, declared.era.nonce)
                    || leases.era.nonce != now
                    || marks.era.nonce != declared.era.nonce
                {
                    self.forget();
                    return false;
                }
                if whole {
                    let ended = std::mem::take(&mut self.ended);
                    self.forget();
                    // Who had ended is not read as if it ended now, unless in another era.
                    self.ended = if known == Some(now) { ended } else { VecDeque::new() };
                }
                leases.items.iter().for_each(|lease| self.news.note(&lease.resource));
                marks.items.iter().for_each(|mark| self.news.note_mark(mark));
                declared.items.iter().for_each(|declared| self.news.note(&declared.resource));
                self.cursors.leases = take(leases, &mut self.leases, |lease| lease.resource.clone());
                self.cursors.marks = take(marks, &mut self.marks, |mark| (mark.kind, mark.subject.clone()));
                self.cursors.declared =
                    take(declared, &mut self.declared, |declared| declared.resource.clone());
                self.take_sessions(sessions, at);
                if whole {
                    let (Self { ended, sessions, .. }, mut first) = (self, BTreeSet::new());
                    ended.retain(|(_, id)| sessions.contains_key(id) && first.insert(id.clone()));
                }
            }
        }
        true
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

    fn take_sessions(&mut self, changed: Changed<SessionRecord>, at: Moment) {
        for new in changed.items {
            let (id, ended) = (new.id.clone(), new.ended);
            let old = self.sessions.get(&id);
            let was_ended = old.is_some_and(|old| old.ended);
            // Everybody's listing counts for every resource, and an end frees all that was held.
            if old.is_none_or(|old| was_ended != ended || old.profile != new.profile) {
                self.news = News::Anything;
            }
            if ended && !was_ended {
                self.ended.push_back((at, id.clone()));
            }
            self.sessions.insert(id, new);
        }
        self.cursors.sessions = changed.cursor;
    }

    /// Listings that are published and not known. Those that nobody publishes any more are forgotten.
    fn missing_listings(&mut self) -> Vec<ListingId> {
        let Self { sessions, listings, .. } = self;
        let living = sessions.values().filter(|session| !session.ended);
        let used: Vec<&ListingId> = living.filter_map(|session| session.profile.listing.as_ref()).collect();
        listings.retain(|id, _| used.contains(&id));
        used.into_iter().filter(|id| !listings.contains_key(*id)).cloned().collect()
    }

    fn take_listing(&mut self, id: ListingId, listing: Listing) {
        self.listings.insert(id, listing.into());
        self.news = News::Anything;
    }
}

fn take<K: Ord, T>(changed: Changed<T>, into: &mut BTreeMap<K, T>, key: impl Fn(&T) -> K) -> Cursor {
    into.extend(changed.items.into_iter().map(|item| (key(&item), item)));
    changed.cursor
}
