//! The verdict: what the work itself wrote, and what the ledger says.

use std::process::ExitCode;
use std::time::Duration;

use leasehold::ledger::Entry;
use leasehold::ledger::verify::{seconds, verify};

use super::journal::{falls, overlap};
use super::stage::Stage;
use crate::failure::{Failure, code};
use crate::inspect::read_ledger;
use crate::print;

/// Says whether anything ran twice. Everybody has left.
pub(super) async fn give(stage: &Stage) -> Result<ExitCode, Failure> {
    let stretches = stage.stretches();
    let (overlap, falls) = (overlap(stretches), falls(stretches));
    print::text(&format!(
        "the work:    {} processes wrote, {falls} tokens fell or repeated, overlap {}\n",
        stretches.len(),
        seconds(overlap)
    ))?;
    // All of this happened on one machine, whose clocks agree.
    let ledger = verify(&ledger(stage).await?, Duration::ZERO);
    print::text(&format!("the ledger:  {ledger}\n"))?;
    for violation in &ledger.violations {
        print::text(&format!("             {violation}\n"))?;
    }
    let total = overlap.max(ledger.overlap());
    // Who has written nothing has proved nothing.
    let judged = !stretches.is_empty() && ledger.terms() > 0;
    let clean = judged && total.is_zero() && falls == 0 && ledger.is_clean();
    let words = if clean { "never two owners" } else { "a promise was broken" };
    print::text(&format!("the verdict: {words}, overlap {}\n", seconds(total)))?;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::from(code::NO) })
}

async fn ledger(stage: &Stage) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    let add = |page| {
        entries.extend::<Vec<Entry>>(page);
        Ok(())
    };
    read_ledger(&stage.store, (&stage.pool, None), 0, add).await?;
    Ok(entries)
}
