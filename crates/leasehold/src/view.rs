//! What a reader knows of a pool: sessions, leases, marks, resources, and the era they were read in.
//!
//! Views may be late or differ between members; that costs time, never safety, because the store decides every
//! race.

mod facts;
mod news;
mod refresh;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::lease::{MemberId, Nonce, Pool, ResourceId, Token};
use crate::operate::{RESIGNS, SEAT};
use crate::store::{
    Cursor, Declared, Era, LeaseRecord, Listing, ListingId, Mark, MarkKind, SessionRecord, Store, StoreError,
    Version,
};

pub use news::News;
pub use refresh::{Place, refresh};

/// A pool as a reader knows it.
#[derive(Debug)]
pub struct View {
    pool: Pool,
    era: Option<Era>,
    /// The era of marks and declared resources, which may be kept apart from the rest.
    registry: Option<Nonce>,
    sessions: BTreeMap<MemberId, SessionRecord>,
    /// When the ends of those that have ended were first read, in that order. What was lost since is here until nothing is before it.
    ended: VecDeque<(Moment, MemberId)>,
    leases: BTreeMap<ResourceId, LeaseRecord>,
    marks: BTreeMap<(MarkKind, String), Mark>,
    declared: BTreeMap<ResourceId, Declared>,
    listings: BTreeMap<ListingId, Arc<Listing>>,
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
            ended: VecDeque::new(),
            leases: BTreeMap::new(),
            marks: BTreeMap::new(),
            declared: BTreeMap::new(),
            listings: BTreeMap::new(),
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

    /// Every session that has not ended.
    pub fn living(&self) -> impl Iterator<Item = &SessionRecord> {
        self.sessions.values().filter(|session| !session.ended)
    }

    /// Whether this session has not ended, as far as is known.
    #[must_use]
    pub fn is_living(&self, session: &MemberId) -> bool {
        self.sessions.get(session).is_some_and(|session| !session.ended)
    }

    /// Sessions that ended at least this long ago, counted from the read that first showed it, in that order.
    pub fn ended_for(&self, now: Moment, at_least: Duration) -> impl Iterator<Item = &SessionRecord> {
        let long = self.ended.iter().take_while(move |(at, _)| now.since(*at) >= at_least);
        long.filter_map(|(_, id)| self.sessions.get(id)).filter(|session| session.ended)
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
        if self.sessions.remove(session).is_none() {
            return;
        }
        self.news = News::Anything;
        while self.ended.front().is_some_and(|(_, oldest)| !self.sessions.contains_key(oldest)) {
            self.ended.pop_front();
        }
    }

    /// Reads what changed since the last refresh, and now and then everything.
    ///
    /// # Errors
    /// Those of [`refresh`].
    pub async fn refresh(&mut self, store: &dyn Store, clock: &dyn Clock) -> Result<Refreshed, StoreError> {
        refresh(self, store, clock).await
    }
}
