//! The workers: what each is to work on, told, watched and started again.

use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{self, Moment};
use leasehold_manager::shards::file::{CameraEntry, FORMAT, ShardFile, boottime};
use leasehold_manager::{Spec, Worker};
use tokio::sync::mpsc;

use super::{Keeper, Mode, News};
use crate::manager::probe;
use crate::manager::shard::{AGAIN, STOP_BEFORE, Stop};

impl Keeper {
    /// Tells each worker what it is to work on, has it killed when it must not any more, and starts it if it is needed.
    pub(super) async fn keep_shards(&mut self, now: Moment) {
        for index in 0..self.shards.len() {
            if self.mode != Mode::Ending {
                self.tell(index, now).await;
            }
            let deadlines = self.deadlines(now);
            let shard = &mut self.shards[index];
            let kill_at = shard.kill_at(&deadlines);
            shard.last_until(kill_at).await;
            self.watch(index, now);
            if self.mode != Mode::Ending {
                self.start(index, now).await;
            }
        }
    }

    /// What a shard's file should say now, but for its generation.
    fn wanted(&self, index: usize, now: Moment) -> ShardFile {
        let policy = self.settings.outage_policy;
        let mut cameras: Vec<CameraEntry> = self
            .held
            .values()
            .filter(|held| held.shard == index && held.is_wanted(now))
            .filter_map(|held| {
                let document = self.documents.get(&held.lease.camera_uuid)?;
                let trust = held.trust(policy, now);
                let until = trust.until.before(STOP_BEFORE);
                Some(CameraEntry {
                    camera_uuid: held.lease.camera_uuid.clone(),
                    tenant_id: held.lease.tenant_id.clone(),
                    site_id: held.lease.site_id.clone(),
                    lease_id: held.lease.lease_id.clone(),
                    fencing_token: held.lease.fencing_token,
                    trusted_until_boottime: boottime(until),
                    trusted_until: wall(until),
                    degraded: trust.degraded,
                    config_version: document.text("config_version"),
                    zone_version: document.text("zone_version"),
                    document: document.value.clone(),
                    site_zones: document.zones.clone(),
                })
            })
            .collect();
        cameras.sort_by(|one, other| one.camera_uuid.cmp(&other.camera_uuid));
        ShardFile {
            format: FORMAT,
            generation: self.shards[index].told.generation(),
            runner_id: self.settings.runner_id.clone(),
            shard_id: index,
            manager_pid: std::process::id(),
            http_port: port(self.settings.worker_http_port, index),
            metrics_port: port(self.settings.worker_metrics_port, index),
            heartbeat_seconds: self.settings.worker_heartbeat.as_secs(),
            reload: self.settings.worker_reload,
            cameras,
        }
    }

    /// Writes what has changed, and tells the worker if it was more than deadlines.
    async fn tell(&mut self, index: usize, now: Moment) {
        let mut file = self.wanted(index, now);
        let deadlines = self.deadlines(now);
        let shard = &mut self.shards[index];
        let is_new = !shard.says(&file.cameras, &file);
        if !is_new && shard.is_written(&file) {
            return;
        }
        if shard.unwritten.as_ref().is_some_and(|_| now < shard.start_at) {
            return;
        }
        if is_new {
            // From here on the worker may come to read it, whether it is written now or by the next pass.
            let leases = file.cameras.iter().map(|camera| camera.lease_id.clone()).collect();
            file.generation = shard.told.tell(leases);
        }
        let kill_at = shard.kill_at(&deadlines);
        if !shard.last_until(kill_at).await {
            return;
        }
        let told: Vec<String> = file.cameras.iter().map(|camera| camera.lease_id.clone()).collect();
        if !shard.write(file, now) {
            shard.start_at = now.after(AGAIN);
            return;
        }
        if is_new && let Some(process) = &shard.process {
            if self.settings.worker_reload == leasehold_manager::shards::file::Reload::Signal {
                // One that has no handler yet is about to read the file.
                process.worker.child().signal_hangup();
            }
            tracing::debug!(shard_id = index, generation = shard.told.generation(), "a worker was told");
        }
        for lease in told {
            if let Some(held) = self.held.get_mut(&lease) {
                held.told = true;
            }
        }
    }

    /// Has a worker end of which nothing was heard for too long.
    fn watch(&mut self, index: usize, now: Moment) {
        if !self.settings.manager_mode {
            return;
        }
        let settings = &self.settings;
        let shard = &mut self.shards[index];
        let Some(process) = &shard.process else { return };
        let hung_at = match process.alive_at {
            Some(alive_at) => alive_at.after(settings.worker_heartbeat_timeout),
            None => process.started.after(settings.worker_start_grace),
        };
        if now >= hung_at && process.stopping.is_none() {
            tracing::warn!(
                event = "worker_hung",
                shard_id = index,
                "nothing was heard of a worker for too long; it is ended"
            );
            let kill_at = now.after(settings.worker_hung_grace);
            shard.stop(Stop::Hung, kill_at);
        }
    }

    /// Starts a worker that has something to do.
    async fn start(&mut self, index: usize, now: Moment) {
        let has_work = self.held.values().any(|held| {
            held.shard == index && held.is_wanted(now) && self.documents.contains_key(&held.lease.camera_uuid)
        });
        // Where a camera is about to come, the worker is there before it.
        let is_awaited = self.reserved.values().any(|reserved| reserved.shard == index);
        let shard = &mut self.shards[index];
        if !(has_work || is_awaited)
            || shard.process.is_some()
            || now < shard.start_at
            || shard.unwritten.is_some()
        {
            return;
        }
        shard.told.begin();
        let deadlines = self.deadlines(now);
        let kill_at = self.shards[index].kill_at(&deadlines);
        let spec = self.spec(index);
        match self.supervisor.run_worker(spec, kill_at).await {
            Ok(worker) => {
                let (worker, news) = (Arc::new(worker), self.news.clone());
                let shard = &mut self.shards[index];
                shard.lives += 1;
                tracing::info!(
                    event = "worker_started",
                    shard_id = index,
                    pid = worker.child().pid(),
                    "a worker was started"
                );
                let port = port(self.settings.worker_http_port, index);
                let follow = follow(
                    Arc::clone(&worker),
                    index,
                    shard.lives,
                    news,
                    port,
                    self.settings.worker_heartbeat,
                );
                let watching = tokio::spawn(follow).abort_handle();
                shard.began(worker, kill_at, clock::now(), watching);
            }
            Err(error) => {
                let shard = &mut self.shards[index];
                shard.told.gone();
                shard.start_at = now.after(AGAIN);
                tracing::error!(
                    shard_id = index,
                    error = crate::failure::chain(&error),
                    "a worker could not be started; trying again"
                );
            }
        }
    }

    fn spec(&self, index: usize) -> Spec {
        let settings = &self.settings;
        let (program, args) =
            settings.worker_command.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
        let heartbeat = settings.worker_heartbeat.as_micros() * 2;
        Spec::new(program, args)
            .arg("--config")
            .arg(&self.shards[index].path)
            .arg("--runner-id")
            .arg(&settings.runner_id)
            .arg("--shard-id")
            .arg(index.to_string())
            .arg("--manager-pid")
            .arg(std::process::id().to_string())
            .called(&format!("shard-{index}"))
            .env("WATCHDOG_USEC", heartbeat.to_string())
            .env("LEASEHOLD_HTTP_PORT", port(settings.worker_http_port, index).to_string())
            .env("LEASEHOLD_METRICS_PORT", port(settings.worker_metrics_port, index).to_string())
    }
}

/// Passes on what a worker says, until it has ended.
async fn follow(
    worker: Arc<Worker>,
    shard: usize,
    life: u64,
    news: mpsc::Sender<News>,
    port: u16,
    heartbeat: Duration,
) {
    let mut said = worker.said();
    let mut turns = tokio::time::interval(heartbeat.min(probe::EVERY_MAX));
    loop {
        let next = tokio::select! {
            biased;
            exit = worker.child().exited() => {
                let _ = news.send(News::Exited { shard, life, exit }).await;
                return;
            }
            Ok(()) = said.changed() => {
                let said = said.borrow_and_update().clone();
                News::Said { shard, life, said }
            }
            // One that speaks by itself need not be asked.
            _ = turns.tick(), if port != 0 => {
                if said.borrow().alive_at.is_some() {
                    continue;
                }
                match probe::health(worker.child(), port).await {
                    Some(applied) => News::Answered { shard, life, applied },
                    None => continue,
                }
            }
        };
        let _ = news.send(next).await;
    }
}

/// The port of a worker: the first one and its number, or none.
fn port(base: u16, index: usize) -> u16 {
    if base == 0 { 0 } else { base.saturating_add(u16::try_from(index).unwrap_or(u16::MAX)) }
}

/// A moment as people write it.
fn wall(moment: Moment) -> String {
    let (now, wall) = (clock::now(), clock::unix_nanos());
    let nanos = i128::from(wall) + i128::from(moment.0) - i128::from(now.0);
    // To the second: what is the same moment is to be the same text.
    let seconds = i64::try_from(nanos / 1_000_000_000).unwrap_or(0);
    jiff::Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
}
