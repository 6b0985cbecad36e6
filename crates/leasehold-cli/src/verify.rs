//! `verify`: judges the ledger of a store, and members' log files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold::Pool;
use leasehold::ledger::Entry;
use leasehold::ledger::replay::Replay;
use leasehold::ledger::verify::{Verdict, seconds, verify as judge};
use leasehold::store::Store;
use serde::Serialize;

use crate::args::VerifyArgs;
use crate::failure::{Failure, code};
use crate::inspect::{count, open_url, read_ledger};
use crate::print::{self, Sheet, Span, Tone};
use crate::progress::Progress;

/// Rows are written behind the work, hardly ever so much later: a handoff of this moment is undecided until its last
/// rows are there. Those of a store that is far behind come later still, and it stays undecided until then.
const SETTLE: Duration = Duration::from_secs(4);

/// The rows of a pool: those of the log files, and after them those of the store.
#[derive(Debug, Default)]
struct Rows {
    entries: Vec<Entry>,
    logged: usize,
}

type Pools = BTreeMap<Pool, Rows>;

#[derive(Debug, Serialize)]
struct Report {
    clean: bool,
    overlap_s: f64,
    violations: usize,
    /// Moments of which the rows do not say whether there were two owners.
    undecided: usize,
    /// Rows that are missing, as far as the others show.
    missing: u64,
    /// Lines of the log files that are none of the ledger.
    lines_skipped: usize,
    pools: Vec<PoolReport>,
}

#[derive(Debug, Serialize)]
struct PoolReport {
    pool: Pool,
    #[serde(flatten)]
    verdict: Verdict,
}

pub(crate) async fn verify(args: VerifyArgs) -> Result<ExitCode, Failure> {
    let logs = read_files(&args)?;
    let lines_skipped = logs.skipped;
    let rows = |entries: Vec<Entry>| Rows { logged: entries.len(), entries };
    let mut pools: Pools = logs.pools.into_iter().map(|(pool, entries)| (pool, rows(entries))).collect();
    let store = match &args.store {
        Some(url) => Some(open_url(url).await?),
        None => None,
    };
    let mut verdicts = judge_all(&args, &mut pools, store.as_ref()).await?;
    let settled = |report: &PoolReport| report.verdict.is_clean() && report.verdict.undecided.is_empty();
    if store.is_some() && !verdicts.iter().all(settled) {
        let _progress = Progress::begin("waiting for the last rows, which are written behind the work");
        tokio::time::sleep(SETTLE).await;
        verdicts = judge_all(&args, &mut pools, store.as_ref()).await?;
    }
    let overlap =
        verdicts.iter().fold(Duration::ZERO, |sum, report| sum.saturating_add(report.verdict.overlap()));
    let violations = verdicts.iter().map(|report| report.verdict.violations.len()).sum();
    let undecided = verdicts.iter().map(|report| report.verdict.undecided.len()).sum();
    let missing = verdicts.iter().fold(0, |sum: u64, report| sum.saturating_add(report.verdict.missing));
    let clean = violations == 0;
    let report = Report {
        clean,
        overlap_s: overlap.as_secs_f64(),
        violations,
        undecided,
        missing,
        lines_skipped,
        pools: verdicts,
    };
    if args.json {
        print::json(&report)?;
    } else {
        let mut sheet = Sheet::default();
        report.pools.iter().for_each(|pool| sheet.add(pool_sheet(pool)));
        last_line(&report, overlap, &mut sheet);
        print::sheet(&sheet)?;
    }
    Ok(ExitCode::from(if clean { code::DONE } else { code::VIOLATED }))
}

/// Rows of the store and of the logs, judged pool by pool.
async fn judge_all(
    args: &VerifyArgs,
    pools: &mut Pools,
    store: Option<&Arc<dyn Store>>,
) -> Result<Vec<PoolReport>, Failure> {
    if let Some(store) = store {
        read_store(args, store, pools).await?;
    }
    let asked = |pool: &Pool| args.pool.as_ref().is_none_or(|only| only == pool);
    let there = pools.iter().filter(|(pool, rows)| asked(pool) && !rows.entries.is_empty());
    let progress = Progress::begin("judging pools");
    progress.of(there.clone().count());
    let judged: Vec<PoolReport> = there
        .map(|(pool, rows)| {
            let verdict = judge(&rows.entries, args.clock_error);
            progress.more(1);
            PoolReport { pool: pool.clone(), verdict }
        })
        .collect();
    if judged.is_empty() {
        return Err(nothing(args, pools, store).await?);
    }
    Ok(judged)
}

/// Reads the store's rows, again if they were read before: a heartbeat's row changes.
async fn read_store(args: &VerifyArgs, store: &Arc<dyn Store>, pools: &mut Pools) -> Result<(), Failure> {
    let known = match &args.pool {
        Some(pool) => vec![pool.clone()],
        None => store.pools().await?,
    };
    for pool in known {
        let rows = pools.entry(pool.clone()).or_default();
        rows.entries.truncate(rows.logged);
        let add = |page| {
            rows.entries.extend::<Vec<Entry>>(page);
            Ok(())
        };
        read_ledger(store, (&pool, None), 0, add).await?;
    }
    Ok(())
}

/// Why there is nothing to judge.
async fn nothing(
    args: &VerifyArgs,
    pools: &Pools,
    store: Option<&Arc<dyn Store>>,
) -> Result<Failure, Failure> {
    let logged = pools.iter().filter(|(_, rows)| rows.logged > 0);
    let mut known: Vec<Pool> = logged.map(|(pool, _)| pool.clone()).collect();
    if let Some(store) = store {
        known.extend(store.pools().await?);
    }
    known.sort();
    known.dedup();
    let names: Vec<&str> = known.iter().map(Pool::as_str).collect();
    Ok(Failure::usage(match &args.pool {
        Some(pool) if known.contains(pool) => format!("the ledger of the pool {pool} is empty"),
        Some(pool) if known.is_empty() => format!("there is no pool {pool}, nor any other"),
        Some(pool) => format!("there is no pool {pool}; there is {}", names.join(", ")),
        None => "the ledger is empty: no member has written to it yet".to_owned(),
    }))
}

fn read_files(args: &VerifyArgs) -> Result<Replay, Failure> {
    let mut replay = Replay::default();
    for path in &args.files {
        let skipped = replay.skipped;
        let found = read_file(path, &mut replay).map_err(|error| {
            Failure::usage(format!("cannot read {}: {error}; check the path", path.display()))
        })?;
        if found == 0 {
            let other = count(replay.skipped - skipped, "other line");
            return Err(Failure::usage(format!(
                "{} has no line of the ledger ({other}); give logs that members wrote with --log-format json",
                path.display()
            )));
        }
    }
    Ok(replay)
}

fn read_file(path: &Path, replay: &mut Replay) -> io::Result<usize> {
    if path == Path::new("-") {
        return replay.read(io::stdin().lock());
    }
    replay.read(BufReader::new(File::open(path)?))
}

/// The whole in one line: what was found, and what the rows do not show.
fn last_line(report: &Report, overlap: Duration, sheet: &mut Sheet) {
    let found = match report.violations {
        0 => Tone::Good.of("clean"),
        violations => Tone::Bad.of(count(violations, "violation")),
    };
    let mut line = format!(": overlap {}", seconds(overlap));
    if report.undecided > 0 {
        line += &format!(", {} undecided", count(report.undecided, "moment"));
    }
    if report.missing > 0 {
        line += &format!(", {} missing", count(usize::try_from(report.missing).unwrap_or(usize::MAX), "row"));
    }
    sheet.line(2, [found, line.into()]);
}

fn pool_sheet(report: &PoolReport) -> Sheet {
    let PoolReport { pool, verdict } = report;
    let begins = print::time(verdict.begins.wall_nanos);
    let mut sheet = Sheet::default();
    sheet.text(&format!("{pool}: from {begins} for {}", seconds(verdict.span)));
    if !verdict.resources.is_empty() {
        let headings = ["RESOURCE", "TERMS", "OVERLAP", "UNOWNED", "WORST GAP"];
        sheet.table(&headings, verdict.resources.iter().map(row));
    }
    for late in verdict.late_stops() {
        sheet.text(&late.to_string());
    }
    for violation in &verdict.violations {
        sheet.line(2, [Tone::Bad.of("violation:"), format!(" {violation}").into()]);
    }
    let undecided: Vec<String> = verdict.undecided.iter().map(ToString::to_string).collect();
    if !undecided.is_empty() {
        let moments = count(undecided.len(), "moment");
        sheet.text(&format!("{moments} undecided because rows are missing: {}", undecided.join("; ")));
    }
    sheet.text(&format!("{verdict}\n\n"));
    sheet
}

fn row(report: &leasehold::ledger::verify::ResourceReport) -> Vec<Span> {
    let worst = report.worst_gap().map(ToString::to_string).unwrap_or_default();
    let overlap = if report.overlap.is_zero() { Tone::Plain } else { Tone::Bad };
    vec![
        report.resource.to_string().into(),
        report.terms.to_string().into(),
        overlap.of(seconds(report.overlap)),
        seconds(report.unowned).into(),
        worst.into(),
    ]
}
