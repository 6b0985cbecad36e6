//! What an event is, and where events go.

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;
use leasehold::lease::{MemberId, MemberName, Pool, ResourceId, Token};
use leasehold::ledger::{Entry, Event as Kind, Reason};
use serde::Serialize;

use super::camera::LeaseEvent;

/// A committed row of the ledger, as it is told to others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// `<pool of the store>:<row>`: the same each time the event is delivered, and no other event's.
    pub id: String,
    /// The row's number in the ledger. Numbers rise, with gaps.
    pub row: u64,
    /// What happened.
    pub event: Kind,
    /// Whose pool it is, where the pool is a tenant's.
    pub tenant: Option<String>,
    /// The pool as its tenant calls it.
    pub pool: String,
    /// The resource that it is about.
    pub resource: Option<ResourceId>,
    /// The token that it is about.
    pub token: Option<Token>,
    /// The member that it happened to: the holder, or the one that saw it.
    pub member: MemberId,
    /// That member's stable name.
    pub name: MemberName,
    /// The other member concerned: the successor, the last holder, the one that fell silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<MemberId>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The lease's TTL in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// When, by the writer's wall clock (RFC 3339). For people: nothing is decided by it.
    pub at: String,
    /// The same in the words of document 004, where it is about the lease of a camera.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub camera: Option<LeaseEvent>,
    /// The pool as the store calls it.
    #[serde(skip)]
    pub store_pool: Pool,
}

impl Event {
    /// The event that a row is, or none: heartbeats take each other's place in the ledger, and are not events.
    #[must_use]
    pub fn of(pool: &Pool, row: u64, entry: &Entry, tenants: &Tenants) -> Option<Self> {
        let at = rfc3339(entry.wall_nanos);
        let camera = LeaseEvent::of(entry, &at);
        if entry.event == Kind::Renewed {
            return None;
        }
        let (tenant, name) = tenants.split(pool);
        Some(Self {
            id: format!("{pool}:{row}"),
            row,
            event: entry.event,
            tenant: tenant.map(str::to_owned),
            pool: name.to_owned(),
            resource: entry.resource.clone(),
            token: entry.token,
            member: entry.member.clone(),
            name: entry.name.clone(),
            other: entry.other.clone(),
            reason: entry.reason,
            ttl_ms: entry.ttl_ms,
            at,
            camera,
            store_pool: pool.clone(),
        })
    }

    /// The event as JSON.
    #[must_use]
    pub fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

fn rfc3339(wall_nanos: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(wall_nanos)).unwrap_or_default().to_string()
}

/// The tenants there are: a pool `acme.scenes` is the pool `scenes` of `acme` if that is one, else just a pool with a dot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tenants(BTreeSet<String>);

impl Tenants {
    /// Takes a tenant in. Once known, always known: what it left behind stays its own.
    pub fn insert(&mut self, tenant: &str) {
        if !self.0.contains(tenant) {
            self.0.insert(tenant.to_owned());
        }
    }

    /// The tenant whose pool it is, and the pool as that tenant calls it.
    #[must_use]
    pub fn split<'a>(&self, pool: &'a Pool) -> (Option<&'a str>, &'a str) {
        match pool.as_str().split_once('.') {
            Some((tenant, name)) if self.0.contains(tenant) => (Some(tenant), name),
            _ => (None, pool.as_str()),
        }
    }
}

/// Events could not be delivered, or it is not known whether they were. They are delivered again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(String);

impl SinkError {
    /// With what happened and to what. Never with anything secret.
    pub fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }
}

/// Where events go.
#[async_trait]
pub trait EventSink: fmt::Debug + Send + Sync + 'static {
    /// Publishes events and waits until all of them are confirmed by whoever keeps them from here on.
    ///
    /// To ensure correctness: events of one resource go out in their order, and none goes out before those of the same
    /// resource that come before it are either confirmed or certain to arrive first. Whatever fails ends the call; the
    /// caller sends everything again.
    ///
    /// # Errors
    /// At least one event was not confirmed.
    async fn publish(&self, events: &[Event]) -> Result<(), SinkError>;
}

/// Cuts events into runs in which no resource appears twice. A broker that refuses one of a run while it takes a later one
/// cannot put a resource's events out of order if every run is confirmed before the next goes out.
pub(super) fn runs(events: &[Event]) -> Vec<&[Event]> {
    let mut runs = Vec::new();
    let mut seen = BTreeSet::new();
    let mut start = 0;
    for (place, event) in events.iter().enumerate() {
        if !seen.insert((&event.store_pool, &event.resource)) {
            runs.push(&events[start..place]);
            start = place;
            seen.clear();
            seen.insert((&event.store_pool, &event.resource));
        }
    }
    if start < events.len() {
        runs.push(&events[start..]);
    }
    runs
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use leasehold::clock::Moment;

    pub(in super::super) fn event(pool: &str, row: u64, resource: Option<&str>, kind: Kind) -> Event {
        let mut tenants = Tenants::default();
        tenants.insert("acme");
        let entry = Entry {
            wall_nanos: 1_700_000_000_123_000_000,
            at: Moment(1),
            boot: String::new(),
            number: Some(1),
            member: MemberId::new("m-1").unwrap(),
            name: MemberName::new("m").unwrap(),
            event: kind,
            resource: resource.map(|id| ResourceId::new(id).unwrap()),
            token: Some(Token(7)),
            trusted_until: None,
            ttl_ms: None,
            reason: None,
            error: Some("postgres://user:secret@host".to_owned()),
            other: None,
            detail: None,
        };
        Event::of(&Pool::new(pool).unwrap(), row, &entry, &tenants).unwrap()
    }

    #[test]
    fn an_event_says_what_the_row_says() {
        let json = event("acme.scenes", 12, Some("lobby"), Kind::TakenOver).json();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let expected = serde_json::json!({
            "id": "acme.scenes:12", "row": 12, "event": "taken_over", "tenant": "acme", "pool": "scenes",
            "resource": "lobby", "token": 7, "member": "m-1", "name": "m", "at": "2023-11-14T22:13:20.123Z",
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn a_dot_alone_makes_no_tenant() {
        let event = event("a.b", 1, None, Kind::Joined);
        assert_eq!((event.tenant, event.pool.as_str()), (None, "a.b"));
    }

    #[test]
    fn no_resource_is_twice_in_a_run() {
        let events: Vec<Event> = ["a", "b", "a", "c", "a", "a"]
            .iter()
            .zip(1..)
            .map(|(id, row)| event("p", row, Some(id), Kind::Acquired))
            .collect();
        let rows: Vec<Vec<u64>> =
            runs(&events).into_iter().map(|run| run.iter().map(|event| event.row).collect()).collect();
        assert_eq!(rows, [vec![1, 2], vec![3, 4], vec![5], vec![6]]);
        assert!(runs(&[]).is_empty());
    }
}
