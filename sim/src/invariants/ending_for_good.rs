//! A session that has ended never comes back, unless the store itself falls back to before its end.

use crate::history::{History, What};

pub(super) fn check(history: &History) -> Result<(), String> {
    for event in &history.events {
        if let What::Returned(member) = &event.what {
            return Err(format!("at {:.3} s {member} is alive again", event.at.as_secs_f64()));
        }
    }
    Ok(())
}
