//! What is shown of a keeper at one moment: to people as JSON, to Prometheus as text.

use leasehold::clock::Moment;
use serde_json::{Value, json};

use super::{Keeper, Mode};
use crate::args::VERSION;
use crate::health::Page;
use crate::manager::report::Snapshot;
use crate::manager::shard::Shard;

/// How many of the cameras that are held must be worked on, in percent.
const QUORUM: usize = 80;

impl Keeper {
    pub(super) fn shown(&self, now: Moment) -> Snapshot {
        let working = self.working();
        let enough = working * 100 >= self.wanted_count() * QUORUM;
        Snapshot {
            at: now,
            ready: self.registered && self.mode == Mode::Active && enough,
            status: self.status(now, working),
            metrics: self.metrics(now, working),
        }
    }

    /// How many cameras are to be worked on.
    fn wanted_count(&self) -> usize {
        self.held.values().filter(|held| held.leaving.is_none()).count()
    }

    /// How many cameras are worked on, by what workers say that are heard of.
    fn working(&self) -> usize {
        let works = |lease: &String, shard: usize| {
            let shard = &self.shards[shard];
            shard.is_heard() && shard.told.works_on().contains(lease)
        };
        self.held.iter().filter(|(id, held)| held.leaving.is_none() && works(id, held.shard)).count()
    }

    fn mode_word(&self) -> &'static str {
        match self.mode {
            Mode::Active => "active",
            Mode::Draining { .. } => "draining",
            Mode::Ending => "ending",
        }
    }

    /// Whether the last request was answered.
    fn is_reached(&self) -> bool {
        self.answered_at.is_some() && self.answered_at >= self.unanswered_at
    }

    fn status(&self, now: Moment, working: usize) -> Value {
        let seconds = |moment: Moment| (moment.since(now).as_secs_f64() * 10.0).round() / 10.0;
        let quarantined = self.blame.quarantined(now);
        let quarantined: Vec<Value> = quarantined
            .iter()
            .map(|(camera, until)| json!({"camera_uuid": camera, "remaining_seconds": seconds(*until)}))
            .collect();
        json!({
            "runner_id": self.settings.runner_id,
            "version": VERSION,
            "mode": self.mode_word(),
            "registered": self.registered,
            "control_plane": if self.is_reached() { "answers" } else { "silent" },
            "witness": self.witness.map(|here| if here { "connected" } else { "silent" }),
            "configuration": match &self.refused { None => json!("in force"), Some(said) => json!({"refused": said}) },
            "capacity": self.settings.capacity(),
            "cameras_held": self.held.len(),
            "cameras_working": working,
            "cameras_reserved": self.reserved.len(),
            "quarantined": quarantined,
            "workers": self.shards.iter().map(|shard| self.worker(shard, now)).collect::<Vec<_>>(),
        })
    }

    fn worker(&self, shard: &Shard, now: Moment) -> Value {
        let policy = self.settings.outage_policy;
        let works = shard.told.works_on();
        let cameras: Vec<Value> = self
            .held
            .iter()
            .filter(|(_, held)| held.shard == shard.index)
            .map(|(id, held)| {
                let trust = held.trust(policy, now);
                json!({
                    "camera_uuid": held.lease.camera_uuid,
                    "site_id": held.lease.site_id,
                    "lease_id": id,
                    "fencing_token": held.lease.fencing_token,
                    "working": works.contains(id),
                    "degraded": trust.degraded,
                    "leaving": held.leaving.map(|leaving| leaving.why.word()),
                    "trusted_seconds": (trust.until.since(now).as_secs_f64() * 10.0).round() / 10.0,
                })
            })
            .collect();
        let process = shard.process.as_ref();
        let alive = process.and_then(|process| process.alive_at);
        json!({
            "shard_id": shard.index,
            "pid": process.map(|process| process.worker.child().pid()),
            "state": match process {
                None if cameras.is_empty() => "idle",
                None => "down",
                Some(process) if process.stopping.is_some() => "stopping",
                Some(_) if alive.is_none() => "starting",
                Some(_) => "up",
            },
            "status": process.map(|process| process.said.status.clone()),
            "heard_seconds_ago": alive.map(|alive| now.since(alive).as_secs()),
            "generation": shard.told.generation(),
            "settled": shard.told.is_settled(),
            "starts": shard.lives,
            "crashes": shard.crashes,
            "trouble": shard.unwritten.as_ref().map(|(_, said)| format!("its configuration cannot be written: {said}")),
            "cameras": cameras,
        })
    }

    fn metrics(&self, now: Moment, working: usize) -> String {
        let mut page = Page::default();
        page.family("leasehold_build_info", "gauge", "The version of this program.");
        page.sample("leasehold_build_info", &[("version", VERSION)], 1);
        let labels = [("runner_id", self.settings.runner_id.as_str())];
        let policy = self.settings.outage_policy;
        let trusts: Vec<_> = self.held.values().map(|held| held.trust(policy, now)).collect();
        let least =
            trusts.iter().map(|trust| trust.until.since(now).as_secs_f64()).fold(f64::INFINITY, f64::min);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let up = self.shards.iter().filter(|shard| shard.is_heard()).count();
        for (name, kind, help, value) in [
            ("active_leases_total", "gauge", "Leases that are held.", count(self.held.len())),
            (
                "streams_desired_total",
                "gauge",
                "Cameras that are to be worked on here.",
                count(self.wanted_count()),
            ),
            (
                "streams_pending_total",
                "gauge",
                "Of these those that no worker works on.",
                count(self.wanted_count().saturating_sub(working)),
            ),
            ("runner_streams_owned", "gauge", "Cameras that a worker works on.", count(working)),
            ("runner_shards", "gauge", "Workers that are heard of.", count(up)),
            (
                "drain_in_progress",
                "gauge",
                "Whether cameras are handed over.",
                u64::from(self.mode != Mode::Active),
            ),
            (
                "owner_changes_total",
                "counter",
                "How often a camera became this runner's.",
                self.figures.owners,
            ),
            (
                "leasehold_manager_degraded",
                "gauge",
                "Cameras worked on in grace.",
                count(trusts.iter().filter(|trust| trust.degraded).count()),
            ),
            (
                "leasehold_manager_quarantined",
                "gauge",
                "Cameras in quarantine.",
                count(self.blame.quarantined(now).len()),
            ),
            (
                "leasehold_manager_worker_crashes_total",
                "counter",
                "Workers that crashed or hung.",
                self.figures.crashes,
            ),
            (
                "leasehold_manager_worker_starts_total",
                "counter",
                "Workers that were started.",
                self.shards.iter().map(|shard| shard.lives).sum(),
            ),
            (
                "leasehold_manager_registered",
                "gauge",
                "Whether the control plane knows this runner.",
                u64::from(self.registered),
            ),
            (
                "leasehold_manager_control_plane_up",
                "gauge",
                "Whether the last request was answered.",
                u64::from(self.is_reached()),
            ),
            (
                "leasehold_manager_configuration_valid",
                "gauge",
                "Whether the configuration as it is now can be used.",
                u64::from(self.refused.is_none()),
            ),
        ] {
            page.family(name, kind, help);
            page.sample(name, &labels, value);
        }
        if least.is_finite() {
            page.family("lease_time_to_expiry_seconds", "gauge", "The least trust that any lease has left.");
            page.sample("lease_time_to_expiry_seconds", &labels, least);
        }
        page.family("lease_operations_total", "counter", "Requests about leases, by result.");
        for ((op, result), number) in self.figures.operations() {
            page.sample("lease_operations_total", &[labels[0], ("op", op), ("result", result)], number);
        }
        page.family("lease_lost_total", "counter", "Leases that were lost, by reason.");
        for (reason, number) in self.figures.losses() {
            page.sample("lease_lost_total", &[labels[0], ("reason", reason)], number);
        }
        page.family("lease_operation_duration_seconds", "summary", "How long requests took.");
        for (op, (number, sum)) in self.figures.times().all() {
            page.sample("lease_operation_duration_seconds_sum", &[labels[0], ("op", op)], sum);
            page.sample("lease_operation_duration_seconds_count", &[labels[0], ("op", op)], number);
        }
        page.text()
    }
}
