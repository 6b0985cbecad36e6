//! What is sent and answered, in the words of document 004. Fields that are not named here are left alone.

use leasehold::MemberId;
use leasehold::clock::Moment;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LeaseStatus {
    /// Its holder may work.
    Active,
    /// It was not renewed in time.
    Expired,
    /// Its holder let go.
    Released,
    /// It was taken back.
    Revoked,
    /// A reservation: nobody may work by it yet.
    Pending,
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Lease {
    /// Names it.
    pub lease_id: String,
    /// What it is of.
    pub camera_uuid: String,
    /// Who holds it.
    pub runner_id: String,
    /// Which part of that.
    pub shard_id: String,
    /// Whose camera.
    pub tenant_id: String,
    /// At which site.
    pub site_id: String,
    /// When it was granted.
    pub acquired_at: String,
    /// When it must have been renewed, for people: what counts is [`Lease::trusted_until`].
    pub expires_at: String,
    /// When it was last renewed.
    pub renewed_at: Option<String>,
    /// How it stands.
    pub status: LeaseStatus,
    /// When its holder last said how its work goes.
    pub last_heartbeat: String,
    /// What it said.
    pub processing_stats: Map<String, Value>,
    /// The configuration that its holder had.
    pub config_version: String,
    /// The zones that it had.
    pub zone_version: String,
    /// Goes with everything that is written under the lease.
    pub fencing_token: u64,
    /// How long it lasts.
    pub ttl_seconds: u64,
    /// Whether another runner waits for the camera.
    #[serde(default)]
    pub release_requested: bool,
    /// Until when its holder may work without another confirmed renewal, on this machine's clock. Nothing for a lease that is
    /// not active, or was only looked at.
    #[serde(skip)]
    pub trusted_until: Option<Moment>,
}

/// A runner, as it registers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunnerConfig {
    /// Its name, the same after a restart.
    pub runner_id: String,
    /// Whose cameras it works for.
    pub tenant_id: String,
    /// At which site; `*` for all.
    pub site_id: String,
    /// What is deployed together.
    pub deployment_group: String,
    /// Which version of that.
    pub deployment_version: String,
    /// Where it runs.
    pub host: String,
    /// Where it answers.
    pub port: u16,
    /// How many cameras it takes.
    pub capacity: u32,
    /// Where its figures are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_port: Option<u16>,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// After how long without a report it is not counted on any more; 90 seconds unless it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// Which of its lives this is: made once for each start, so that a registration can be repeated.
    pub incarnation: String,
}

impl RunnerConfig {
    /// A runner with 16 places on this host, in the group `default`.
    #[must_use]
    pub fn new(runner_id: &str, tenant_id: &str, site_id: &str) -> Self {
        Self {
            runner_id: runner_id.to_owned(),
            tenant_id: tenant_id.to_owned(),
            site_id: site_id.to_owned(),
            deployment_group: "default".to_owned(),
            deployment_version: String::new(),
            host: leasehold::lease::host_name(),
            port: 0,
            capacity: 16,
            metrics_port: None,
            capabilities: Vec::new(),
            ttl_seconds: None,
            incarnation: MemberId::generate().to_string(),
        }
    }
}

/// What a runner is up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RunnerStatus {
    /// It works, and takes cameras.
    Active,
    /// It does not work.
    Inactive,
    /// It hands over what it has, and takes nothing.
    Draining,
    /// It keeps what it has, and takes nothing new.
    Maintenance,
}

/// What a runner says of itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RunnerReport {
    /// What it is up to, if that changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RunnerStatus>,
    /// How many cameras it takes, if that changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Anything it wants to be known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Map<String, Value>>,
}

/// A runner, as the control plane knows it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct RunnerInfo {
    /// Its name.
    pub runner_id: String,
    /// When this incarnation registered.
    pub registered_at: String,
    /// What it is up to.
    pub status: RunnerStatus,
    /// How many cameras it has.
    pub current_load: u64,
    /// Which ones.
    pub assigned_cameras: Vec<String>,
    /// Which of its lives this is.
    pub incarnation: String,
}

/// A zone.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct ZoneConfig {
    /// Names it: a number or a word.
    pub zone_id: Value,
    /// What people call it.
    pub name: String,
    /// `include` or `exclude`.
    pub kind: String,
    /// Of zones that overlap, the one with the higher number counts.
    pub priority: i32,
    /// Its corners.
    pub polygon: Vec<[f64; 2]>,
    /// What is looked for in it.
    #[serde(default)]
    pub allow_labels: Vec<String>,
    /// How certain a detection must be.
    pub min_score: Option<f64>,
}

/// A camera's configuration.
#[derive(Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct CameraConfig {
    /// Its id.
    pub camera_uuid: String,
    /// Where its pictures come from. It may hold a password: it is not printed with the rest.
    pub rtsp_url: String,
    /// Whose camera.
    pub tenant_id: String,
    /// At which site.
    pub site_id: String,
    /// Its zones.
    pub zones: Vec<ZoneConfig>,
    /// What keeps a picture in which nothing moves from being looked at.
    pub motion_gating: Map<String, Value>,
    /// What is looked for.
    pub allow_labels: Vec<String>,
    /// How certain a detection must be.
    pub min_score: f64,
    /// Which part of a detection must lie in a zone.
    pub zone_test: String,
    /// How much of it.
    pub iou_threshold: f64,
    /// SHA-256 of all of it.
    pub config_version: String,
    /// SHA-256 of the zones.
    pub zone_version: String,
}

impl std::fmt::Debug for CameraConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CameraConfig")
            .field("camera_uuid", &self.camera_uuid)
            .field("site_id", &self.site_id)
            .field("config_version", &self.config_version)
            .finish_non_exhaustive()
    }
}

/// A camera that a runner should take.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Offer {
    /// Which camera.
    pub camera_uuid: String,
    /// Whether another runner has it that should hand it over: it is acquired with `reserve`.
    #[serde(default)]
    pub reserve: bool,
}

/// What a runner asks for when it wants a camera.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Wanted {
    /// Which camera.
    pub camera_uuid: String,
    /// Who wants it.
    pub runner_id: String,
    /// Which part of that.
    pub shard_id: String,
    /// Whose camera, where that is not clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// The configuration that the runner has, to be recorded.
    pub config_version: String,
    /// The zones that it has.
    pub zone_version: String,
    /// Whether it is to be reserved if another runner should hand it over. A lease that is `pending` is no leave to work.
    pub reserve: bool,
}

/// The versions of a site.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct SiteVersion {
    /// Of everything.
    pub config_version: String,
    /// Of all zones.
    pub zone_version: String,
}

/// What happened to a lease.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct LeaseEvent {
    /// `lease_acquired`, `lease_renewed`, `lease_expired`, `lease_revoked`, `lease_released`, `lease_stolen`.
    pub event_type: String,
    /// To which lease.
    pub lease_id: String,
    /// Of which camera.
    pub camera_uuid: String,
    /// Who held it.
    pub runner_id: String,
    /// Which part of that.
    pub shard_id: String,
    /// When.
    pub timestamp: String,
    /// More about it.
    #[serde(default)]
    pub details: Map<String, Value>,
}
