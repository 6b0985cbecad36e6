//! One axis for all rows: nanoseconds of wall time, as exact between rows of one boot as their own clock.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::When;
use super::trust::Trust;
use crate::clock::Moment;
use crate::lease::{MemberId, ResourceId};
use crate::ledger::Entry;

/// A place on the axis. Wide enough that nothing a row can say runs over.
pub(super) type Place = i128;

/// A row and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'e> {
    pub(super) at: Place,
    /// The end of trust that it speaks of.
    pub(super) until: Option<Place>,
    pub(super) entry: &'e Entry,
}

/// Which clock a row was written by. Without a name for the boot only rows of one member compare.
pub(super) type Machine<'e> = (&'e str, Option<&'e MemberId>);

pub(super) fn machine(entry: &Entry) -> Machine<'_> {
    (&entry.boot, entry.boot.is_empty().then_some(&entry.member))
}

/// Every row once, in order.
#[derive(Debug)]
pub(super) struct Timeline<'e> {
    rows: Vec<Row<'e>>,
    machines: usize,
    members: HashMap<&'e MemberId, Trust>,
}

impl<'e> Timeline<'e> {
    pub(super) fn of(entries: &'e [Entry]) -> Self {
        let mut once: Vec<&Entry> = entries.iter().collect();
        once.sort_by(|one, two| key(one).cmp(&key(two)));
        once.dedup_by(|one, two| identity(one) == identity(two));
        let offsets = offsets(&once);
        let place = |entry: &Entry, moment: Moment| {
            offsets.get(&machine(entry)).copied().unwrap_or_default() + Place::from(moment.0)
        };
        let row = |entry: &'e Entry| Row {
            at: place(entry, entry.at),
            until: entry.trusted_until.map(|until| place(entry, until)),
            entry,
        };
        let mut rows: Vec<Row<'e>> = once.iter().copied().map(row).collect();
        // Stable: rows of one moment stay in an order that does not depend on how they came.
        rows.sort_by_key(|row| row.at);
        let mut members: HashMap<&MemberId, Trust> = HashMap::new();
        for row in &rows {
            members.entry(&row.entry.member).or_default().hear(row);
        }
        members.values_mut().for_each(Trust::settle);
        Self { machines: offsets.len(), rows, members }
    }

    pub(super) fn rows(&self) -> &[Row<'e>] {
        &self.rows
    }

    pub(super) fn machines(&self) -> usize {
        self.machines
    }

    /// How many rows are not there, as far as the numbers of the others show.
    pub(super) fn missing(&self) -> u64 {
        self.members.values().map(Trust::missing).fold(0, u64::saturating_add)
    }

    pub(super) fn begins(&self) -> Place {
        self.rows.first().map_or(0, |row| row.at)
    }

    pub(super) fn ends(&self) -> Place {
        self.rows.last().map_or(0, |row| row.at)
    }

    /// How long the holder of a term that is first heard of in this row trusted itself at most.
    pub(super) fn trust_of(&self, first: &Entry) -> Option<Place> {
        self.members.get(&first.member)?.bound_for(first)
    }

    /// Where the last row of a member stands that follows this one of it without a hole.
    pub(super) fn heard_after(&self, first: &Entry) -> Option<Place> {
        self.members.get(&first.member)?.heard_after(first)
    }

    /// When a member closed its session.
    pub(super) fn left(&self, member: &MemberId) -> Option<Place> {
        self.members.get(member)?.left()
    }

    /// The rows about each resource, in order.
    pub(super) fn by_resource(&self) -> BTreeMap<&'e ResourceId, Vec<Row<'e>>> {
        let mut resources: BTreeMap<&ResourceId, Vec<Row<'_>>> = BTreeMap::new();
        for row in &self.rows {
            if let Some(resource) = &row.entry.resource {
                resources.entry(resource).or_default().push(*row);
            }
        }
        resources
    }

    pub(super) fn when(&self, place: Place) -> When {
        let wall_nanos = u64::try_from(place.max(0)).unwrap_or(u64::MAX);
        When { since_start: self.between(self.begins(), place), wall_nanos }
    }

    /// How long it is from one place to a later one; nothing if it is not later.
    pub(super) fn between(&self, from: Place, to: Place) -> Duration {
        Duration::from_nanos(u64::try_from(to.saturating_sub(from).max(0)).unwrap_or(u64::MAX))
    }
}

/// Whether two rows were written by the same clock.
pub(super) fn same_machine(one: &Entry, two: &Entry) -> bool {
    machine(one) == machine(two)
}

/// What makes a row the same as another that was read elsewhere.
fn identity(entry: &Entry) -> impl Ord + '_ {
    let what = (entry.event.as_str(), &entry.resource, entry.token, &entry.other);
    (&entry.boot, entry.at, &entry.member, what)
}

/// The same, and the rest, so that which of two such rows is kept does not depend on how they came.
fn key(entry: &Entry) -> impl Ord + '_ {
    let reason = entry.reason.map(crate::ledger::Reason::as_str);
    let numbers = (entry.trusted_until, entry.wall_nanos, entry.number, entry.ttl_ms);
    let rest = (&entry.name, reason, &entry.error, &entry.detail);
    (identity(entry), numbers, rest)
}

/// What to add to each machine's own clock: the middle one of what its rows say, so that a few rows written while
/// somebody set the wall clock move nothing.
fn offsets<'e>(entries: &[&'e Entry]) -> HashMap<Machine<'e>, Place> {
    let mut all: HashMap<Machine<'e>, Vec<Place>> = HashMap::new();
    for entry in entries {
        let offset = Place::from(entry.wall_nanos) - Place::from(entry.at.0);
        all.entry(machine(entry)).or_default().push(offset);
    }
    let middle = |(machine, mut offsets): (Machine<'e>, Vec<Place>)| {
        offsets.sort_unstable();
        let middle = offsets.get(offsets.len() / 2).copied().unwrap_or_default();
        (machine, middle)
    };
    all.into_iter().map(middle).collect()
}
