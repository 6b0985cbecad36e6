//! What changed since a cursor, read page by page so that the server is never held up for long.
//!
//! Invariant: every page was read in the era of the first, and whatever changed before the call is on one of them. What
//! changes while pages are read is found again from the cursor that is answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::args::Args;
use super::call::{self, Kind, Shared};
use super::reply::Fields;
use super::{MANY_MAX, scripts};
use crate::lease::Pool;
use crate::store::{Changed, Cursor, Era, LeaseRecord, Offer, Others, SessionRecord, StoreError};

/// How many records a page has.
const PAGE: usize = 500;
/// What a foreigner's lease is shown with: it has no session, and no silence ends it. The store itself looks whether it has
/// ended.
const FOREIGN_TTL: Duration = Duration::from_secs(u32::MAX as u64);
/// How often reading begins again because the era changed under it.
const TRIES_MAX: usize = 4;
/// How many readings that were given up on are kept. Each has come to a place of its own: members of one process may share a handle.
const SHELF_MAX: usize = 16;

/// A kind of record: the name of its order, and its fields where it has no rows, the first of which every record has.
pub(super) struct Kinds {
    pub(super) name: &'static str,
    pub(super) fields: &'static [&'static str],
}

/// How far a reading came. Who has no time to read everything in one go goes on from here, instead of never coming to an end.
#[derive(Debug)]
pub(super) struct Begun<K, T> {
    pool: Pool,
    since: Cursor,
    era: Option<Era>,
    after: u64,
    items: BTreeMap<K, T>,
}

/// Where readings that were given up on are left, the oldest first.
#[derive(Debug)]
pub(super) struct Shelf<K, T>(Mutex<VecDeque<Begun<K, T>>>);

impl<K, T> Default for Shelf<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K, T> Shelf<K, T> {
    fn readings(&self) -> MutexGuard<'_, VecDeque<Begun<K, T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reading that goes on: of those that were given up on and are of the same, the one that came furthest.
    fn take(&self, pool: &Pool, since: Cursor) -> Begun<K, T> {
        let mut readings = self.readings();
        let same =
            readings.iter().enumerate().filter(|(_, begun)| (&begun.pool, begun.since) == (pool, since));
        let furthest = same.max_by_key(|(_, begun)| begun.after).map(|(place, _)| place);
        furthest.and_then(|place| readings.remove(place)).unwrap_or_else(|| Begun {
            pool: pool.clone(),
            since,
            era: None,
            after: since.0,
            items: BTreeMap::new(),
        })
    }

    fn leave(&self, begun: Begun<K, T>) {
        let mut readings = self.readings();
        readings.push_back(begun);
        if readings.len() > SHELF_MAX {
            readings.pop_front();
        }
    }

    /// What was read in another era is of no use.
    fn keep_only(&self, era: Era) {
        self.readings().retain(|begun| begun.era.is_some_and(|known| is_same(known, era)));
    }
}

fn is_same(one: Era, other: Era) -> bool {
    (one.nonce, one.frozen) == (other.nonce, other.frozen)
}

/// A reading, put on its shelf if it is given up on.
struct Reading<'s, K, T> {
    shelf: &'s Shelf<K, T>,
    begun: Option<Begun<K, T>>,
}

impl<K, T> Drop for Reading<'_, K, T> {
    fn drop(&mut self) {
        if let Some(begun) = self.begun.take().filter(|begun| begun.after > begun.since.0) {
            self.shelf.leave(begun);
        }
    }
}

/// Reads what changed, by key in order. After its fields `read` finds the name of the record.
pub(super) async fn changed<K: Ord, T>(
    shared: &Shared,
    kind: &Kinds,
    pool: &Pool,
    since: Cursor,
    read: impl Fn(&mut Fields) -> Result<(K, T), StoreError>,
) -> Result<Changed<T>, StoreError> {
    changed_from(shared, kind, (pool, since), &Shelf::default(), read).await
}

/// The same, from where a reading of the same was given up on.
async fn changed_from<K: Ord, T>(
    shared: &Shared,
    kind: &Kinds,
    (pool, since): (&Pool, Cursor),
    shelf: &Shelf<K, T>,
    read: impl Fn(&mut Fields) -> Result<(K, T), StoreError>,
) -> Result<Changed<T>, StoreError> {
    for _ in 0..TRIES_MAX {
        let begun = Some(shelf.take(pool, since));
        let reading = whole(shared, kind, Reading { shelf, begun }, &read);
        if let Some(changed) = call::within(MANY_MAX, &shared.address.place, reading).await? {
            return Ok(changed);
        }
    }
    Err(StoreError::unavailable("the store's era keeps changing; is its server restarting again and again?"))
}

/// Reads all pages; `None` if the era changed in between.
async fn whole<K: Ord, T>(
    shared: &Shared,
    kind: &Kinds,
    mut reading: Reading<'_, K, T>,
    read: &impl Fn(&mut Fields) -> Result<(K, T), StoreError>,
) -> Result<Option<Changed<T>>, StoreError> {
    let mut until = None;
    while let Some(begun) = &mut reading.begun {
        let args = page_args(kind, &begun.pool, begun.after);
        let mut page = shared.run(Kind::Read, &scripts::CHANGED, args).await?;
        let known = begun.era.replace(page.era).unwrap_or(page.era);
        if !is_same(known, page.era) {
            reading.begun = None;
            reading.shelf.keep_only(page.era);
            break;
        }
        // Whatever changed before this call is read by it, wherever an earlier one came to.
        let until = *until.get_or_insert(page.seq);
        begun.after = page.rest.number()?;
        // A record that changed between two pages is on both; the later one counts.
        begun.items.extend(page.rest.list(read)?);
        // What lies beyond that is found from the cursor.
        if page.word != "more" || begun.after > until {
            let items = std::mem::take(&mut begun.items).into_values().collect();
            reading.begun = None;
            return Ok(Some(Changed { era: page.era, items, cursor: Cursor(until) }));
        }
    }
    Ok(None)
}

fn page_args(kind: &Kinds, pool: &Pool, after: u64) -> Args {
    let args = Args::of([kind.name, pool.as_str()]).number(after).number(PAGE as u64);
    kind.fields.iter().fold(args, |args, field| args.text(*field))
}

/// Sessions and leases have rows, with all of each in one text.
const SESSIONS: Kinds = Kinds { name: "sessions", fields: &[] };
const LEASES: Kinds = Kinds { name: "leases", fields: &[] };

pub(super) async fn sessions(
    shared: &Shared,
    pool: &Pool,
    since: Cursor,
) -> Result<Changed<SessionRecord>, StoreError> {
    changed(shared, &SESSIONS, pool, since, |row| session(row).map(|session| (session.id.clone(), session)))
        .await
}

fn session(row: &mut Fields) -> Result<SessionRecord, StoreError> {
    let mut row = row.parts()?;
    row.text()?;
    let ttl = Duration::from_millis(row.number()?);
    let (beat, ended, profile) = (row.beat()?, row.flag()?, row.json()?);
    Ok(SessionRecord { id: row.member()?, ttl, beat, ended, profile })
}

/// What changed among sessions, if that is no more than a page and nothing else changed.
pub(super) async fn sessions_if_quiet(
    shared: &Shared,
    pool: &Pool,
    since: Cursor,
    others: Others,
) -> Result<Option<Changed<SessionRecord>>, StoreError> {
    let mut args = page_args(&SESSIONS, pool, since.0);
    for cursor in [others.leases, others.marks, others.declared] {
        args = args.number(cursor.0);
    }
    let mut page = shared.run(Kind::Read, &scripts::QUIET, args).await?;
    if page.word != "done" {
        return Ok(None);
    }
    page.rest.number()?;
    let items = page.rest.list(session)?;
    Ok(Some(Changed { era: page.era, items, cursor: Cursor(page.seq) }))
}

pub(super) async fn leases(
    shared: &Shared,
    pool: &Pool,
    since: Cursor,
) -> Result<Changed<LeaseRecord>, StoreError> {
    changed_from(shared, &LEASES, (pool, since), &shared.begun, |row| {
        let mut row = row.parts()?;
        row.text()?;
        let (token, mut holder) = (row.token()?, row.optional_id()?);
        let (mut ttl, revoked) = (Duration::from_millis(row.number()?), row.flag()?);
        let (to, load) = (row.optional_id()?, row.optional()?);
        let load = load.and_then(|load| load.parse().ok());
        let offer = to.zip(load).map(|(to, load)| Offer { to, load });
        let foreigner = row.optional_id()?;
        let resource: crate::lease::ResourceId = row.id()?;
        if let (None, Some(by)) = (&holder, foreigner) {
            shared.foreign.heard(&resource, &by, token);
            (holder, ttl) = (Some(by), FOREIGN_TTL);
        }
        Ok((resource.clone(), LeaseRecord { resource, token, holder, ttl, revoked, offer }))
    })
    .await
}
