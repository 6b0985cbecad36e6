//! Many leases kept alive, in steady state: what it costs the store.
//!
//! A member of a quiet pool raises its beat, writes that down in the ledger, and reads what the others said. These calls are
//! made here by sessions that do nothing else, at the pace of members: that many real members would each know all leases, which
//! this one machine may not have the memory for.

use std::sync::Arc;
use std::time::Duration;

use leasehold::Pool;
use leasehold::clock::{self, Clock, SystemClock};
use leasehold::ledger::{Entry, Event};
use leasehold::participant::reads_every;
use leasehold::store::{Cursor, Others, Store, StoreError};
use tokio::task::JoinSet;

use super::Report;
use super::caller::Caller;
use super::figure::Figure;
use super::ground::{Ground, names};
use super::used::Look;
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::progress::Progress;

/// How far one member has read.
#[derive(Debug, Clone, Copy)]
struct Reader {
    sessions: Cursor,
    others: Others,
}

impl Reader {
    /// Reads as a view does: beats where nothing else changed, otherwise everything that did.
    async fn read(&mut self, store: &dyn Store, pool: &Pool) -> Result<(), StoreError> {
        if let Some(quiet) = store.sessions_if_quiet(pool, self.sessions, self.others).await? {
            self.sessions = quiet.cursor;
            return Ok(());
        }
        self.others.leases = store.leases(pool, self.others.leases).await?.cursor;
        self.sessions = store.sessions(pool, self.sessions).await?.cursor;
        self.others.marks = store.marks(pool, self.others.marks).await?.cursor;
        self.others.declared = store.resources(pool, self.others.declared).await?.cursor;
        Ok(())
    }
}

pub(super) async fn keep(
    args: &BenchArgs,
    ground: &Ground,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), Failure> {
    let (pool, members, leases) = (ground.pool("keep")?, args.members as usize, args.leases as usize);
    let mut callers = Vec::new();
    progress.now("taking leases");
    progress.of(leases);
    for number in 0..members {
        let mut caller = Caller::open(&ground.store, &pool).await?;
        let share = leases * (number + 1) / members - leases * number / members;
        while caller.held.len() < share {
            let count = ground.batch().min(share - caller.held.len());
            progress.more(caller.acquire(names(&format!("m{number:03}-"), caller.held.len(), count)?).await?);
        }
        callers.push(caller);
    }
    progress.now("reading all of them");
    let start = Others { leases: Cursor::START, marks: Cursor::START, declared: Cursor::START };
    let mut reader = Reader { sessions: Cursor::START, others: start };
    let (before, began) = (ground.tally.calls(), clock::now());
    reader.read(&*ground.store, &pool).await?;
    let calls = ground.tally.calls() - before;
    let whole =
        Figure::whole(format!("read of {leases} leases"), leases as u64, clock::now().since(began), calls);
    report.figures.push(whole);

    progress.now(format!("keeping {leases} leases for {:?}", args.ttl));
    let look = |pid: Option<u32>| pid.and_then(Look::at);
    let (own, server) = (look(Some(std::process::id())), look(args.server_pid));
    let (before, began) = (ground.tally.calls(), clock::now());
    let callers = keep_alive(args.ttl, ground, (&pool, reader), callers).await?;
    let (took, calls) = (clock::now().since(began), ground.tally.calls() - before);
    let used = |pid: Option<u32>, before: Option<Look>| Some(look(pid)?.since(before?, took));
    report.client = used(Some(std::process::id()), own);
    report.server = used(args.server_pid, server);
    let what = format!("keep {leases} leases of {members} members, TTL {:?}", args.ttl);
    report.figures.push(Figure::whole(what, calls, took, calls));
    // One renewal for each lease in every third of the TTL is what this takes the place of; however long it took, it was what
    // is due in one TTL.
    report.renewals_saved = Some(leases as f64 * 3.0 / calls as f64);
    progress.now("giving leases back");
    for caller in callers {
        caller.leave(ground.batch()).await?;
    }
    Ok(())
}

/// Has every session do what a member does, for one TTL; answers them when it is over.
async fn keep_alive(
    ttl: Duration,
    ground: &Ground,
    (pool, reader): (&Pool, Reader),
    callers: Vec<Caller>,
) -> Result<Vec<Caller>, Failure> {
    let (members, ends) = (callers.len(), clock::now().after(ttl));
    let mut tasks: JoinSet<Result<Option<Caller>, Failure>> = JoinSet::new();
    for (number, mut caller) in callers.into_iter().enumerate() {
        let (store, pool) = (Arc::clone(&ground.store), pool.clone());
        let part = |period: Duration| period * u32::try_from(number).unwrap_or_default() / members as u32;
        let (heartbeat, period) = (ttl / 3, reads_every(members, ttl));
        // They do not all begin in the same moment.
        let (first_beat, first_read) =
            (clock::now().after(part(heartbeat)), clock::now().after(part(period)));
        let (beats_on, beats_in) = (Arc::clone(&store), pool.clone());
        tasks.spawn(async move {
            let mut next = first_beat;
            while next < ends {
                SystemClock.sleep_until(next).await;
                caller.beat().await?;
                beats_on.append(&beats_in, &[caller.renewed()]).await?;
                next = next.after(heartbeat);
            }
            Ok(Some(caller))
        });
        let mut reader = reader;
        tasks.spawn(async move {
            let mut next = first_read;
            while next < ends {
                SystemClock.sleep_until(next).await;
                reader.read(&*store, &pool).await?;
                next = next.after(period);
            }
            Ok(None)
        });
    }
    let mut callers = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        callers.extend(ended.map_err(|error| Failure::system("a member ended", &error))??);
    }
    SystemClock.sleep_until(ends).await;
    Ok(callers)
}

impl Caller {
    /// What a member writes into the ledger with each heartbeat.
    fn renewed(&self) -> Entry {
        let now = clock::now();
        Entry {
            wall_nanos: SystemClock.wall_nanos(),
            at: now,
            boot: SystemClock.boot(),
            number: None,
            member: self.id().clone(),
            name: self.name().clone(),
            event: Event::Renewed,
            resource: None,
            token: None,
            trusted_until: Some(now),
            ttl_ms: None,
            reason: None,
            error: None,
            other: None,
            detail: None,
        }
    }
}
