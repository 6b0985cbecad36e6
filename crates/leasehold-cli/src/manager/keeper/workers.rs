//! What follows from what workers say, and from their end.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::clock::Moment;
use leasehold_manager::shards::spread;
use leasehold_manager::{Exit, Said};

use super::{Keeper, Mode, Why};

/// How long a camera waits where it cannot be parted from others otherwise.
const APART: Duration = Duration::from_secs(15);

impl Keeper {
    pub(super) fn hear_said(&mut self, shard: usize, life: u64, said: Said) {
        let shard = &mut self.shards[shard];
        let Some(process) = shard.process.as_mut().filter(|process| process.life == life) else { return };
        if said.strange > process.said.strange {
            tracing::warn!(
                shard_id = shard.index,
                strange = said.strange,
                "a worker sent a message that cannot be read; it is ignored"
            );
        }
        process.alive_at = process.alive_at.max(said.alive_at);
        let applied = said.applied;
        process.said = said;
        if let Some(generation) = applied {
            shard.told.applied(generation);
        }
    }

    pub(super) fn hear_answered(&mut self, shard: usize, life: u64, applied: Option<u64>, now: Moment) {
        let shard = &mut self.shards[shard];
        let Some(process) = shard.process.as_mut().filter(|process| process.life == life) else { return };
        process.alive_at = Some(now);
        process.said.ready = true;
        if let Some(generation) = applied {
            shard.told.applied(generation);
        }
    }

    pub(super) fn hear_exited(&mut self, index: usize, life: u64, exit: Exit, now: Moment) {
        let shard = &mut self.shards[index];
        if shard.process.as_ref().is_none_or(|process| process.life != life) {
            return;
        }
        let ended = shard.ended(exit, now);
        if !self.settings.manager_mode && self.mode != Mode::Ending {
            tracing::info!(how = %exit.how, "the worker has ended, and nobody is to start it again");
            self.exit_code = if exit.is_success() { 0 } else { 1 };
            self.mode = Mode::Ending;
        }
        if !ended.is_crash || self.mode == Mode::Ending {
            return;
        }
        self.figures.crashes += 1;
        let cameras = ended
            .leases
            .iter()
            .filter_map(|lease| Some(self.held.get(lease)?.lease.camera_uuid.clone()))
            .collect();
        let verdict = self.blame.crashed(now, &cameras);
        tracing::warn!(
            event = "worker_crashed",
            shard_id = index,
            lived_ms = ended.lived.as_millis(),
            cameras = cameras.len(),
            quarantined = verdict.quarantined,
            "a worker has crashed"
        );
        if let Some(camera) = &verdict.quarantined {
            self.shards[index].forgive(now);
            if let Some(id) = self.of_camera(camera).map(|held| held.lease.lease_id.clone()) {
                self.leave(&id, Why::Quarantined, now);
            }
        }
        self.part(index, &verdict.apart, now);
    }

    /// Has cameras go to other workers than the one that died with them, or wait where there is no room.
    fn part(&mut self, from: usize, cameras: &BTreeSet<String>, now: Moment) {
        for camera in cameras {
            let to = spread::place(&self.loads(), self.settings.max_cameras_per_worker, Some(from));
            let Some(held) = self.held.values_mut().find(|held| held.lease.camera_uuid == *camera) else {
                continue;
            };
            match to {
                Some(to) => held.shard = to,
                // It is not worth waiting for what may have been an accident.
                None if self.shards[from].crashes > 2 => held.wait_until = now.after(APART),
                None => {}
            }
        }
    }
}
