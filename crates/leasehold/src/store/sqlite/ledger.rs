//! The lines of the ledger: a row each or, where many come together, one row for all of them.
//!
//! # Invariants
//!
//! 1. *Numbers rise in the order in which lines were appended*, whether they are rows or lie in a bundle: both take them from
//!    the same sequence, which the file keeps.
//! 2. *A bundle never changes.* A heartbeat takes the place of the one before, so it is always a row of its own.
//! 3. *At least as many lines are kept as were asked for.* A bundle goes when its last line may go.

use rusqlite::{Connection, Row, named_params};

use super::era::integer;
use super::failure::Stop;
use super::sessions::{json, unreadable};
use super::transaction::Transaction;
use crate::lease::{Pool, ResourceId};
use crate::ledger::{Entry, Event};

/// How many lines the ledger keeps, and how many it drops at most with one call beyond those it takes in.
pub(super) const LINES_MAX: u64 = 200_000;
const STEP: usize = 64;
/// From how many lines on they are bundled. Fewer are rows, so that who looks for a resource never looks through many bundles.
const BUNDLE_MIN: usize = 32;

/// Appends lines, and drops the oldest of more than `keep`.
pub(super) fn append(txn: &Transaction<'_>, pool: &Pool, entries: &[Entry], keep: i64) -> Result<(), Stop> {
    for run in entries.chunk_by(|one, next| renews(one) == renews(next)) {
        if run.len() >= BUNDLE_MIN && !run.iter().any(renews) {
            bundle(txn, pool, run)?;
        } else {
            run.iter().try_for_each(|entry| line(txn, pool, entry))?;
        }
    }
    // More than came in, so that the bound is reached again after it was lowered.
    let step = i64::try_from(entries.len() + STEP).unwrap_or(i64::MAX);
    txn.run(include_str!("prune.sql"), named_params! {":keep": keep, ":step": step})?;
    txn.run(include_str!("prune_bundles.sql"), named_params! {":keep": keep})?;
    Ok(())
}

fn renews(entry: &Entry) -> bool {
    entry.event == Event::Renewed
}

fn line(txn: &Transaction<'_>, pool: &Pool, entry: &Entry) -> Result<(), Stop> {
    let resource = entry.resource.as_ref().map(ResourceId::as_str);
    let renews = renews(entry).then_some(entry.member.as_str());
    let line = json(entry)?;
    let replaces = named_params! {":pool": pool.as_str(), ":renews": renews, ":entry": line};
    if renews.is_some() && txn.run(include_str!("append_renewed.sql"), replaces)? > 0 {
        return Ok(());
    }
    let params =
        named_params! {":pool": pool.as_str(), ":resource": resource, ":renews": renews, ":entry": line};
    txn.run(include_str!("append.sql"), params)?;
    Ok(())
}

fn bundle(txn: &Transaction<'_>, pool: &Pool, entries: &[Entry]) -> Result<(), Stop> {
    let count = i64::try_from(entries.len()).unwrap_or(i64::MAX);
    let numbered = named_params! {":count": count};
    let last = txn.row(include_str!("number_lines.sql"), numbered, |row| row.get::<_, i64>(0))?;
    if last.is_none() {
        txn.run(include_str!("number_first_lines.sql"), numbered)?;
    }
    let last = last.unwrap_or(count);
    let params = named_params! {
        ":line": last,
        ":first": last - count + 1,
        ":pool": pool.as_str(),
        ":resources": resources(entries),
        ":content": json(&entries)?,
    };
    txn.run(include_str!("append_bundle.sql"), params)?;
    Ok(())
}

/// Every resource that lines are about, each between two ends of line.
fn resources(entries: &[Entry]) -> String {
    let mut named: Vec<&str> =
        entries.iter().filter_map(|entry| entry.resource.as_ref()).map(ResourceId::as_str).collect();
    named.sort_unstable();
    named.dedup();
    let mut text = String::from("\n");
    for resource in named {
        text.push_str(resource);
        text.push('\n');
    }
    text
}

/// Which lines are asked for: those of a pool after a line, or those about one resource of it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) pool: Pool,
    pub(super) resource: Option<ResourceId>,
    pub(super) after: u64,
    pub(super) limit: usize,
}

/// The lines that are asked for, oldest first.
pub(super) fn lines(connection: &Connection, asked: &Asked) -> Result<Vec<(u64, Entry)>, Stop> {
    let mut lines = rows(connection, asked)?;
    lines.extend(bundled(connection, asked)?);
    lines.sort_by_key(|(number, _)| *number);
    lines.truncate(asked.limit);
    Ok(lines)
}

fn rows(connection: &Connection, asked: &Asked) -> Result<Vec<(u64, Entry)>, Stop> {
    let read = |row: &Row<'_>| {
        let entry = serde_json::from_str(row.get_ref(1)?.as_str()?).map_err(unreadable)?;
        Ok((row.get(0)?, entry))
    };
    let (pool, after) = (asked.pool.as_str(), integer(asked.after));
    let limit = i64::try_from(asked.limit).unwrap_or(i64::MAX);
    let lines = match &asked.resource {
        None => connection
            .prepare_cached(include_str!("ledger.sql"))?
            .query_map(named_params! {":pool": pool, ":after": after, ":limit": limit}, read)?
            .collect::<Result<_, _>>()?,
        Some(resource) => connection
            .prepare_cached(include_str!("ledger_of_resource.sql"))?
            .query_map(
                named_params! {
                    ":pool": pool, ":resource": resource.as_str(), ":after": after, ":limit": limit,
                },
                read,
            )?
            .collect::<Result<_, _>>()?,
    };
    Ok(lines)
}

/// The first lines that lie in bundles, as many as there are in those that reach the limit.
fn bundled(connection: &Connection, asked: &Asked) -> Result<Vec<(u64, Entry)>, Stop> {
    let (pool, after) = (asked.pool.as_str(), integer(asked.after));
    let mut statement = connection.prepare_cached(match asked.resource {
        None => include_str!("bundles.sql"),
        Some(_) => include_str!("bundles_of_resource.sql"),
    })?;
    let mut bundles = match &asked.resource {
        None => statement.query(named_params! {":pool": pool, ":after": after})?,
        Some(resource) => {
            let resource = resource.as_str();
            statement.query(named_params! {":pool": pool, ":after": after, ":resource": resource})?
        }
    };
    let is_asked_for = |number: u64, entry: &Entry| {
        number > asked.after && (asked.resource.is_none() || entry.resource == asked.resource)
    };
    let mut lines = Vec::new();
    while lines.len() < asked.limit
        && let Some(row) = bundles.next()?
    {
        let first: u64 = row.get(0)?;
        let content = row.get_ref(1)?.as_str().map_err(unreadable)?;
        let entries: Vec<Entry> = serde_json::from_str(content).map_err(unreadable)?;
        lines.extend((first..).zip(entries).filter(|(number, entry)| is_asked_for(*number, entry)));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::super::transaction::tests::{begin, file};
    use super::*;
    use crate::store::conformance::registry::entry;

    fn entries(count: u64) -> Vec<Entry> {
        (1..=count)
            .map(|number| entry(Event::Acquired, Some(if number % 2 == 0 { "even" } else { "odd" })))
            .collect()
    }

    fn pool() -> Pool {
        "work".parse().expect("an id")
    }

    fn append(connection: &Connection, count: u64, keep: i64) {
        let txn = begin(connection);
        super::append(&txn, &pool(), &entries(count), keep).expect("appended");
        txn.commit().expect("committed");
    }

    fn numbers(connection: &Connection) -> Vec<u64> {
        let asked = Asked { pool: pool(), resource: None, after: 0, limit: 10_000 };
        let lines = lines(connection, &asked).expect("read");
        lines.into_iter().map(|(number, _)| number).collect()
    }

    fn count(connection: &Connection, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        connection.query_row(&sql, [], |row| row.get(0)).expect("a number")
    }

    const MANY: i64 = 1_000_000;

    #[test]
    fn many_are_one_row_and_few_are_rows_of_their_own() {
        let connection = file();
        append(&connection, 31, MANY);
        assert_eq!((count(&connection, "ledger"), count(&connection, "bundles")), (31, 0));
        append(&connection, 32, MANY);
        assert_eq!((count(&connection, "ledger"), count(&connection, "bundles")), (31, 1));
        assert_eq!(numbers(&connection), (1..=63).collect::<Vec<_>>());
    }

    #[test]
    fn a_program_that_knows_no_bundles_goes_on_behind_them() {
        let connection = file();
        append(&connection, 40, MANY);
        let line = named_params! {":pool": "work", ":resource": None::<&str>, ":renews": None::<&str>, ":entry": "{}"};
        connection.execute(include_str!("append.sql"), line).expect("a line");
        assert_eq!(connection.last_insert_rowid(), 41);
        connection.execute("DELETE FROM ledger", []).expect("it was no entry");
        append(&connection, 40, MANY);
        assert_eq!(numbers(&connection), (1..=40).chain(42..=81).collect::<Vec<_>>());
    }

    #[test]
    fn what_lies_wholly_beyond_the_bound_is_dropped() {
        let connection = file();
        append(&connection, 20, 50);
        append(&connection, 40, 50);
        append(&connection, 40, 50);
        assert_eq!(
            numbers(&connection),
            (21..=100).collect::<Vec<_>>(),
            "the bundle from 21 to 60 has ten to keep"
        );
        append(&connection, 10, 50);
        assert_eq!(numbers(&connection), (61..=110).collect::<Vec<_>>());
        append(&connection, 1, 5);
        assert_eq!(numbers(&connection), (107..=111).collect::<Vec<_>>());
    }

    #[test]
    fn how_to_drop_lines_is_planned_once_however_many_come() {
        let connection = file();
        (1..5).for_each(|count| append(&connection, count, MANY));
        let pruning = connection.prepare_cached(include_str!("prune.sql")).expect("it is good");
        assert_eq!(pruning.get_status(StatementStatus::RePrepare), 0);
    }

    #[test]
    fn a_call_drops_a_few_lines_more_than_it_brings_and_leaves_others_to_the_next() {
        let connection = file();
        (0..10).for_each(|_| append(&connection, 20, MANY));
        append(&connection, 2, 5);
        assert_eq!(numbers(&connection), (67..=202).collect::<Vec<_>>());
        (0..3).for_each(|_| append(&connection, 1, 5));
        assert_eq!(numbers(&connection), (201..=205).collect::<Vec<_>>());
    }
}
