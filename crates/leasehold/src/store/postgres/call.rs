//! How a call travels: asked, perhaps answered that the store has forgotten, frozen, asked again.
//!
//! Invariant: a call runs to its end in a task of its own. Whoever stops waiting for it does not stop it, and a connection
//! on which it hangs is given up all the same.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::Shared;
use super::failure::Failure;
use super::lanes::{Lanes, Param};
use super::seen::{Remembered, integer, nonce_bits, nonce_of};
use crate::lease::Nonce;
use crate::store::{Changed, Era, StoreError, TTL_UNKNOWN};

/// How often a store that keeps changing its era under a call is asked.
const TRIES: usize = 4;

/// A statement that reads: the era first, then what the function answers besides.
macro_rules! reading {
    ($function:literal, $columns:literal) => {
        concat!(
            "SELECT (r.era).forgot, (r.era).remind, (r.era).nonce, (r.era).frozen, (r.era).ttl_max_ms, ",
            "(r.era).place, r.snapshot, ",
            $columns,
            " FROM leasehold.",
            $function,
            " AS r"
        )
    };
}
pub(super) use reading;

/// A statement that writes: what the function answers, and what is to be announced. Functions of the row are asked before what stands
/// beside them.
macro_rules! writing {
    ($function:literal) => {
        concat!("SELECT *, current_setting('leasehold.told', true) AS told FROM leasehold.", $function)
    };
}
pub(super) use writing;

const FREEZE: &str = writing!("freeze($1, $2, $3, $4)");
const REMIND: &str = writing!("remind($1)");

/// Which lane a call that writes takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Keeps a session alive.
    Beat,
    /// Anything else.
    Write,
}

/// What a call that writes was answered.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) said: String,
    pub(super) nonce: Nonce,
    pub(super) names: Vec<Option<String>>,
    pub(super) numbers: Vec<Option<i64>>,
}

impl Reply {
    /// An answer that the call cannot have.
    pub(super) fn unexpected(&self) -> StoreError {
        StoreError::unavailable(format!("PostgreSQL answered {:?}, which leasehold does not know", self.said))
    }
}

/// The era as an answer tells it. There is no nonce where there is no era.
#[derive(Debug)]
struct Told {
    nonce: Option<i64>,
    frozen: bool,
    ttl_max_ms: i64,
    place: i64,
}

impl Told {
    fn of(row: &Row) -> Result<Self, Failure> {
        Ok(Self {
            nonce: column(row, "nonce")?,
            frozen: column::<Option<bool>>(row, "frozen")?.unwrap_or(true),
            ttl_max_ms: column::<Option<i64>>(row, "ttl_max_ms")?.unwrap_or(0),
            place: column(row, "place")?,
        })
    }

    fn nonce(&self) -> Result<Nonce, Failure> {
        self.nonce.map(nonce_of).ok_or_else(|| unreadable("an answer without an era"))
    }
}

impl Shared {
    /// Makes a call that writes. What this handle remembers becomes its last parameter.
    pub(super) async fn write(
        self: &Arc<Self>,
        class: Class,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Reply, StoreError> {
        let shared = Arc::clone(self);
        self.run(async move {
            let lanes = if class == Class::Beat { &shared.beats } else { &shared.writes };
            for _ in 0..TRIES {
                let row = shared.change(lanes, sql, params.clone()).await?;
                let (told, said) = (Told::of(&row)?, column::<String>(&row, "said")?);
                if said == "forgot" {
                    shared.freeze(told.nonce).await?;
                    continue;
                }
                shared.remember(&told)?;
                let (names, numbers) = (columns(&row, "names")?, columns(&row, "numbers")?);
                return Ok(Reply { said, nonce: told.nonce()?, names, numbers });
            }
            Err(shared.restless())
        })
        .await
    }

    /// Asks a question. What this handle remembers becomes its last parameter; `take` takes the items from the answer.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        sql: &'static str,
        params: Vec<Param>,
        take: impl Fn(&Row) -> Result<Vec<T>, Failure> + Send + Sync + 'static,
    ) -> Result<Changed<T>, StoreError> {
        let shared = Arc::clone(self);
        self.run(async move {
            let mut lost = false;
            for _ in 0..TRIES {
                let row = match shared.ask(&shared.reads, sql, params.clone()).await {
                    // Asking again changes nothing, so a connection that was lost meanwhile is not worth telling.
                    Err(failure) if failure.ends_link() && !lost => {
                        lost = true;
                        continue;
                    }
                    row => row?,
                };
                let told = Told::of(&row)?;
                if column(&row, "forgot")? {
                    shared.freeze(told.nonce).await?;
                    continue;
                }
                if column(&row, "remind")? {
                    shared.change(&shared.writes, REMIND, Vec::new()).await?;
                    continue;
                }
                shared.remember(&told)?;
                let ttl_max = std::time::Duration::from_millis(told.ttl_max_ms.unsigned_abs());
                let era = Era { nonce: told.nonce()?, frozen: told.frozen, ttl_max };
                let cursor = shared.seen.cursor(column(&row, "snapshot")?);
                return Ok(Changed { era, items: take(&row)?, cursor });
            }
            Err(shared.restless())
        })
        .await
    }

    /// Asks for something that may change, and announces what did.
    async fn change(&self, lanes: &Lanes, sql: &str, params: Vec<Param>) -> Result<Row, Failure> {
        let row = self.ask(lanes, sql, params).await?;
        if let Some(pool) = column::<Option<&str>>(&row, "told")?.and_then(|told| told.strip_prefix(':')) {
            self.announce(pool).await;
        }
        Ok(row)
    }

    async fn ask(&self, lanes: &Lanes, sql: &str, mut params: Vec<Param>) -> Result<Row, Failure> {
        params.push(self.seen.param());
        lanes.ask(&self.address, sql, &params).await
    }

    /// Freezes the store, unless its era is no longer the one that was judged.
    async fn freeze(&self, judged: Option<i64>) -> Result<(), Failure> {
        let judged_param = match judged {
            Some(nonce) => Param::Int(nonce),
            None => Param::NoInt,
        };
        let ttl_unknown = integer(u64::try_from(TTL_UNKNOWN.as_millis()).unwrap_or(u64::MAX));
        let fresh = Nonce::generate();
        let params = vec![judged_param, Param::Int(nonce_bits(fresh)), Param::Int(ttl_unknown)];
        let row = self.change(&self.writes, FREEZE, params).await?;
        if column::<String>(&row, "said")? == "frozen" {
            tracing::warn!(nonce = %fresh, "the store may have forgotten something; it is frozen");
            self.remember(&Told::of(&row)?)?;
        }
        Ok(())
    }

    fn remember(&self, told: &Told) -> Result<(), Failure> {
        let nonce = told.nonce()?;
        self.seen.remember(Remembered { nonce, place: told.place, ttl_max_ms: told.ttl_max_ms });
        Ok(())
    }

    fn restless(&self) -> Failure {
        Failure::passing(format!("{} keeps changing its era; try again", self.address))
    }

    async fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, StoreError> {
        match tokio::spawn(call).await {
            Ok(answer) => answer.map_err(Failure::in_use),
            Err(_) => Err(StoreError::unavailable(format!("the store on {} has stopped", self.address))),
        }
    }
}

/// What a column has.
pub(super) fn column<'r, T: FromSql<'r>>(row: &'r Row, name: &str) -> Result<T, Failure> {
    row.try_get(name).map_err(unreadable)
}

/// An array; null if there was nothing to put into it.
pub(super) fn columns<'r, T: FromSql<'r>>(row: &'r Row, name: &str) -> Result<Vec<T>, Failure> {
    Ok(column::<Option<Vec<T>>>(row, name)?.unwrap_or_default())
}

/// What was read does not fit the rules by which we write.
pub(super) fn unreadable(error: impl std::fmt::Display) -> Failure {
    Failure::passing(format!("PostgreSQL has something that leasehold did not write: {error}"))
}
