//! What is asked of the control plane. Each call is a task of its own, and its answer is news.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use leasehold::clock::{self, Moment};
use leasehold_client::{Offer, RunnerReport, RunnerStatus, SiteVersion, Wanted};
use leasehold_manager::shards::spread;
use serde_json::{Map, Value, json};

use super::news::Synced;
use super::{Keeper, Mode, News, Plane, RESERVED_MAX};

/// A site whose configuration is followed.
#[derive(Debug, Default)]
pub(super) struct Site {
    pub(super) version: Option<SiteVersion>,
    pub(super) zones: Value,
    pub(super) busy: bool,
    pub(super) next: Moment,
}

impl Keeper {
    /// Makes a call, when there are not too many under way.
    fn call<F>(&self, op: &'static str, call: impl FnOnce(Plane) -> F)
    where
        F: Future<Output = News> + Send + 'static,
    {
        let turns = if op == "renew" { &self.renewals } else { &self.calls };
        let (calls, news, times) = (Arc::clone(turns), self.news.clone(), self.figures.times());
        let answer = call(self.plane.clone());
        tokio::spawn(async move {
            let _turn = calls.acquire_owned().await;
            let began = clock::now();
            let answer = answer.await;
            times.took(op, clock::now().since(began));
            // Where nobody listens any more, nobody needs to know.
            let _ = news.send(answer).await;
        });
    }

    /// Registers, reports, looks for cameras and for who waits, as often as each is due.
    pub(super) fn ask_again(&mut self, now: Moment) {
        if !self.registered {
            if !self.due.registering && now >= self.due.register && self.mode == Mode::Active {
                self.due.registering = true;
                let runner = self.runner.clone();
                self.call("register", |plane| async move {
                    News::Registered(plane.api.register_runner(&runner).await.map(drop))
                });
            }
            return;
        }
        let id = self.runner.runner_id.clone();
        let room = self.room(now);
        if room != self.room {
            // Others are to get at once what finds no worker here.
            (self.room, self.due.report) = (room, now);
        }
        if !self.due.reporting && now >= self.due.report {
            (self.due.reporting, self.due.report) = (true, now.after(self.settings.heartbeat_interval));
            let (id, report) = (id.clone(), self.report(now));
            self.call("report", |plane| async move {
                News::Reported(plane.api.report_runner_status(&id, &report).await.map(drop))
            });
        }
        if !self.due.sweeping && now >= self.due.sweep {
            (self.due.sweeping, self.due.sweep) = (true, now.after(super::SWEEP));
            let id = id.clone();
            self.call("sweep", |plane| async move { News::Swept(plane.leases.get_active_leases(&id).await) });
        }
        self.tell_of_work(now);
        let is_full = self.held.len() + self.reserved.len() >= self.settings.capacity();
        if self.mode == Mode::Active && !self.due.asking && now >= self.due.offers {
            self.due.offers = now.after(self.settings.lease_retry_interval);
            if !is_full && self.shards.iter().all(|shard| shard.unwritten.is_none()) {
                self.due.asking = true;
                let tenant = self.settings.tenant_id.clone();
                self.call(
                    "offers",
                    |plane| async move { News::Offered(plane.api.offers(&tenant, &id).await) },
                );
            }
        }
    }

    fn report(&self, now: Moment) -> RunnerReport {
        let status = match self.mode {
            Mode::Active => RunnerStatus::Active,
            Mode::Draining { .. } => RunnerStatus::Draining,
            Mode::Ending => RunnerStatus::Inactive,
        };
        let metrics = json!({
            "cameras": self.held.len(),
            "workers": self.shards.iter().filter(|shard| shard.process.is_some()).count(),
            "quarantined": self.blame.quarantined(now).len(),
            "crashes": self.figures.crashes,
        });
        let metrics = metrics.as_object().cloned();
        RunnerReport { status: Some(status), capacity: Some(self.room), metrics }
    }

    /// Says how the work under each lease goes.
    fn tell_of_work(&mut self, now: Moment) {
        if self.due.telling || now < self.due.tell {
            return;
        }
        self.due.tell = now.after(self.settings.heartbeat_interval);
        let stats = |shard: usize, lease_id: &str| {
            let shard = &self.shards[shard];
            let status = shard.process.as_ref().map(|process| process.said.status.clone());
            let works = shard.told.works_on().contains(lease_id);
            json!({"shard_id": shard.index, "working": works, "status": status})
        };
        let told: Vec<(String, Map<String, Value>)> = self
            .held
            .iter()
            .filter(|(_, held)| held.leaving.is_none())
            .map(|(id, held)| (id.clone(), stats(held.shard, id).as_object().cloned().unwrap_or_default()))
            .collect();
        if told.is_empty() {
            return;
        }
        self.due.telling = true;
        self.call("heartbeat", |plane| async move {
            for (id, stats) in told {
                // It extends nothing, and is said again.
                if plane.leases.heartbeat(&id, &stats).await.is_err() {
                    break;
                }
            }
            News::Told
        });
    }

    /// Asks for what is offered, and for what this runner has without knowing it, as far as there is room.
    pub(super) fn take(&mut self, offers: Vec<Offer>, now: Moment) {
        if self.mode != Mode::Active {
            return;
        }
        let strays = std::mem::take(&mut self.strays);
        let offered = offers.into_iter().map(|offer| (offer.camera_uuid, None, offer.reserve));
        let known = strays.into_iter().map(|(camera, shard)| (camera, Some(shard), false));
        for (camera, shard_id, reserve) in known.chain(offered) {
            let is_known = self.of_camera(&camera).is_some()
                || self.acquiring.contains_key(&camera)
                || self.reserved.values().any(|reserved| reserved.camera == camera);
            if is_known || self.blame.is_quarantined(now, &camera) {
                continue;
            }
            if reserve && self.reserved.len() >= RESERVED_MAX {
                continue;
            }
            let most = self.settings.max_cameras_per_worker;
            let loads = self.loads();
            // What was this runner's already stays with its worker, if there is still room.
            let own = shard_id.as_ref().and_then(|shard| shard.parse::<usize>().ok());
            let own = own.filter(|shard| loads.get(*shard).is_some_and(|load| *load < most));
            let Some(shard) = own.or_else(|| spread::place(&loads, most, None)) else { return };
            self.acquire(camera, shard, shard_id, reserve);
        }
    }

    fn acquire(&mut self, camera: String, shard: usize, shard_id: Option<String>, reserve: bool) {
        let known = self.documents.get(&camera).cloned().or_else(|| self.cache.find(&camera));
        let version = |name: &str| known.as_ref().map(|document| document.text(name)).unwrap_or_default();
        let wanted = Wanted {
            camera_uuid: camera.clone(),
            runner_id: self.runner.runner_id.clone(),
            shard_id: shard_id.unwrap_or_else(|| shard.to_string()),
            tenant_id: Some(self.settings.tenant_id.clone()),
            config_version: version("config_version"),
            zone_version: version("zone_version"),
            reserve,
        };
        self.acquiring.insert(camera.clone(), shard);
        self.call("acquire", |plane| async move {
            let result = plane.leases.acquire(&wanted).await.map(|lease| lease.map(Box::new));
            News::Acquired { camera, shard, result }
        });
    }

    /// Renews what is due, leases and reservations.
    pub(super) fn renew(&mut self, now: Moment) {
        let due: Vec<String> = self
            .held
            .iter_mut()
            .filter(|(_, held)| held.is_kept_up() && !held.renewing && now >= held.renew_at)
            .map(|(id, held)| {
                held.renewing = true;
                id.clone()
            })
            .collect();
        let ending = self.mode != Mode::Active;
        let reserved =
            self.reserved.iter_mut().filter(|(_, reserved)| !reserved.renewing && now >= reserved.renew_at);
        let waiting: Vec<String> = reserved
            .map(|(id, reserved)| {
                reserved.renewing = true;
                id.clone()
            })
            .collect();
        for lease_id in due {
            self.call("renew", |plane| async move {
                let renewal = plane.renewals.renew_lease(&lease_id).await;
                News::Renewed { lease_id, renewal }
            });
        }
        for lease_id in waiting {
            if ending {
                // Nothing more is taken, and nobody is to wait for that.
                self.reserved.remove(&lease_id);
                self.release(lease_id);
                continue;
            }
            self.call("renew", |plane| async move {
                let renewal = plane.renewals.renew_lease(&lease_id).await;
                News::Renewed { lease_id, renewal }
            });
        }
    }

    /// Releases what was let go.
    pub(super) fn release(&mut self, lease_id: String) {
        self.call("release", |plane| async move {
            let result = plane.leases.release_lease(&lease_id).await;
            News::Released { lease_id, result }
        });
    }

    /// Follows the configuration of every site that has a camera here.
    pub(super) fn sync(&mut self, now: Moment) {
        let held = self.sites_held();
        self.sites.retain(|site, _| held.contains(site));
        let wanted: BTreeSet<String> = held.iter().flat_map(|site| self.cameras_at(site)).collect();
        self.documents.retain(|camera, _| wanted.contains(camera));
        for key in held {
            let cameras = self.cameras_at(&key);
            let missing: BTreeSet<String> =
                cameras.iter().filter(|camera| !self.documents.contains_key(*camera)).cloned().collect();
            let site = self.sites.entry(key.clone()).or_default();
            if site.busy || now < site.next {
                continue;
            }
            site.busy = true;
            let known = site.version.clone();
            self.call("sync", |plane| async move {
                let result = synced(&plane, &key, known, cameras, missing).await;
                News::Synced { site: key, result }
            });
        }
    }
}

async fn synced(
    plane: &Plane,
    (tenant, site): &(String, String),
    known: Option<SiteVersion>,
    cameras: BTreeSet<String>,
    missing: BTreeSet<String>,
) -> Result<Synced, leasehold_client::ClientError> {
    let version = plane.api.site_version(tenant, site).await?;
    let is_new = known.as_ref() != Some(&version);
    let zones = if is_new { Some(plane.api.site_zones(tenant, site).await?) } else { None };
    let mut documents = Vec::new();
    for camera in if is_new { cameras } else { missing } {
        let document = plane.api.camera_document(tenant, &camera).await;
        documents.push((camera, document));
    }
    Ok(Synced { version, zones, documents })
}
