//! The ledger of the run, judged as `leasehold verify` judges it, shows no two owners at any moment and no token that
//! fell or was shared. Every row has the true time of its moment, so all machines are one to the judge.

use std::time::Duration;

use leasehold::ledger::Entry;
use leasehold::ledger::verify::verify;

use crate::history::{History, What};

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut entries: Vec<Entry> = Vec::new();
    for event in &history.events {
        if let What::Wrote(entry) = &event.what {
            entries.push(entry.as_ref().clone());
        }
    }
    let verdict = verify(&entries, Duration::ZERO);
    match verdict.violations.first() {
        Some(violation) => Err(violation.to_string()),
        None => Ok(()),
    }
}
