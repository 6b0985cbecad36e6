//! Every grant that is used has a token that nobody had before it, and a higher one than every grant before it.

use std::collections::BTreeMap;

use leasehold::Token;
use leasehold::ledger::Event;

use crate::history::{History, What};

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut highest: BTreeMap<&str, Token> = BTreeMap::new();
    for event in &history.events {
        let What::Wrote(entry) = &event.what else { continue };
        let (Event::Acquired | Event::TakenOver, Some(resource), Some(token)) =
            (entry.event, &entry.resource, entry.token)
        else {
            continue;
        };
        if let Some(before) = highest.insert(resource.as_str(), token)
            && token <= before
        {
            let at = event.at.as_secs_f64();
            return Err(format!("at {at:.3} s {resource} is granted under token {token}, after {before}"));
        }
    }
    Ok(())
}
