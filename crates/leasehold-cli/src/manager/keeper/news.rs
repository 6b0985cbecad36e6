//! What comes back to the keeper, and what follows from it.

use leasehold::clock::{self, Moment};
use leasehold_client::{ClientError, Lease, Offer, Renewal, SiteVersion};
use leasehold_manager::{Exit, Said};
use serde_json::Value;

use super::{Document, Keeper, Mode, Plane, Reserved};
use crate::manager::held::{Held, Why};
use crate::manager::settings::Settings;

/// How soon a reservation is renewed again: the gap when a camera changes hands is no longer.
const RESERVATION: std::time::Duration = std::time::Duration::from_millis(500);

/// What somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::manager) enum Ask {
    /// Hand over what is held, camera by camera.
    Drain,
    /// Let go of everything at once.
    DrainHard,
    /// Take cameras again.
    Undrain,
    /// End.
    Terminate,
}

/// What comes back to the keeper.
#[derive(Debug)]
pub(in crate::manager) enum News {
    Registered(Result<(), ClientError>),
    Offered(Result<Vec<Offer>, ClientError>),
    Acquired { camera: String, shard: usize, result: Result<Option<Box<Lease>>, ClientError> },
    Renewed { lease_id: String, renewal: Renewal },
    Released { lease_id: String, result: Result<bool, ClientError> },
    Swept(Result<Vec<Lease>, ClientError>),
    Synced { site: (String, String), result: Result<Synced, ClientError> },
    Reported(Result<(), ClientError>),
    Told,
    Said { shard: usize, life: u64, said: Said },
    Answered { shard: usize, life: u64, applied: Option<u64> },
    Exited { shard: usize, life: u64, exit: Exit },
    Read(Result<Box<Settings>, String>),
    Witness(bool),
    Seen { camera: String, tenant: String, token: u64 },
    Hint,
    Asked(Ask),
}

/// What a site's configuration is now.
#[derive(Debug)]
pub(in crate::manager) struct Synced {
    pub(super) version: SiteVersion,
    pub(super) zones: Option<Value>,
    pub(super) documents: Vec<(String, Result<Value, ClientError>)>,
}

impl Keeper {
    /// Takes news in. What follows from it is done by the next pass.
    pub(super) fn hear(&mut self, news: News) {
        let now = clock::now();
        match news {
            News::Registered(result) => self.hear_registered(result, now),
            News::Offered(result) => {
                self.due.asking = false;
                self.answered(&result, now);
                match result {
                    Ok(offers) => self.take(offers, now),
                    Err(error) if error.status() == Some(404) => self.registered = false,
                    Err(error) => tracing::debug!(%error, "no cameras are offered"),
                }
            }
            News::Acquired { camera, shard, result } => self.hear_acquired(&camera, shard, result, now),
            News::Renewed { lease_id, renewal } => self.hear_renewed(&lease_id, renewal, now),
            News::Released { lease_id, result } => self.hear_released(&lease_id, result, now),
            News::Swept(result) => {
                self.due.sweeping = false;
                self.answered(&result, now);
                self.hear_swept(result.unwrap_or_default(), now);
            }
            News::Synced { site, result } => self.hear_synced(&site, result, now),
            News::Reported(result) => {
                self.due.reporting = false;
                self.answered(&result, now);
                self.registered &= result.err().and_then(|error| error.status()) != Some(404);
            }
            News::Told => self.due.telling = false,
            News::Said { shard, life, said } => self.hear_said(shard, life, said),
            News::Answered { shard, life, applied } => self.hear_answered(shard, life, applied, now),
            News::Exited { shard, life, exit } => self.hear_exited(shard, life, exit, now),
            News::Read(result) => self.hear_settings(result),
            News::Witness(connected) => self.witness = Some(connected),
            News::Seen { camera, tenant, token } => self.hear_seen(&camera, &tenant, token),
            News::Hint => {
                self.due.offers = now;
                self.reserved.values_mut().for_each(|reserved| reserved.renew_at = now);
            }
            News::Asked(ask) => self.hear_asked(ask, now),
        }
    }

    /// Notes whether the control plane answers.
    fn answered<T>(&mut self, result: &Result<T, ClientError>, now: Moment) {
        match result {
            Err(ClientError::Unknown(_)) => self.unanswered_at = Some(now),
            _ => self.answered_at = Some(now),
        }
    }

    fn hear_registered(&mut self, result: Result<(), ClientError>, now: Moment) {
        self.due.registering = false;
        self.answered(&result, now);
        match result {
            Ok(()) => {
                self.registered = true;
                self.due.offers = now;
                self.due.report = now;
                tracing::info!(
                    event = "registered",
                    runner_id = self.runner.runner_id,
                    capacity = self.runner.capacity,
                    "registered"
                );
            }
            Err(error) => {
                self.due.register = now.after(self.settings.lease_retry_interval);
                tracing::warn!(%error, runner_id = self.runner.runner_id, "not registered; asking again");
            }
        }
    }

    fn hear_acquired(
        &mut self,
        camera: &str,
        shard: usize,
        result: Result<Option<Box<Lease>>, ClientError>,
        now: Moment,
    ) {
        self.acquiring.remove(camera);
        self.answered(&result, now);
        self.figures.did(
            "acquire",
            match &result {
                Ok(Some(_)) => "granted",
                Ok(None) => "held",
                Err(ClientError::Unknown(_)) => "unknown",
                Err(_) => "refused",
            },
        );
        match result {
            Ok(Some(lease)) => self.receive(*lease, shard, now),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, camera_uuid = camera, "a camera was not acquired"),
        }
    }

    /// A lease was granted, or a reservation.
    fn receive(&mut self, lease: Lease, shard: usize, now: Moment) {
        let id = lease.lease_id.clone();
        self.strays.remove(&lease.camera_uuid);
        if lease.status == leasehold_client::LeaseStatus::Pending {
            let site = (lease.tenant_id, lease.site_id);
            if let Some(site) = self.sites.get_mut(&site) {
                site.next = now;
            }
            let camera = lease.camera_uuid;
            self.reserved.insert(
                id,
                Reserved { camera, site, shard, renew_at: now.after(RESERVATION), renewing: false },
            );
        } else if let Some(held) = Held::of(lease, shard, now) {
            self.figures.owners += 1;
            tracing::info!(
                event = "lease_acquired",
                camera_uuid = held.lease.camera_uuid,
                tenant_id = held.lease.tenant_id,
                site_id = held.lease.site_id,
                runner_id = self.settings.runner_id,
                shard_id = shard,
                fencing_token = held.lease.fencing_token,
                "a camera is ours"
            );
            if let Some(site) = self.sites.get_mut(&held.site()) {
                site.next = now;
            }
            self.held.insert(id, held);
        }
    }

    fn hear_renewed(&mut self, lease_id: &str, renewal: Renewal, now: Moment) {
        self.figures.did(
            "renew",
            match &renewal {
                Renewal::Renewed(_) => "extended",
                Renewal::Lost { .. } => "lost",
                Renewal::Unknown(_) => "unknown",
            },
        );
        match &renewal {
            Renewal::Unknown(_) => self.unanswered_at = Some(now),
            _ => self.answered_at = Some(now),
        }
        if let Some(reserved) = self.reserved.get_mut(lease_id) {
            let shard = reserved.shard;
            reserved.renewing = false;
            reserved.renew_at = now.after(RESERVATION);
            match renewal {
                Renewal::Renewed(lease) if lease.trusted_until.is_some() => {
                    self.reserved.remove(lease_id);
                    self.receive(*lease, shard, now);
                }
                Renewal::Lost { .. } => {
                    self.reserved.remove(lease_id);
                }
                _ => {}
            }
            return;
        }
        let Some(held) = self.held.get_mut(lease_id) else { return };
        match renewal {
            Renewal::Renewed(lease) if lease.trusted_until.is_some() => {
                let is_wanted_elsewhere = lease.release_requested;
                held.renewed(*lease);
                if is_wanted_elsewhere {
                    self.leave(lease_id, Why::HandedOver, now);
                }
            }
            Renewal::Renewed(_) | Renewal::Lost { .. } => {
                held.renewing = false;
                self.leave(lease_id, Why::Lost, now);
            }
            Renewal::Unknown(error) => {
                if held.unanswered(now) {
                    tracing::warn!(%error, event = "renewal_unanswered", camera_uuid = held.lease.camera_uuid, "nobody knows whether a lease was renewed; asking again");
                }
            }
        }
    }

    fn hear_released(&mut self, lease_id: &str, result: Result<bool, ClientError>, now: Moment) {
        self.answered(&result, now);
        self.figures.did("release", if result.is_ok() { "released" } else { "unknown" });
        let Some(held) = self.held.get_mut(lease_id) else { return };
        let is_over = held.trust(self.settings.outage_policy, now).until <= now;
        match result {
            // Nobody answers: it runs out by itself, and is asked for again until then.
            Err(ClientError::Unknown(_)) if !is_over && held.is_kept_up() && self.mode != Mode::Ending => {
                if let Some(leaving) = &mut held.leaving {
                    leaving.releasing = false;
                }
            }
            _ => self.forget(lease_id),
        }
    }

    /// What the control plane lists: who waits for what, and what is not known here.
    fn hear_swept(&mut self, leases: Vec<Lease>, now: Moment) {
        self.strays.clear();
        for lease in leases {
            let camera = lease.camera_uuid.clone();
            if self.held.contains_key(&lease.lease_id) {
                if lease.release_requested {
                    self.leave(&lease.lease_id, Why::HandedOver, now);
                }
            } else if self.of_camera(&camera).is_none() && !self.acquiring.contains_key(&camera) {
                self.strays.insert(camera, lease.shard_id);
            }
        }
    }

    fn hear_synced(&mut self, key: &(String, String), result: Result<Synced, ClientError>, now: Moment) {
        self.answered(&result, now);
        let interval = self.settings.config_sync_interval;
        let Some(site) = self.sites.get_mut(key) else { return };
        (site.busy, site.next) = (false, now.after(interval));
        let Ok(synced) = result else {
            self.fall_back(key);
            return;
        };
        site.version = Some(synced.version);
        if let Some(zones) = synced.zones {
            site.zones = zones;
        }
        let zones = site.zones.clone();
        let mut failed = false;
        for (camera, document) in synced.documents {
            match document {
                Ok(value) => {
                    let document = Document { value, zones: zones.clone() };
                    self.cache.keep(&camera, &document);
                    self.documents.insert(camera, document);
                }
                Err(error) => {
                    failed = true;
                    tracing::warn!(%error, camera_uuid = camera, "the configuration of a camera cannot be read; asking again");
                }
            }
        }
        for held in self.held.values().filter(|held| held.site() == *key) {
            if let Some(document) = self.documents.get_mut(&held.lease.camera_uuid) {
                document.zones.clone_from(&zones);
            }
        }
        let missing = self.cameras_at(key).iter().any(|camera| !self.documents.contains_key(camera));
        if let Some(site) = self.sites.get_mut(key) {
            if failed {
                site.version = None;
            } else if missing {
                // It was acquired meanwhile.
                site.next = now;
            }
        }
        if failed {
            self.fall_back(key);
        }
    }

    /// Where the control plane does not say what a camera's configuration is, the last one that it said is taken.
    fn fall_back(&mut self, key: &(String, String)) {
        let known = |camera: &String| self.documents.contains_key(camera);
        let missing: Vec<String> = self.cameras_at(key).into_iter().filter(|camera| !known(camera)).collect();
        for camera in missing {
            if let Some(document) = self.cache.find(&camera) {
                tracing::warn!(camera_uuid = camera, "the last known configuration of a camera is used");
                self.documents.insert(camera, document);
            }
        }
    }

    fn hear_settings(&mut self, result: Result<Box<Settings>, String>) {
        let new = match result {
            Ok(new) => *new,
            Err(said) => {
                if self.refused.as_ref() != Some(&said) {
                    tracing::error!(
                        event = "configuration_refused",
                        "the configuration {} cannot be used: {said}; the one before stays in force",
                        self.path.display()
                    );
                    self.refused = Some(said);
                }
                return;
            }
        };
        self.refused = None;
        let fixed = self.settings.fixed_changes(&new);
        if !fixed.is_empty() {
            tracing::warn!(
                fields = fixed.join(", "),
                "changed in the configuration, and in force after a restart only"
            );
        }
        let now = self.settings.reloaded(new);
        if now == self.settings {
            return;
        }
        match Plane::of(&now) {
            Ok(plane) => {
                if now.control_plane_url != self.settings.control_plane_url {
                    // Another one may know nothing of this runner.
                    (self.registered, self.due.register) = (false, clock::now());
                }
                self.plane = plane;
                self.settings = now;
                self.sites.values_mut().for_each(|site| site.version = None);
                tracing::info!(
                    event = "configuration_changed",
                    "the configuration has changed and is in force"
                );
            }
            Err(failure) => {
                tracing::error!(%failure, "the configuration cannot be used; the one before stays in force")
            }
        }
    }

    /// Somebody was granted a camera.
    fn hear_seen(&mut self, camera: &str, tenant: &str, token: u64) {
        let held = self
            .held
            .values_mut()
            .find(|held| held.lease.camera_uuid == camera && held.lease.tenant_id == tenant);
        if let Some(held) = held.filter(|held| token > held.lease.fencing_token) {
            tracing::warn!(
                event = "surpassed",
                camera_uuid = camera,
                fencing_token = token,
                "somebody has this camera under a higher token"
            );
            held.surpassed = true;
        }
    }

    fn hear_asked(&mut self, ask: Ask, now: Moment) {
        if self.mode == Mode::Ending {
            return;
        }
        tracing::info!(?ask, "asked");
        self.mode = match ask {
            Ask::Drain => Mode::Draining { until: now.after(self.settings.drain_timeout) },
            Ask::DrainHard => Mode::Draining { until: now },
            Ask::Undrain => Mode::Active,
            Ask::Terminate => Mode::Ending,
        };
        self.due.report = now;
        self.due.offers = now;
    }

    /// A lease is not ours any more.
    pub(super) fn forget(&mut self, lease_id: &str) {
        if let Some(held) = self.held.remove(lease_id) {
            tracing::info!(
                event = "lease_ended",
                camera_uuid = held.lease.camera_uuid,
                tenant_id = held.lease.tenant_id,
                site_id = held.lease.site_id,
                runner_id = self.settings.runner_id,
                shard_id = held.shard,
                why = held.leaving.map(|leaving| leaving.why.word()),
                "a camera is not ours any more"
            );
        }
    }
}
