//! Whoever does not reach the store, or is not reached by it, does nothing once a TTL has passed.

use std::collections::BTreeMap;

use crate::history::{History, What};

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut cut_since = BTreeMap::new();
    let mut down_since = None;
    for event in &history.events {
        match &event.what {
            What::CutOff(machine) => {
                cut_since.entry(*machine).or_insert(event.at);
            }
            What::Reconnected(machine) => {
                cut_since.remove(machine);
            }
            What::StoreDown => {
                down_since.get_or_insert(event.at);
            }
            What::StoreUp => down_since = None,
            What::Healing => {
                cut_since.clear();
                down_since = None;
            }
            What::Acted(worker, _) => {
                let since = [cut_since.get(&worker.machine).copied(), down_since].into_iter().flatten().min();
                if let Some(since) = since.filter(|since| event.at >= *since + history.ttl) {
                    let (at, since) = (event.at.as_secs_f64(), since.as_secs_f64());
                    return Err(format!(
                        "at {at:.3} s {worker} still works, without the store since {since:.3} s"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
