//! One look at everything: what has to end, what has to be said, what has to be asked.

use std::collections::BTreeMap;

use leasehold::clock::Moment;

use super::{Keeper, Mode, Why};
use crate::manager::held::Held;
use crate::manager::shard::Stop;

/// How long a lease may be held whose camera cannot be told to a worker.
const UNTOLD_MAX: std::time::Duration = std::time::Duration::from_secs(10);

impl Keeper {
    pub(super) async fn pass(&mut self, now: Moment) {
        self.let_go(now);
        self.renew(now);
        self.keep_shards(now).await;
        self.release_what_is_free(now);
        self.ask_again(now);
        self.sync(now);
    }

    /// Has cameras let go of whose leases nobody confirmed in time, and all if that is what was asked for.
    fn let_go(&mut self, now: Moment) {
        let policy = self.settings.outage_policy;
        let all = match self.mode {
            Mode::Active => false,
            Mode::Draining { until } => now >= until,
            Mode::Ending => true,
        };
        for index in 0..self.shards.len() {
            let has_cameras = self.held.values().any(|held| held.shard == index && held.is_wanted(now));
            self.shards[index].note_silence(has_cameras, now);
        }
        let grace = self.settings.worker_start_grace;
        let is_stuck = |held: &Held| self.shards[held.shard].is_stuck(grace, now);
        let unwritten = |held: &Held| self.shards[held.shard].unwritten.is_some();
        let judged: Vec<(String, Why)> = self
            .held
            .iter()
            // What is not kept up any more is on its way out.
            .filter(|(_, held)| held.is_kept_up())
            .filter_map(|(id, held)| {
                let trust = held.trust(policy, now);
                let why = if now >= trust.until.before(held.let_go()) {
                    if held.surpassed { Why::Surpassed } else { Why::Lapsed }
                } else if all {
                    Why::HandedOver
                } else if is_stuck(held)
                    || unwritten(held) && !held.told && now.since(held.since) > UNTOLD_MAX
                {
                    Why::Untold
                } else {
                    return None;
                };
                Some((id.clone(), why))
            })
            .collect();
        for (id, why) in judged {
            self.leave(&id, why, now);
        }
    }

    /// When no process may work on a camera any more, by lease.
    pub(super) fn deadlines(&self, now: Moment) -> BTreeMap<String, Moment> {
        let policy = self.settings.outage_policy;
        let deadline = |held: &Held| held.deadline(held.trust(policy, now));
        self.held.iter().map(|(id, held)| (id.clone(), deadline(held))).collect()
    }

    /// Releases what is being let go and is worked on by nobody any more.
    fn release_what_is_free(&mut self, now: Moment) {
        let working: std::collections::BTreeSet<String> =
            self.shards.iter().flat_map(|shard| shard.told.may_work_on()).collect();
        let free: Vec<String> = self
            .held
            .iter_mut()
            .filter(|(id, _)| !working.contains(*id))
            .filter_map(|(id, held)| {
                let leaving = held.leaving.as_mut().filter(|leaving| !leaving.releasing)?;
                leaving.releasing = true;
                Some(id.clone())
            })
            .collect();
        // What is over already is released all the same: who revoked it learns that nobody works by it any more.
        for id in free {
            self.release(id);
        }
        if self.mode == Mode::Ending {
            let grace = self.settings.worker_stop_grace;
            for shard in &mut self.shards {
                shard.stop(Stop::Ending, now.after(grace));
            }
        }
    }
}
