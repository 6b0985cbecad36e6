//! What members read of sessions, leases and pools.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;

use super::Shared;
use super::call::{columns, reading, unreadable};
use super::failure::Failure;
use super::lanes::Param;
use crate::lease::{BeatNumber, IdError, MemberId, Pool, Token};
use crate::store::{Changed, Cursor, LeaseRecord, Offer, SessionRecord, StoreError};

const SESSIONS: &str =
    reading!("read_sessions($1, $2, $3, $4)", "r.ids, r.ttls, r.beats, r.ends, r.profiles");
const LEASES: &str = reading!(
    "read_leases($1, $2, $3, $4)",
    "r.names, r.tokens, r.holders, r.ttls, r.revocations, r.offers, r.loads"
);
const POOLS: &str = reading!("read_pools($1)", "r.names");

impl Shared {
    /// What a question about what changed since a cursor begins with.
    pub(super) fn since(&self, pool: &Pool, since: Cursor) -> Vec<Param> {
        let [lowest, known] = self.seen.since(since);
        vec![Param::text(pool.as_str()), lowest, known]
    }

    pub(super) async fn sessions(
        self: &Arc<Self>,
        pool: &Pool,
        since: Cursor,
    ) -> Result<Changed<SessionRecord>, StoreError> {
        self.read(SESSIONS, self.since(pool, since), sessions).await
    }

    pub(super) async fn leases(
        self: &Arc<Self>,
        pool: &Pool,
        since: Cursor,
    ) -> Result<Changed<LeaseRecord>, StoreError> {
        self.read(LEASES, self.since(pool, since), leases).await
    }

    pub(super) async fn pools(self: &Arc<Self>) -> Result<Vec<Pool>, StoreError> {
        let pools = |row: &Row| columns::<&str>(row, "names")?.into_iter().map(parse).collect();
        Ok(self.read(POOLS, Vec::new(), pools).await?.items)
    }
}

fn sessions(row: &Row) -> Result<Vec<SessionRecord>, Failure> {
    let ids = columns::<&str>(row, "ids")?.into_iter();
    let (ttls, beats) = (columns::<i64>(row, "ttls")?, columns::<i64>(row, "beats")?);
    let (ends, profiles) = (columns::<bool>(row, "ends")?, columns::<&str>(row, "profiles")?);
    let rows = ids.zip(ttls).zip(beats).zip(ends).zip(profiles);
    rows.map(|((((id, ttl), beat), ended), profile)| {
        Ok(SessionRecord {
            id: parse(id)?,
            ttl: Duration::from_millis(ttl.unsigned_abs()),
            beat: BeatNumber(beat.unsigned_abs()),
            ended,
            profile: serde_json::from_str(profile).map_err(unreadable)?,
        })
    })
    .collect()
}

fn leases(row: &Row) -> Result<Vec<LeaseRecord>, Failure> {
    let names = columns::<&str>(row, "names")?.into_iter();
    let (tokens, holders) = (columns::<i64>(row, "tokens")?, columns::<Option<&str>>(row, "holders")?);
    let (ttls, revocations) = (columns::<i64>(row, "ttls")?, columns::<bool>(row, "revocations")?);
    let (offers, loads) = (columns::<Option<&str>>(row, "offers")?, columns::<Option<i64>>(row, "loads")?);
    let rows = names.zip(tokens).zip(holders).zip(ttls).zip(revocations).zip(offers).zip(loads);
    rows.map(|((((((name, token), holder), ttl), revoked), to), load)| {
        let to: Option<MemberId> = to.map(parse).transpose()?;
        Ok(LeaseRecord {
            resource: parse(name)?,
            token: Token(token.unsigned_abs()),
            holder: holder.map(parse).transpose()?,
            ttl: Duration::from_millis(ttl.unsigned_abs()),
            revoked,
            offer: to.map(|to| Offer { to, load: load.unwrap_or_default() as u64 }),
        })
    })
    .collect()
}

/// An id as a column has it. One that does not fit the rules was not written by us.
pub(super) fn parse<T: FromStr<Err = IdError>>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(unreadable)
}
