//! The one thread that reads. Every answer is one snapshot: the era and the rows of the same instant.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::{Connection, OpenFlags, named_params};
use tokio::sync::oneshot;

use super::Shared;
use super::connect::connect;
use super::era::{EraRow, Remembered, integer};
use super::failure::{Failure, Stop};
use super::files::{self, Identity};
use super::notes;
use super::queue::CloseOnExit;
use super::sessions::{parse, unreadable};
use crate::lease::{MemberId, Pool, Token};
use crate::store::{Changed, Cursor, LeaseRecord, Offer, SessionRecord};

/// How often a reader looks again at a file that keeps changing under it.
const TRIES: usize = 5;

/// One question on its way to the reader.
pub(super) struct Question {
    about: About,
    answer: Answering,
}

/// Answers from a snapshot, or says why there is none.
type Answering = Box<dyn FnOnce(Result<(&Connection, &EraRow), Failure>) + Send>;

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// Sessions or leases: what is noted is settled before.
    Rows,
    /// Anything else.
    Aside,
}

impl Shared {
    /// Sends a question to the reader.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        about: About,
        question: impl FnOnce(&Connection, &EraRow) -> Result<T, Stop> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, Failure>>, Failure> {
        let (reply, found) = oneshot::channel();
        let path = self.path.clone();
        let answer: Answering = Box::new(move |snapshot| {
            let found = snapshot
                .and_then(|(connection, era)| question(connection, era).map_err(|stop| stop.at(&path)));
            let _ = reply.send(found);
        });
        if self.reads.push(Question { about, answer }, false) { Ok(found) } else { Err(self.overrun()) }
    }

    /// Whether no reader waits until everything is settled.
    pub(super) fn nobody_waits_to_read(&self) -> bool {
        self.waiting_to_read.load(Ordering::SeqCst) == 0
    }
}

/// While it lives the writer notes nothing: what was settled for a reader stays so until it has begun to read.
struct WaitsToRead<'a>(&'a AtomicUsize);

impl<'a> WaitsToRead<'a> {
    fn announced(shared: &'a Shared) -> Self {
        shared.waiting_to_read.fetch_add(1, Ordering::SeqCst);
        Self(&shared.waiting_to_read)
    }
}

impl Drop for WaitsToRead<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A connection for reading and the file it is on.
#[derive(Debug)]
pub(super) struct Eye {
    pub(super) connection: Connection,
    pub(super) identity: Identity,
}

impl Eye {
    /// Looks at the file that the path names, if the writer stands on it too.
    pub(super) fn open(shared: &Shared) -> Result<Self, Failure> {
        let path = files::resolve(&shared.path)?;
        let of = |error: rusqlite::Error| Failure::of_sqlite(&path, &error);
        let connection = connect(&path, OpenFlags::empty()).map_err(of)?;
        connection.pragma_update(None, "query_only", true).map_err(of)?;
        let identity = shared.standing_on();
        match identity.filter(|identity| Identity::of(&path).ok().flatten().as_ref() == Some(identity)) {
            Some(identity) => Ok(Self { connection, identity }),
            None => Err(Failure::unavailable(format!("{} is being replaced; try again", path.display()))),
        }
    }

    /// Whether this is still the file that the path names.
    pub(super) fn is_current(&self, shared: &Shared) -> bool {
        Identity::of(&shared.path).ok().flatten().as_ref() == Some(&self.identity)
    }
}

/// Answers questions until the queue is closed.
pub(super) fn serve(shared: &Arc<Shared>) {
    let _close = CloseOnExit(&shared.reads);
    let mut eye = None;
    while let Some(questions) = shared.reads.take(1) {
        for question in questions {
            answer(shared, &mut eye, question);
        }
    }
}

fn answer(shared: &Shared, eye: &mut Option<Eye>, question: Question) {
    let Question { about, answer } = question;
    match snapshot(shared, eye, about) {
        Ok((connection, era)) => {
            answer(Ok((connection, &era)));
            let _ = connection.execute_batch("ROLLBACK");
        }
        Err(failure) => {
            *eye = None;
            answer(Err(failure));
        }
    }
}

/// Begins a read transaction on a file that has forgotten nothing and in which, if it is about rows, all is settled.
fn snapshot<'e>(
    shared: &Shared,
    eye: &'e mut Option<Eye>,
    about: About,
) -> Result<(&'e Connection, EraRow), Failure> {
    let mut era = None;
    let mut waits: Option<WaitsToRead<'_>> = None;
    for _ in 0..TRIES {
        if !eye.as_ref().is_some_and(|eye| eye.is_current(shared)) {
            // The writer is the one who finds, creates and judges the file.
            *eye = None;
            shared.nudge()?;
            *eye = Eye::open(shared).ok();
        }
        let Some(eye) = eye.as_ref() else { continue };
        // Remembered first: what is read afterwards can only be newer.
        let remembered = shared.remembered();
        let of = |error: rusqlite::Error| Failure::of_sqlite(&shared.path, &error);
        eye.connection.execute_batch("BEGIN").map_err(of)?;
        let found = EraRow::read(&eye.connection);
        if about == About::Rows && found.is_ok() && notes::any(&eye.connection).map_err(of)? {
            let _ = eye.connection.execute_batch("ROLLBACK");
            waits.get_or_insert_with(|| WaitsToRead::announced(shared));
            shared.settle()?;
            continue;
        }
        match found {
            Ok(found)
                if found.identity == eye.identity
                    && remembered.is_none_or(|remembered| remembered.leads_to(&found)) =>
            {
                shared.remember(Remembered::of(&found));
                era = Some(found);
                break;
            }
            found => {
                let _ = eye.connection.execute_batch("ROLLBACK");
                found.map_err(of)?;
                shared.nudge()?;
            }
        }
    }
    match (eye, era) {
        (Some(eye), Some(era)) => Ok((&eye.connection, era)),
        _ => {
            let shown = shared.path.display();
            Err(Failure::unavailable(format!("cannot read {shown}: it keeps changing; try again")))
        }
    }
}

/// What changed since a cursor, read by one statement.
pub(super) fn changed<T>(
    connection: &Connection,
    era: &EraRow,
    sql: &str,
    (pool, since): (&Pool, Cursor),
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Changed<T>, Stop> {
    // Rows of the first transaction are after the start too.
    let since = if since == Cursor::START { -1 } else { integer(since.0) };
    let mut statement = connection.prepare_cached(sql)?;
    let params = named_params! {":pool": pool.as_str(), ":since": since};
    let items = statement.query_map(params, read)?.collect::<Result<_, _>>()?;
    Ok(Changed { era: era.shown(), items, cursor: Cursor(era.seq) })
}

pub(super) fn sessions(
    connection: &Connection,
    era: &EraRow,
    pool: &Pool,
    since: Cursor,
) -> Result<Changed<SessionRecord>, Stop> {
    changed(connection, era, include_str!("sessions.sql"), (pool, since), |row| {
        Ok(SessionRecord {
            id: parse(row.get(0)?)?,
            ttl: std::time::Duration::from_millis(row.get(1)?),
            beat: crate::lease::BeatNumber(row.get(2)?),
            ended: row.get(3)?,
            profile: serde_json::from_str(row.get_ref(4)?.as_str()?).map_err(unreadable)?,
        })
    })
}

pub(super) fn leases(
    connection: &Connection,
    era: &EraRow,
    pool: &Pool,
    since: Cursor,
) -> Result<Changed<LeaseRecord>, Stop> {
    let sql =
        if since == Cursor::START { include_str!("leases_all.sql") } else { include_str!("leases.sql") };
    changed(connection, era, sql, (pool, since), |row| {
        let holder: Option<String> = row.get(2)?;
        let to: Option<String> = row.get(5)?;
        let load = row.get::<_, Option<i64>>(6)?.unwrap_or_default() as u64;
        let to: Option<MemberId> = to.map(parse).transpose()?;
        Ok(LeaseRecord {
            resource: parse(row.get(0)?)?,
            token: Token(row.get(1)?),
            holder: holder.map(parse).transpose()?,
            ttl: std::time::Duration::from_millis(row.get(3)?),
            revoked: row.get(4)?,
            offer: to.map(|to| Offer { to, load }),
        })
    })
}

pub(super) fn pools(connection: &Connection) -> Result<Vec<Pool>, Stop> {
    let mut statement = connection.prepare_cached(include_str!("pools.sql"))?;
    let pools = statement.query_map([], |row| parse(row.get(0)?))?.collect::<Result<_, _>>()?;
    Ok(pools)
}
