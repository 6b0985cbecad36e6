//! What is done to a resource is done under tokens that never fall, and under one token by one member: a fence in
//! front of it would have refused nothing.

use std::collections::BTreeMap;

use crate::history::{History, What, Worker};

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut newest: BTreeMap<&str, &Worker> = BTreeMap::new();
    for event in &history.events {
        let (What::Began(worker, _) | What::Acted(worker, _)) = &event.what else { continue };
        let last = newest.entry(worker.term.resource.as_str()).or_insert(worker);
        let same = worker.term.token == last.term.token && worker.member == last.member;
        if !same && worker.term.token <= last.term.token {
            let at = event.at.as_secs_f64();
            return Err(format!("at {at:.3} s {worker} works on {} after {last}", worker.term.resource));
        }
        *last = worker;
    }
    Ok(())
}
