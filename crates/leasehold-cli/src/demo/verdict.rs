//! The verdict: what the work itself wrote, and what the ledger says.

use std::process::ExitCode;
use std::time::Duration;

use super::journal::{falls, overlap};
use super::stage::Stage;
use crate::failure::{Failure, code};
use crate::print;

/// Says whether anything ran twice. Everybody has left.
pub(super) async fn give(stage: &Stage) -> Result<ExitCode, Failure> {
    let stretches = stage.stretches();
    let (of_work, fell) = (overlap(stretches), falls(stretches));
    print::text(&format!(
        "the work:   {} processes wrote, {fell} tokens fell or repeated, overlap {} s\n",
        stretches.len(),
        of_work.as_secs_f64()
    ))?;
    let total: Duration = of_work;
    let clean = total.is_zero() && fell == 0 && !stretches.is_empty();
    let words = if clean { "never two owners" } else { "SOMETHING RAN TWICE" };
    print::text(&format!("verdict:    {words}, overlap {} s\n", total.as_secs_f64()))?;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::from(code::NO) })
}
