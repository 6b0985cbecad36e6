//! What a manager is told: a TOML file in the words of document 004, with the environment on top.
//!
//! Invariant: a secret is in no error and no log. What is wrong is told by the name of its field.

mod fields;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_manager::shards::file::Reload;
use leasehold_manager::shards::grace::OutagePolicy;

use self::fields::Fields;

/// The most bytes a configuration may have.
const FILE_MAX: u64 = 1 << 20;
/// The most workers of one manager.
const WORKERS_MAX: u64 = 256;
/// The most cameras of one worker.
const CAMERAS_MAX: u64 = 4096;
/// The longest that anything is set to take, in seconds.
const LONG: u64 = 3600;

/// What is not shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Where lease events come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Events {
    pub(crate) url: Secret,
    pub(crate) exchange: String,
}

/// What a manager is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) control_plane_url: String,
    pub(crate) api_key: Option<Secret>,
    pub(crate) runner_id: String,
    pub(crate) tenant_id: String,
    pub(crate) site_id: String,
    pub(crate) deployment_group: String,
    pub(crate) deployment_version: String,
    pub(crate) capabilities: Vec<String>,
    pub(crate) manager_mode: bool,
    pub(crate) max_workers: usize,
    pub(crate) max_cameras_per_worker: usize,
    pub(crate) lease_ttl: Duration,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) lease_retry_interval: Duration,
    pub(crate) config_sync_interval: Duration,
    pub(crate) outage_policy: OutagePolicy,
    pub(crate) events: Option<Events>,
    pub(crate) worker_command: Vec<String>,
    pub(crate) worker_http_port: u16,
    pub(crate) worker_metrics_port: u16,
    pub(crate) worker_reload: Reload,
    pub(crate) worker_heartbeat: Duration,
    pub(crate) worker_heartbeat_timeout: Duration,
    pub(crate) worker_start_grace: Duration,
    pub(crate) worker_stop_grace: Duration,
    pub(crate) worker_hung_grace: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) config_dir: PathBuf,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) listen_key_file: Option<PathBuf>,
    /// Given, and of no use here: only the control plane touches the database.
    pub(crate) has_database_url: bool,
}

impl Settings {
    /// Reads a file as it is now.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let hint = |error: std::io::Error| format!("{error}; check the path given with --config");
        let size = std::fs::metadata(path).map_err(hint)?.len();
        if size > FILE_MAX {
            return Err(format!("it has {size} bytes; at most {FILE_MAX} are allowed"));
        }
        let text = std::fs::read_to_string(path).map_err(hint)?;
        Self::of(&text, &|name| std::env::var(name).ok())
    }

    /// What a text says, with the environment on top.
    fn of(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut fields = Fields::parse(text, environment)?;
        let settings = Self::taken(&mut fields)?;
        fields.finish()?;
        settings.check()?;
        Ok(settings)
    }

    fn taken(fields: &mut Fields<'_>) -> Result<Self, String> {
        let seconds = Duration::from_secs;
        let outage_grace = fields.number("outage_grace_seconds", 300, 1..=86_400)?;
        let outage_policy = match fields.word("outage_policy", "strict", &["strict", "degraded"])?.as_str() {
            "degraded" => OutagePolicy::Degraded(seconds(outage_grace)),
            _ => OutagePolicy::Strict,
        };
        let exchange = fields.text("events_exchange")?.unwrap_or_else(|| "status.topic".to_owned());
        let events = fields.secret("events_url")?.map(|url| Events { url, exchange });
        let worker_reload = match fields.word("worker_reload", "signal", &["signal", "watch"])?.as_str() {
            "watch" => Reload::Watch,
            _ => Reload::Signal,
        };
        let document_command = ["python", "-m", "somba_pipeline.worker"].map(str::to_owned).to_vec();
        Ok(Self {
            control_plane_url: fields.required("control_plane_url")?,
            api_key: fields.secret("api_key")?,
            runner_id: fields.required("runner_id")?,
            tenant_id: fields.text("tenant_id")?.unwrap_or_else(|| "default".to_owned()),
            site_id: fields.text("site_id")?.unwrap_or_else(|| "*".to_owned()),
            deployment_group: fields.required("deployment_group")?,
            deployment_version: fields.required("deployment_version")?,
            capabilities: fields.list("capabilities")?.unwrap_or_default(),
            manager_mode: fields.flag("manager_mode", true)?,
            max_workers: fields.count("max_workers", 4, 1..=WORKERS_MAX)?,
            max_cameras_per_worker: fields.count("max_cameras_per_worker", 16, 1..=CAMERAS_MAX)?,
            lease_ttl: seconds(fields.number("lease_ttl_seconds", 60, 3..=LONG)?),
            heartbeat_interval: seconds(fields.number("heartbeat_interval_seconds", 30, 1..=LONG / 3)?),
            lease_retry_interval: seconds(fields.number("lease_retry_interval_seconds", 10, 1..=LONG)?),
            config_sync_interval: seconds(fields.number("config_sync_interval_seconds", 1, 1..=LONG)?),
            outage_policy,
            events,
            worker_command: fields.list("worker_command")?.unwrap_or(document_command),
            worker_http_port: fields.port("worker_http_port", 8080)?,
            worker_metrics_port: fields.port("worker_metrics_port", 9108)?,
            worker_reload,
            worker_heartbeat: seconds(fields.number("worker_heartbeat_seconds", 5, 1..=LONG)?),
            worker_heartbeat_timeout: seconds(fields.number(
                "worker_heartbeat_timeout_seconds",
                60,
                1..=LONG,
            )?),
            worker_start_grace: seconds(fields.number("worker_start_grace_seconds", 30, 1..=LONG)?),
            worker_stop_grace: seconds(fields.number("worker_stop_grace_seconds", 30, 0..=LONG)?),
            worker_hung_grace: seconds(fields.number("worker_hung_grace_seconds", 5, 0..=LONG)?),
            drain_timeout: seconds(fields.number("drain_timeout_seconds", 300, 0..=86_400)?),
            config_dir: fields
                .text("config_dir")?
                .unwrap_or_else(|| "/var/lib/leasehold-manager".into())
                .into(),
            listen: fields.address("listen", "127.0.0.1:8070")?,
            listen_key_file: fields.text("listen_key_file")?.map(PathBuf::from),
            has_database_url: fields.secret("database_url")?.is_some(),
        })
    }

    /// What goes together only in certain ways.
    fn check(&self) -> Result<(), String> {
        let url = self.control_plane_url.parse::<url::Url>();
        if !url.is_ok_and(|url| ["http", "https"].contains(&url.scheme()) && url.has_host()) {
            return Err("`control_plane_url` is no address; write it as in https://plane.example.org".into());
        }
        let is_broker = |events: &Events| events.url.0.parse::<lapin::uri::AMQPUri>().is_ok();
        if !self.events.as_ref().is_none_or(is_broker) {
            return Err(
                "`events_url` is no address of RabbitMQ; write it as in amqps://user:${PASSWORD}@broker/%2f"
                    .into(),
            );
        }
        if let OutagePolicy::Degraded(grace) = self.outage_policy {
            if self.events.is_none() {
                return Err(
                    "`outage_policy = \"degraded\"` needs `events_url`, the RabbitMQ server that lease events are sent to: \
                     without it nobody would notice that another has the camera; give it, or use \"strict\""
                        .into(),
                );
            }
            if grace <= self.lease_ttl {
                return Err(format!(
                    "`outage_grace_seconds` is {} and no longer than `lease_ttl_seconds`; give more, or use \
                     `outage_policy = \"strict\"`",
                    grace.as_secs()
                ));
            }
        }
        if self.worker_heartbeat_timeout <= self.worker_heartbeat {
            return Err("`worker_heartbeat_timeout_seconds` must be more than `worker_heartbeat_seconds`, or every worker \
                        is taken for hung"
                .into());
        }
        let last = u32::try_from(self.shards()).unwrap_or(u32::MAX) - 1;
        for (name, base) in
            [("worker_http_port", self.worker_http_port), ("worker_metrics_port", self.worker_metrics_port)]
        {
            if u32::from(base) + last > u32::from(u16::MAX) {
                return Err(format!(
                    "`{name}` is {base}, and there are not {} ports from there on",
                    last + 1
                ));
            }
        }
        if self.worker_command.is_empty() {
            return Err("`worker_command` is empty; give the program to run and its arguments".into());
        }
        Ok(())
    }

    /// How many workers there are.
    pub(crate) fn shards(&self) -> usize {
        if self.manager_mode { self.max_workers } else { 1 }
    }

    /// How many cameras this runner takes.
    pub(crate) fn capacity(&self) -> usize {
        self.shards() * self.max_cameras_per_worker
    }

    /// The names of what differs from `new` and takes a restart.
    pub(crate) fn fixed_changes(&self, new: &Self) -> Vec<&'static str> {
        let differs = [
            ("runner_id", self.runner_id != new.runner_id),
            ("tenant_id", self.tenant_id != new.tenant_id),
            ("site_id", self.site_id != new.site_id),
            ("deployment_group", self.deployment_group != new.deployment_group),
            ("deployment_version", self.deployment_version != new.deployment_version),
            ("capabilities", self.capabilities != new.capabilities),
            ("manager_mode", self.manager_mode != new.manager_mode),
            ("max_workers", self.max_workers != new.max_workers),
            ("max_cameras_per_worker", self.max_cameras_per_worker != new.max_cameras_per_worker),
            ("events_url", self.events != new.events),
            ("worker_command", self.worker_command != new.worker_command),
            ("worker_http_port", self.worker_http_port != new.worker_http_port),
            ("worker_metrics_port", self.worker_metrics_port != new.worker_metrics_port),
            ("config_dir", self.config_dir != new.config_dir),
            ("listen", self.listen != new.listen || self.listen_key_file != new.listen_key_file),
        ];
        differs.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }

    /// This, with what of `new` can be changed while it runs.
    pub(crate) fn reloaded(&self, new: Self) -> Self {
        Self {
            control_plane_url: new.control_plane_url,
            api_key: new.api_key,
            lease_ttl: new.lease_ttl,
            heartbeat_interval: new.heartbeat_interval,
            lease_retry_interval: new.lease_retry_interval,
            config_sync_interval: new.config_sync_interval,
            outage_policy: match (new.outage_policy, &self.events) {
                // Without events nobody would notice that another has the camera.
                (OutagePolicy::Degraded(_), None) => self.outage_policy,
                (policy, _) => policy,
            },
            worker_reload: new.worker_reload,
            worker_heartbeat: new.worker_heartbeat,
            worker_heartbeat_timeout: new.worker_heartbeat_timeout,
            worker_start_grace: new.worker_start_grace,
            worker_stop_grace: new.worker_stop_grace,
            worker_hung_grace: new.worker_hung_grace,
            drain_timeout: new.drain_timeout,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests;
