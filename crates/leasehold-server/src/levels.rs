//! Service levels: how long work had no owner, whether it ever had two, how long it takes to move, how evenly it is shared, and how
//! close members came to losing trust. For Prometheus; [`moves`] is used by the page as well.
//!
//! Every replica measures the same pools: whoever adds replicas up counts everything several times, and takes the greatest instead.

pub(crate) mod moves;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use leasehold::Pool;
use leasehold::clock::{self, Moment};
use leasehold::ledger::Entry;
use leasehold::ledger::verify::verify;
use leasehold::plan::Plan;
use leasehold::store::StoreError;

use self::moves::{Kind, Moves};
use crate::app::App;
use crate::cameras::is_of_cameras;
use crate::holders::Desk;

/// How often everything is measured.
const EVERY: Duration = Duration::from_secs(2);
/// How often a plan is computed and the ledger judged, which takes longer.
const SELDOM: Duration = Duration::from_secs(15);
/// How many rows of the ledger one read brings, and from how many pools at a time.
const ROWS: usize = 1000;
const POOLS_AT_ONCE: usize = 64;
/// How many one look reads of a pool. Where more happens than that, a part of it is measured, and reading costs no more.
const LOOKED_MAX: usize = 5000;
/// Which rows are judged: those of the last ten minutes, and no more than this.
const JUDGED: Duration = Duration::from_secs(600);
const JUDGED_MAX: usize = 20_000;
/// How far clocks of machines may be apart before anything is held against them.
const CLOCK_ERROR: Duration = Duration::from_secs(1);

/// What is remembered of a pool between two measurements.
#[derive(Debug, Default)]
struct Measured {
    after: u64,
    moves: Moves,
    judged: VecDeque<Entry>,
    /// Whether the last look ended before the rows did.
    behind: bool,
    /// What of a second is not yet counted.
    rest: f64,
    seldom_at: Option<Moment>,
}

impl Measured {
    /// Another look begins. Where the last ended before the rows did, the store may have dropped some meanwhile, and who misses a
    /// release finds two who hold the same: nothing from before is held against what comes.
    fn go_on(&mut self) {
        if std::mem::take(&mut self.behind) {
            self.moves = Moves::default();
            self.judged.clear();
        }
    }
}

/// Measures until the server stops.
pub(crate) async fn measure(app: App) {
    // What happened before is known but not counted.
    let begun = clock::unix_nanos();
    let mut pools: HashMap<Pool, Measured> = HashMap::new();
    let mut stopped = Box::pin(app.stopped());
    let (mut last, mut turn) = (clock::now(), 0);
    loop {
        tokio::select! {
            () = &mut stopped => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let passed = clock::now().since(last);
        last = clock::now();
        let desks = app.holders().desks();
        pools.retain(|pool, _| desks.iter().any(|desk| desk.pool() == pool));
        for (number, desk) in desks.iter().enumerate() {
            let measured = pools.entry(desk.pool().clone()).or_default();
            look(desk, measured, passed).await;
            let is_due = desks.len() <= POOLS_AT_ONCE || number % desks.len().div_ceil(POOLS_AT_ONCE) == turn;
            if is_due && let Err(error) = read(&app, desk, measured, begun).await {
                tracing::debug!(%error, pool = desk.pool().as_str(), "service levels wait for the store");
            }
        }
        turn = (turn + 1) % desks.len().div_ceil(POOLS_AT_ONCE).max(1);
    }
}

/// What the last look at a pool shows.
async fn look(desk: &Arc<Desk>, measured: &mut Measured, passed: Duration) {
    let Ok(known) = desk.lately().await else { return };
    let facts = known.view.facts(usize::MAX);
    let margin = known.margin();
    drop(known);
    let pool = desk.pool().to_string();
    let gauge = |state: &'static str, count: usize| {
        metrics::gauge!("leasehold_resources", "pool" => pool.clone(), "state" => state).set(count as f64);
    };
    let owned = facts.resources.iter().filter(|resource| resource.holder.is_some()).count();
    let paused = facts.resources.iter().filter(|r| r.holder.is_none() && r.paused).count();
    let unowned = facts.resources.len() - owned - paused;
    gauge("owned", owned);
    gauge("paused", paused);
    gauge("unowned", unowned);
    metrics::gauge!("leasehold_pool_members", "pool" => pool.clone()).set(facts.members.len() as f64);
    measured.rest += unowned as f64 * passed.as_secs_f64();
    let whole = measured.rest.floor();
    measured.rest -= whole;
    metrics::counter!("leasehold_unowned_seconds_total", "pool" => pool.clone()).increment(whole as u64);
    if let Some(margin) = margin {
        metrics::gauge!("leasehold_heartbeat_margin_ratio", "pool" => pool.clone()).set(margin);
    }
    let now = clock::now();
    if measured.seldom_at.is_some_and(|at| now < at) {
        return;
    }
    measured.seldom_at = Some(now.after(SELDOM));
    let rows: Vec<Entry> = measured.judged.iter().cloned().collect();
    let judged = tokio::task::spawn_blocking(move || {
        let plan = Plan::compute(&facts);
        let off = facts.members.iter().map(|member| {
            let (load, quota) = (plan.load(&member.id), plan.quota(&member.id));
            load.saturating_sub(quota.ceiling).max(quota.floor.saturating_sub(load))
        });
        (off.max().unwrap_or(0), verify(&rows, CLOCK_ERROR).overlap())
    });
    if let Ok((imbalance, overlap)) = judged.await {
        metrics::gauge!("leasehold_plan_imbalance", "pool" => pool.clone()).set(imbalance as f64);
        metrics::gauge!("leasehold_overlap_seconds", "pool" => pool).set(overlap.as_secs_f64());
    }
}

/// Reads on in the ledger of a pool.
async fn read(app: &App, desk: &Desk, measured: &mut Measured, begun: u64) -> Result<(), StoreError> {
    measured.go_on();
    let mut looked = 0;
    loop {
        let reading = app.store().ledger(desk.pool(), None, measured.after, ROWS);
        let late = |_| StoreError::unavailable("the store gave no answer in time");
        let rows = tokio::time::timeout(app.limits().call, reading).await.map_err(late)??;
        let count = rows.len();
        for (row, entry) in rows {
            measured.after = row;
            if let Some(moved) = measured.moves.take(&entry)
                && entry.wall_nanos >= begun
            {
                let name = match moved.kind {
                    Kind::Handoff => "leasehold_handoff_seconds",
                    Kind::Failover => "leasehold_failover_seconds",
                };
                let (pool, took) = (desk.pool().to_string(), moved.took.as_secs_f64());
                if moved.kind == Kind::Failover && is_of_cameras(desk.pool()) {
                    // Document 004's own name for it.
                    metrics::histogram!("failover_duration_seconds", "pool" => pool.clone()).record(took);
                }
                metrics::histogram!(name, "pool" => pool).record(took);
            }
            measured.judged.push_back(entry);
        }
        let old = clock::unix_nanos().saturating_sub(u64::try_from(JUDGED.as_nanos()).unwrap_or(u64::MAX));
        while measured.judged.len() > JUDGED_MAX
            || measured.judged.front().is_some_and(|entry| entry.wall_nanos < old)
        {
            measured.judged.pop_front();
        }
        looked += count;
        if count < ROWS {
            return Ok(());
        }
        if looked >= LOOKED_MAX {
            measured.behind = true;
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use leasehold::ledger::Event;

    use super::moves::tests::row;
    use super::*;

    #[test]
    fn nothing_is_concluded_across_rows_that_may_be_missing() {
        let seen = |behind| {
            let mut measured = Measured { behind, ..Measured::default() };
            let granted = row("a", Event::Acquired, 1, 1000);
            measured.moves.take(&granted);
            measured.judged.push_back(granted);
            measured.go_on();
            let moved = measured.moves.take(&row("b", Event::TakenOver, 3, 9000));
            (moved.is_some(), measured.judged.len(), measured.behind)
        };
        assert_eq!(seen(false), (true, 1, false), "nothing lies between the two");
        assert_eq!(seen(true), (false, 0, false), "whoever had it in between may have let go");
    }
}
