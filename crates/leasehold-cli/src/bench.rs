//! `bench`: how fast a store is, as it is set up and from where it is used.
//!
//! Everything happens in pools with a random name of their own, which nobody else looks at, and within bounds of size and time.
//! Each case is a function of its own; none knows of another.

mod caller;
mod calls;
mod figure;
mod ground;
mod journal;
mod keep;
mod line;
mod members;
mod used;

use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

use self::figure::{Figure, Took};
use self::ground::Ground;
use self::used::Used;
use crate::args::{BenchArgs, BenchCase};
use crate::failure::{Failure, code};
use crate::print::{self, Sheet};
use crate::progress::Progress;
use crate::signals::Signals;

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    store: String,
    grade: &'static str,
    figures: Vec<Figure>,
    /// How many times fewer calls `keep` made than one renewal for each lease in every third of the TTL.
    #[serde(skip_serializing_if = "Option::is_none")]
    renewals_saved: Option<f64>,
    /// What this process used meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<Used>,
    /// What the store's server used meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Used>,
    /// What the names of the pools begin with.
    pools: String,
    /// How many free resources are remembered with their tokens.
    records_left: usize,
}

pub(crate) async fn bench(args: BenchArgs) -> Result<ExitCode, Failure> {
    let mut signals = Signals::receive()?;
    let ground = Ground::open(&args.store).await?;
    let progress = Progress::begin("measuring");
    let mut report = Report {
        store: args.store.store.to_string(),
        grade: ground.store.capabilities().grade.as_str(),
        figures: Vec::new(),
        renewals_saved: None,
        client: None,
        server: None,
        pools: ground.name.clone(),
        records_left: 0,
    };
    let measured = tokio::select! {
        measured = measure(&args, &ground, &progress, &mut report) => measured,
        () = signals.next() => Err(Failure::new(code::INTERRUPTED, "stopped by a signal")),
    };
    progress.now("removing what was made");
    let cleared = ground.clear().await;
    drop(progress);
    measured?;
    report.records_left = cleared?;
    if args.json {
        print::json(&report)?;
    } else {
        print::sheet(&sheet(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure(
    args: &BenchArgs,
    ground: &Ground,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), Failure> {
    let asked = |case: &&BenchCase| args.only.is_empty() || args.only.contains(case);
    for case in BenchCase::value_variants().iter().filter(asked) {
        let name = case.to_possible_value().map(|value| value.get_name().to_owned());
        progress.now(name.unwrap_or_default());
        let figures = match case {
            BenchCase::Acquire => calls::acquire(args, ground).await?,
            BenchCase::Batch => calls::batch(args, ground).await?,
            BenchCase::Contended => calls::contended(args, ground).await?,
            BenchCase::Heartbeat => calls::heartbeat(args, ground, progress).await?,
            BenchCase::Release => calls::release(args, ground, progress).await?,
            BenchCase::Handoff => members::handoff(args, ground, progress).await?,
            BenchCase::Failover => members::failover(args, ground, progress).await?,
            BenchCase::FanOut => members::fan_out(args, ground, progress).await?,
            BenchCase::ColdStart => members::cold_start(args, ground, progress).await?,
            BenchCase::Keep => {
                keep::keep(args, ground, progress, report).await?;
                continue;
            }
        };
        report.figures.extend(figures);
    }
    Ok(())
}

fn sheet(report: &Report) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.text(&format!("{}, {}\n\n", report.store, report.grade));
    let headings = ["CASE", "COUNT", "A SECOND", "MEDIAN", "QUARTERS", "P99", "MAX", "CALLS"];
    sheet.table(&headings, report.figures.iter().map(row));
    if let Some(saved) = report.renewals_saved {
        sheet.text(&format!(
            "\nkeep makes 1 call where one renewal for each lease would make {}",
            number(saved)
        ));
    }
    for (who, used) in [("this process", report.client), ("the server", report.server)] {
        if let Some(Used { cores, memory_mb }) = used {
            sheet.text(&format!("while keeping leases {who} used {cores:.2} cores and {memory_mb:.0} MB"));
        }
    }
    if report.records_left > 0 {
        sheet.text(&format!(
            "\n{} free resources of the pools {}-* stay with their last tokens, and rows of the ledger; \
             docs/performance.md says how to remove them",
            report.records_left, report.pools
        ));
    }
    sheet
}

fn row(figure: &Figure) -> Vec<String> {
    let took = |of: fn(&Took) -> f64| figure.took.as_ref().map(|took| millis(of(took))).unwrap_or_default();
    let quarters =
        figure.took.map(|took| format!("{} to {}", millis(took.quarter_ms), millis(took.three_quarters_ms)));
    vec![
        figure.case.clone(),
        figure.count.to_string(),
        number(figure.per_second),
        took(|took| took.median_ms),
        quarters.unwrap_or_default(),
        took(|took| took.p99_ms),
        took(|took| took.max_ms),
        figure.calls.to_string(),
    ]
}

/// Three digits that count, for people.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn millis(value: f64) -> String {
    format!("{} ms", number(value))
}
