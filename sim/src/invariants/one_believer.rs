//! At no moment do two believe that a resource is theirs to work on. A belief begins when work begins, so it is
//! enough to look then, and whenever anybody acts.

use crate::history::{History, What};

pub(super) fn check(history: &History) -> Result<(), String> {
    for event in &history.events {
        if let What::Began(worker, others) | What::Acted(worker, others) = &event.what
            && let Some(other) = others.first()
        {
            let at = event.at.as_secs_f64();
            return Err(format!("at {at:.3} s {worker} works on {} while {other} does", worker.term.resource));
        }
    }
    Ok(())
}
