//! Every run ends: nobody does the same thing again and again in no time.

use crate::history::{History, What};

pub(super) fn check(history: &History) -> Result<(), String> {
    let endless = history.events.iter().find(|event| matches!(event.what, What::Endless));
    endless.map_or(Ok(()), |event| Err(format!("the run does not get past {:.3} s", event.at.as_secs_f64())))
}
