//! `doctor`: how well a store can keep its word as it is set up, and as it is used.

mod measure;

use std::process::ExitCode;

use leasehold::store::{Checkup, Grade};
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::inspect::open_existing;
use crate::print::{self, Sheet, Tone};
use crate::progress::Progress;

#[derive(Serialize)]
struct Report<'a> {
    store: String,
    #[serde(flatten)]
    checkup: &'a Checkup,
}

pub(crate) async fn doctor(args: DoctorArgs) -> Result<ExitCode, Failure> {
    let store = open_existing(&args.store).await?;
    let progress = Progress::begin("asking the server about its settings");
    let mut checkup = store.checkup().await?;
    checkup.findings.extend(measure::findings(&store, &progress).await?);
    drop(progress);
    let report = Report { store: args.store.store.to_string(), checkup: &checkup };
    if args.json {
        print::json(&report)?;
    } else {
        print::sheet(&lines(&report))?;
    }
    meets(checkup.grade, args.require_grade)?;
    Ok(ExitCode::SUCCESS)
}

fn lines(report: &Report<'_>) -> Sheet {
    let Report { store, checkup } = report;
    let mut lines = Sheet::default();
    lines.text(&format!("{store}: {}\ngrade: {}\n", checkup.server, checkup.grade));
    for finding in &checkup.findings {
        let verdict = if finding.weak { Tone::Warn.of("weak") } else { Tone::Good.of("good") };
        lines.line(6, [verdict, format!("  {}", finding.what).into()]);
        if let Some(advice) = &finding.advice {
            lines.line(6, [format!("      {advice}")]);
        }
    }
    lines
}

/// Says at the start what weakens the store, and refuses one that is weaker than asked for.
#[cfg(target_os = "linux")]
pub(crate) async fn at_start(
    store: &dyn leasehold::store::Store,
    required: Option<Grade>,
) -> Result<(), Failure> {
    match store.checkup().await {
        Ok(checkup) => {
            for finding in checkup.findings.iter().filter(|finding| finding.weak) {
                let advice = finding.advice.as_deref().unwrap_or_default();
                tracing::warn!(grade = %checkup.grade, advice, "{}", finding.what);
            }
            meets(checkup.grade, required)
        }
        Err(error) if required.is_some() => Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "the store's settings could not be looked at");
            Ok(())
        }
    }
}

fn meets(grade: Grade, required: Option<Grade>) -> Result<(), Failure> {
    match required {
        Some(required) if grade < required => Err(Failure::usage(format!(
            "the store is {grade}, and {required} is required; `leasehold doctor` says what to change"
        ))),
        _ => Ok(()),
    }
}
