//! The schema: created and brought up to date by `migrate`, checked by everybody who opens the store.
//!
//! Each migration is a file that is applied once, in order, in one transaction with all others that are due. What was
//! applied is written down with a checksum: a file that was changed afterwards is refused.

use std::time::Duration;

use tokio_postgres::types::Type;
use tokio_postgres::{IsolationLevel, Transaction};

use super::address::Address;
use super::connect::{Link, within};
use super::failure::Failure;
use super::seen::{integer, nonce_bits};
use crate::lease::Nonce;
use crate::store::{Begin, Migrated, StoreError, TTL_UNKNOWN};

/// The longest that a migration may take.
const MIGRATE_MAX: Duration = Duration::from_secs(60);

const MIGRATIONS: [(&str, &str); 18] = [
    ("tables", include_str!("migrations/0001_tables.sql")),
    ("eras", include_str!("migrations/0002_eras.sql")),
    ("sessions", include_str!("migrations/0003_sessions.sql")),
    ("leases", include_str!("migrations/0004_leases.sql")),
    ("reads", include_str!("migrations/0005_reads.sql")),
    ("registry", include_str!("migrations/0006_registry.sql")),
    ("documents", include_str!("migrations/0007_documents.sql")),
    ("claim", include_str!("migrations/0008_claim.sql")),
    ("cameras", include_str!("migrations/0009_cameras.sql")),
    ("camera_indexes", include_str!("migrations/0010_camera_indexes.sql")),
    ("announce", include_str!("migrations/0011_announce.sql")),
    ("cost", include_str!("migrations/0012_cost.sql")),
    ("lease_events", include_str!("migrations/0013_lease_events.sql")),
    ("look", include_str!("migrations/0014_look.sql")),
    ("holders", include_str!("migrations/0015_holders.sql")),
    ("changed", include_str!("migrations/0016_changed.sql")),
    ("fresh", include_str!("migrations/0017_fresh.sql")),
    ("whole", include_str!("migrations/0018_whole.sql")),
];

/// One migration at a time, and none under a call: the lock is the era's.
const LOCK: &str = "SET LOCAL lock_timeout = '20s'; SELECT pg_advisory_xact_lock(7810756276994469740)";
const IS_THERE: &str = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'leasehold'), \
     to_regclass('leasehold.migrations') IS NOT NULL";
const BOOK: &str = "CREATE TABLE leasehold.migrations (version bigint PRIMARY KEY, name text NOT NULL, \
     checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())";
const APPLIED: &str = "SELECT version, checksum FROM leasehold.migrations ORDER BY version";
const CHECKSUM: &str = "SELECT encode(sha256(convert_to($1, 'UTF8')), 'hex')";
const WRITE_DOWN: &str = "INSERT INTO leasehold.migrations (version, name, checksum) \
     VALUES ($1, $2, encode(sha256(convert_to($3, 'UTF8')), 'hex')) RETURNING version";
const BEGIN_ERA: &str = "INSERT INTO leasehold.era (identity, nonce, frozen, token_base, ttl_max_ms, written) \
     VALUES (leasehold.identity(), $1, $2, 0, $3, leasehold.here()) ON CONFLICT DO NOTHING";

/// The version that this build knows.
pub(super) fn latest() -> i64 {
    MIGRATIONS.len() as i64
}

/// Whether a schema can be used whose newest migration is `version`, and which builds can use that know `oldest`.
pub(super) fn check(version: Option<i64>, oldest: i64) -> Result<(), Failure> {
    let found = version.unwrap_or(0);
    let known = latest();
    if found < known {
        return Err(Failure::lasting(format!(
            "the database's schema is version {found}, and this leasehold needs {known}; run `leasehold migrate --store postgres://…`"
        )));
    }
    if oldest > known {
        return Err(Failure::lasting(format!(
            "the database's schema is version {found}, and this leasehold knows {known}: it is older than the schema; upgrade it"
        )));
    }
    Ok(())
}

/// Creates the schema, or brings it up to date. An era that is there is never touched.
pub(super) async fn migrate(address: &Address, begin: Begin) -> Result<Migrated, StoreError> {
    let mut link = Link::open(address, None).await.map_err(Failure::at_open)?;
    let place = link.place.clone();
    let migration = async {
        let transaction = link.client.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
        let of = |error| Failure::of(&place, error);
        let transaction = transaction.start().await.map_err(of)?;
        let before = bring_up(&transaction, begin).await.map_err(|stop| stop.at(&place))?;
        transaction.commit().await.map_err(of)?;
        let version = |version: i64| u32::try_from(version).unwrap_or(u32::MAX);
        Ok(Migrated { before: before.map(version), now: version(latest()) })
    };
    within(MIGRATE_MAX, &place, migration).await.map_err(Failure::at_open)
}

/// Why a migration ends early.
enum Stop {
    Server(tokio_postgres::Error),
    Refused(Failure),
}

impl Stop {
    fn at(self, place: &dyn std::fmt::Display) -> Failure {
        match self {
            Self::Server(error) => Failure::of(place, error),
            Self::Refused(failure) => failure,
        }
    }
}

impl From<tokio_postgres::Error> for Stop {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

async fn bring_up(transaction: &Transaction<'_>, begin: Begin) -> Result<Option<i64>, Stop> {
    transaction.batch_execute(LOCK).await?;
    let there = transaction.query_typed(IS_THERE, &[]).await?;
    let (schema, book) = there.first().map_or((false, false), |row| (row.get(0), row.get(1)));
    if !schema {
        transaction.batch_execute("CREATE SCHEMA leasehold").await?;
    }
    if !book {
        transaction.batch_execute(BOOK).await?;
    }
    let mut before = None;
    for row in transaction.query_typed(APPLIED, &[]).await? {
        let (version, checksum): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        before = Some(version);
        if version > latest() {
            check(before, version).map_err(Stop::Refused)?;
        }
        let known = usize::try_from(version - 1).ok().and_then(|place| MIGRATIONS.get(place));
        let sum = match known {
            Some((_, sql)) => {
                let row = transaction.query_typed(CHECKSUM, &[(sql, Type::TEXT)]).await?;
                row.first().map(|row| row.try_get::<_, String>(0)).transpose()?
            }
            None => None,
        };
        if sum.as_ref() != Some(&checksum) {
            return Err(Stop::Refused(Failure::lasting(format!(
                "migration {version} of the database's schema is not the one that this leasehold knows; \
                 use the build that created it, or another database"
            ))));
        }
    }
    for (version, (name, sql)) in
        (1_i64..).zip(MIGRATIONS).skip_while(|(version, _)| Some(*version) <= before)
    {
        transaction.batch_execute(sql).await?;
        let line = [(&version as _, Type::INT8), (&name as _, Type::TEXT), (&sql as _, Type::TEXT)];
        transaction.query_typed(WRITE_DOWN, &line).await?;
    }
    begin_era(transaction, begin).await?;
    Ok(before)
}

/// The first era. One that is begun frozen may have been preceded by others, of which nothing is known.
async fn begin_era(transaction: &Transaction<'_>, begin: Begin) -> Result<(), Stop> {
    let frozen = begin == Begin::Frozen;
    let nonce = nonce_bits(Nonce::generate());
    let unknown = integer(u64::try_from(TTL_UNKNOWN.as_millis()).unwrap_or(u64::MAX));
    let ttl_max_ms = if frozen { unknown } else { 0 };
    let era = [(&nonce as _, Type::INT8), (&frozen as _, Type::BOOL), (&ttl_max_ms as _, Type::INT8)];
    transaction.query_typed(BEGIN_ERA, &era).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_and_a_newer_schema_are_refused_with_what_to_do() {
        assert!(check(Some(latest()), 1).is_ok());
        assert!(check(Some(latest() + 1), latest()).is_ok(), "what was added does not concern this build");
        for (version, oldest, words) in [
            (None, 0, "run `leasehold migrate"),
            (Some(latest() - 1), 1, "run `leasehold migrate"),
            (Some(latest() + 1), latest() + 1, "it is older than the schema; upgrade it"),
        ] {
            let error = check(version, oldest).expect_err("it cannot be used").at_open();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
