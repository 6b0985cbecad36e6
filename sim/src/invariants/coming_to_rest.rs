//! Once nothing goes wrong any more, every resource gets one worker and the loads become even; after that, nothing moves.

use crate::history::{History, What};

pub(super) fn check(history: &History) -> Result<(), String> {
    let mut converged = false;
    for event in &history.events {
        let at = event.at.as_secs_f64();
        match &event.what {
            What::Converged => converged = true,
            What::Began(worker, _) if converged => {
                return Err(format!("at {at:.3} s {} moves to {worker} though all was well", worker.term.resource));
            }
            What::Over(Some(amiss)) if converged => return Err(format!("at {at:.3} s all was well, and then {amiss}")),
            What::Over(Some(amiss)) => return Err(format!("at {at:.3} s still {amiss}")),
            _ => {}
        }
    }
    Ok(())
}
