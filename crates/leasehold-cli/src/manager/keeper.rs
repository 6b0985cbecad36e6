//! The keeper: one task that owns everything a manager knows, and looks at all of it again whenever there is news.
//!
//! **Invariants.**
//! - A camera's work runs only while the trust in its lease has not ended. Trust counts on this machine's own clock from before
//!   the last confirmed request was sent. The deadman kills the whole group of a worker that has not let go by then, and does so
//!   also if this process is frozen or killed.
//! - A lease is released to others only after its worker has said that it follows a configuration without it, or when no process
//!   of the worker's group runs any more.
//!
//! Everything that waits for somebody else is a task of its own and comes back as [`News`]. Passes take no input: what is not done
//! by this one is done by the next.

mod calls;
mod news;
mod pass;
mod shards;
mod shown;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{self, Clock, Moment, SystemClock};
use leasehold_client::{ControlPlaneClient, LeaseManager, RunnerConfig};
use leasehold_manager::Supervisor;
use leasehold_manager::shards::blame::Blame;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, watch};

use self::calls::Site;
pub(super) use self::news::{Ask, News};
use super::cache::Cache;
use super::figures::Figures;
use super::held::{Held, Why};
use super::report::Snapshot;
use super::settings::Settings;
use super::shard::Shard;
use crate::failure::Failure;

/// How long the longest nap is: everything is looked at again after it.
const NAP: Duration = Duration::from_millis(500);
/// How often is looked whether another waits for a camera that is held here.
const SWEEP: Duration = Duration::from_secs(1);
/// How many requests are under way at once.
const CALLS_MAX: usize = 16;
/// How many renewals: what is asked for else is not to keep them waiting.
const RENEWALS_MAX: usize = 128;
/// How long a request may take with everything that is tried again.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long a renewal may take, at least and at most: a fourth of the TTL, so that there is time for another.
const RENEWAL_MIN: Duration = Duration::from_secs(1);
/// How many cameras are reserved at once.
const RESERVED_MAX: usize = 8;
/// How much news may wait.
const NEWS_MAX: usize = 4096;

/// What the manager is up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It takes cameras.
    Active,
    /// It hands over what it has, camera by camera, until this moment; then all at once.
    Draining { until: Moment },
    /// It ends.
    Ending,
}

/// A document of a camera.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    pub(super) value: Value,
    pub(super) zones: Value,
}

impl Document {
    pub(super) fn text(&self, name: &str) -> String {
        self.value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// A reservation.
#[derive(Debug)]
pub(super) struct Reserved {
    camera: String,
    site: (String, String),
    shard: usize,
    renew_at: Moment,
    renewing: bool,
}

/// Who can be asked.
#[derive(Clone)]
pub(super) struct Plane {
    pub(super) api: ControlPlaneClient,
    pub(super) leases: Arc<LeaseManager>,
    pub(super) renewals: Arc<LeaseManager>,
}

impl Plane {
    pub(super) fn of(settings: &Settings) -> Result<Self, Failure> {
        let key = settings.api_key.as_ref().map(|key| key.0.as_str());
        let api = ControlPlaneClient::new(&settings.control_plane_url, key)
            .map_err(|error| Failure::usage(error.to_string()))?
            .patience(PATIENCE);
        let leases = LeaseManager::new(api.clone());
        leases.update_ttl(settings.lease_ttl.as_secs());
        let short = (settings.lease_ttl / 4).clamp(RENEWAL_MIN, PATIENCE);
        let renewals = LeaseManager::new(api.clone().patience(short));
        Ok(Self { api, leases: Arc::new(leases), renewals: Arc::new(renewals) })
    }
}

/// When something is done next that is done again and again.
#[derive(Debug, Default)]
struct Due {
    register: Moment,
    registering: bool,
    offers: Moment,
    asking: bool,
    report: Moment,
    reporting: bool,
    sweep: Moment,
    sweeping: bool,
    tell: Moment,
    telling: bool,
}

/// Everything that a manager knows.
pub(super) struct Keeper {
    settings: Settings,
    path: PathBuf,
    plane: Plane,
    runner: RunnerConfig,
    supervisor: Supervisor,
    mode: Mode,
    registered: bool,
    /// How many cameras it said last that it has room for.
    room: u32,
    /// Why the last configuration was refused.
    refused: Option<String>,
    held: BTreeMap<String, Held>,
    reserved: BTreeMap<String, Reserved>,
    /// Cameras that are being acquired, and for which shard.
    acquiring: BTreeMap<String, usize>,
    /// Cameras of this runner that it does not know of, with their shards: an answer was lost, or an outage has passed.
    strays: BTreeMap<String, String>,
    documents: BTreeMap<String, Document>,
    sites: BTreeMap<(String, String), Site>,
    cache: Cache,
    shards: Vec<Shard>,
    blame: Blame,
    figures: Figures,
    due: Due,
    /// When a request was last answered, and when one last was not.
    answered_at: Option<Moment>,
    unanswered_at: Option<Moment>,
    witness: Option<bool>,
    calls: Arc<Semaphore>,
    renewals: Arc<Semaphore>,
    news: mpsc::Sender<News>,
    queue: mpsc::Receiver<News>,
    snapshot: watch::Sender<Snapshot>,
    exit_code: u8,
}

impl Keeper {
    pub(super) fn new(
        settings: Settings,
        path: PathBuf,
        supervisor: Supervisor,
        snapshot: watch::Sender<Snapshot>,
    ) -> Result<Self, Failure> {
        let plane = Plane::of(&settings)?;
        let mut runner = RunnerConfig::new(&settings.runner_id, &settings.tenant_id, &settings.site_id);
        runner.deployment_group.clone_from(&settings.deployment_group);
        runner.deployment_version.clone_from(&settings.deployment_version);
        let room = u32::try_from(settings.capacity()).unwrap_or(u32::MAX);
        runner.capacity = room;
        runner.capabilities.clone_from(&settings.capabilities);
        // Three reports may be lost before others get what this runner was to take.
        runner.ttl_seconds = Some(settings.heartbeat_interval.as_secs() * 3);
        runner.port = settings.listen.map_or(0, |listen| listen.port());
        runner.metrics_port = settings.listen.map(|listen| listen.port()).filter(|port| *port > 0);
        let shards = (0..settings.shards()).map(|index| Shard::new(index, &settings.config_dir)).collect();
        let cache = Cache::open(&settings.config_dir);
        let (news, queue) = mpsc::channel(NEWS_MAX);
        Ok(Self {
            settings,
            path,
            plane,
            runner,
            supervisor,
            mode: Mode::Active,
            registered: false,
            room,
            refused: None,
            held: BTreeMap::new(),
            reserved: BTreeMap::new(),
            acquiring: BTreeMap::new(),
            strays: BTreeMap::new(),
            documents: BTreeMap::new(),
            sites: BTreeMap::new(),
            cache,
            shards,
            blame: Blame::default(),
            figures: Figures::default(),
            due: Due::default(),
            answered_at: None,
            unanswered_at: None,
            witness: None,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            renewals: Arc::new(Semaphore::new(RENEWALS_MAX)),
            news,
            queue,
            snapshot,
            exit_code: 0,
        })
    }

    /// Where news is told.
    pub(super) fn ear(&self) -> mpsc::Sender<News> {
        self.news.clone()
    }

    /// Works until it was told to end and nothing is left, or until children can no longer be watched.
    pub(super) async fn keep(mut self) -> Result<(u8, Supervisor), Failure> {
        loop {
            let now = clock::now();
            self.pass(now).await;
            self.snapshot.send_replace(self.shown(clock::now()));
            if self.is_done() {
                return Ok((self.exit_code, self.supervisor));
            }
            let wake_at = self.next(now);
            tokio::select! {
                news = self.queue.recv() => {
                    let Some(news) = news else { return Ok((self.exit_code, self.supervisor)) };
                    self.hear(news);
                    // Whatever else is there is heard before everything is looked at again.
                    while let Ok(news) = self.queue.try_recv() {
                        self.hear(news);
                    }
                }
                () = SystemClock.sleep_until(wake_at) => {}
                error = self.supervisor.failed() => {
                    return Err(Failure::system("workers can no longer be watched, so none may run", &error));
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        self.mode == Mode::Ending
            && self.held.is_empty()
            && self.reserved.is_empty()
            && self.acquiring.is_empty()
            && self.shards.iter().all(|shard| shard.process.is_none())
            && !self.due.reporting
    }

    /// When everything is to be looked at again, if there is no news before.
    fn next(&self, now: Moment) -> Moment {
        let of_leases = self.held.values().flat_map(|held| {
            let trust = held.trust(self.settings.outage_policy, now);
            [held.renew_at, trust.until.before(held.let_go()), held.wait_until]
        });
        let of_shards = self.shards.iter().map(|shard| shard.start_at);
        let ahead = of_leases.chain(of_shards).filter(|moment| *moment > now);
        ahead.min().unwrap_or(Moment(u64::MAX)).min(now.after(NAP))
    }

    /// How many cameras this runner has room for: none where no worker comes up.
    fn room(&self, now: Moment) -> u32 {
        let grace = self.settings.worker_start_grace;
        let working = self.shards.iter().filter(|shard| !shard.is_stuck(grace, now)).count();
        u32::try_from(working * self.settings.max_cameras_per_worker).unwrap_or(u32::MAX)
    }

    /// How many cameras each shard has or is about to get.
    fn loads(&self) -> Vec<usize> {
        let mut loads = vec![0; self.shards.len()];
        let held = self.held.values().map(|held| held.shard);
        let reserved = self.reserved.values().map(|reserved| reserved.shard);
        for shard in held.chain(reserved).chain(self.acquiring.values().copied()) {
            loads[shard] += 1;
        }
        // Where no worker comes up there is no room.
        let (grace, now) = (self.settings.worker_start_grace, clock::now());
        for (load, shard) in loads.iter_mut().zip(&self.shards) {
            if shard.is_stuck(grace, now) {
                *load = self.settings.max_cameras_per_worker;
            }
        }
        loads
    }

    /// The lease of a camera, if it is held here.
    fn of_camera(&self, camera: &str) -> Option<&Held> {
        self.held.values().find(|held| held.lease.camera_uuid == camera)
    }

    /// Has a camera let go of.
    fn leave(&mut self, lease_id: &str, why: Why, now: Moment) {
        let (settings, figures) = (&self.settings, &mut self.figures);
        let Some(held) = self.held.get_mut(lease_id) else { return };
        let by = held.leaves_by(why, settings.outage_policy, settings.worker_stop_grace, now);
        if !held.leave(why, by) {
            return;
        }
        tracing::info!(
            event = "camera_leaves",
            why = why.word(),
            camera_uuid = held.lease.camera_uuid,
            tenant_id = held.lease.tenant_id,
            site_id = held.lease.site_id,
            runner_id = settings.runner_id,
            shard_id = held.shard,
            "a camera is let go"
        );
        if matches!(why, Why::Lapsed | Why::Lost | Why::Surpassed) {
            figures.lost(why.word());
        }
    }

    /// The sites of what is held, or about to be.
    fn sites_held(&self) -> BTreeSet<(String, String)> {
        let held = self.held.values().map(Held::site);
        held.chain(self.reserved.values().map(|reserved| reserved.site.clone())).collect()
    }

    /// The cameras of a site that are held, or about to be.
    fn cameras_at(&self, site: &(String, String)) -> BTreeSet<String> {
        let held = self.held.values().filter(|held| held.site() == *site);
        let reserved = self.reserved.values().filter(|reserved| reserved.site == *site);
        let held = held.map(|held| held.lease.camera_uuid.clone());
        held.chain(reserved.map(|reserved| reserved.camera.clone())).collect()
    }
}
