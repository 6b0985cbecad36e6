//! Whoever is cut off from the store does nothing once a TTL has passed.

use std::collections::BTreeMap;

use crate::history::{History, What};

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut cut_since = BTreeMap::new();
    for event in &history.events {
        match &event.what {
            What::CutOff(machine) => {
                cut_since.entry(*machine).or_insert(event.at);
            }
            What::Reconnected(machine) => {
                cut_since.remove(machine);
            }
            What::Healing => cut_since.clear(),
            What::Acted(worker, _) => {
                let Some(since) = cut_since.get(&worker.machine) else { continue };
                // An answer may have been on its way when the cut began.
                if event.at > *since + history.ttl + history.ttl / 4 {
                    let (at, since) = (event.at.as_secs_f64(), since.as_secs_f64());
                    return Err(format!("at {at:.3} s {worker} still works, cut off since {since:.3} s"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
