//! What a runner asks and says.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::call::{ClientError, Line};
use crate::words::{
    CameraConfig, Lease, Offer, RunnerConfig, RunnerInfo, RunnerReport, SiteVersion, ZoneConfig,
};

/// How long a call may take with everything that is tried again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// A control plane, as a runner sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ControlPlaneClient {
    pub(crate) line: Line,
    pub(crate) patience: Duration,
}

impl ControlPlaneClient {
    /// The control plane at this address, asked with this key. Nothing is sent yet.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn new(base_url: &str, api_key: Option<&str>) -> Result<Self, ClientError> {
        Ok(Self { line: Line::to(base_url, api_key)?, patience: PATIENCE })
    }

    /// The same with another deadline for each call, everything that is tried again included; two seconds unless it is said.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Registers this runner. Repeated with the same configuration it is the same incarnation, and keeps its leases.
    ///
    /// # Errors
    /// It is refused, or nobody knows.
    pub async fn register_runner(&self, runner: &RunnerConfig) -> Result<RunnerInfo, ClientError> {
        let body = serde_json::to_value(runner).unwrap_or_default();
        let url = self.line.at(&["runners", "register"], &[]);
        Ok(self.line.ask(Method::POST, url, Some(&body), self.patience).await?.value)
    }

    /// A camera's configuration.
    ///
    /// # Errors
    /// There is none, or nobody knows.
    pub async fn get_camera_config(&self, camera_uuid: &str) -> Result<CameraConfig, ClientError> {
        let url = self.line.at(&["cameras", camera_uuid], &[]);
        Ok(self.line.ask(Method::GET, url, None, self.patience).await?.value)
    }

    /// The zones of a site.
    ///
    /// # Errors
    /// It is refused, or nobody knows.
    pub async fn get_zone_configs(
        &self,
        tenant_id: &str,
        site_id: &str,
    ) -> Result<Vec<ZoneConfig>, ClientError> {
        let url = self.line.at(&["tenants", tenant_id, "sites", site_id, "zones"], &[]);
        Ok(self.line.ask(Method::GET, url, None, self.patience).await?.value)
    }

    /// All that the control plane says of a camera, as it says it. It may hold a password.
    ///
    /// # Errors
    /// There is none, or nobody knows.
    pub async fn camera_document(&self, tenant_id: &str, camera_uuid: &str) -> Result<Value, ClientError> {
        let url = self.line.at(&["cameras", camera_uuid], &[("tenant_id", tenant_id)]);
        Ok(self.line.ask(Method::GET, url, None, self.patience).await?.value)
    }

    /// The zones of a site, as the control plane says it.
    ///
    /// # Errors
    /// It is refused, or nobody knows.
    pub async fn site_zones(&self, tenant_id: &str, site_id: &str) -> Result<Value, ClientError> {
        let url = self.line.at(&["tenants", tenant_id, "sites", site_id, "zones"], &[]);
        Ok(self.line.ask(Method::GET, url, None, self.patience).await?.value)
    }

    /// The versions of a site: what has changed in it changes them.
    ///
    /// # Errors
    /// It is refused, or nobody knows.
    pub async fn site_version(&self, tenant_id: &str, site_id: &str) -> Result<SiteVersion, ClientError> {
        let url = self.line.at(&["tenants", tenant_id, "sites", site_id, "config", "version"], &[]);
        Ok(self.line.ask(Method::GET, url, None, self.patience).await?.value)
    }

    /// The cameras that this runner should take, those as well that others should hand over to it.
    ///
    /// # Errors
    /// It is not registered, or nobody knows.
    pub async fn offers(&self, tenant_id: &str, runner_id: &str) -> Result<Vec<Offer>, ClientError> {
        let query = [("tenant_id", tenant_id), ("runner_id", runner_id), ("reservable", "true")];
        let url = self.line.at(&["cameras", "available"], &query);
        Ok(self.line.ask(Method::GET, url, None, self.patience).await?.value)
    }

    /// The cameras that this runner should take, by id.
    ///
    /// # Errors
    /// It is not registered, or nobody knows.
    pub async fn available_cameras(&self, runner_id: &str) -> Result<Vec<String>, ClientError> {
        let url = self.line.at(&["cameras", "available"], &[("runner_id", runner_id)]);
        let cameras: Vec<Value> = self.line.ask(Method::GET, url, None, self.patience).await?.value;
        let id = |camera: &Value| camera.get("camera_uuid")?.as_str().map(str::to_owned);
        Ok(cameras.iter().filter_map(id).collect())
    }

    /// Says that a runner is alive, and how it is.
    ///
    /// # Errors
    /// With status 404 it is to register again; or nobody knows.
    pub async fn report_runner_status(
        &self,
        runner_id: &str,
        report: &RunnerReport,
    ) -> Result<RunnerInfo, ClientError> {
        let body = serde_json::to_value(report).unwrap_or_default();
        let url = self.line.at(&["runners", runner_id, "heartbeat"], &[]);
        Ok(self.line.ask(Method::PUT, url, Some(&body), self.patience).await?.value)
    }

    /// Says that work under a lease has begun. That it was granted the control plane has told everybody already.
    ///
    /// # Errors
    /// The lease is over, or nobody knows.
    pub async fn notify_camera_assigned(&self, lease: &Lease) -> Result<(), ClientError> {
        let url = self.line.at(&["leases", &lease.lease_id, "heartbeat"], &[]);
        let body = json!({"processing_stats": {"assigned": true}});
        self.line.ask::<Value>(Method::POST, url, Some(&body), self.patience).await.map(|_| ())
    }

    /// Says that work under a lease has ended: it is released, if it was not yet.
    ///
    /// # Errors
    /// It is another's, or nobody knows.
    pub async fn notify_camera_released(&self, lease: &Lease) -> Result<(), ClientError> {
        let url = self.line.at(&["leases", &lease.lease_id, "release"], &[]);
        self.line.ask::<Value>(Method::DELETE, url, None, self.patience).await.map(|_| ())
    }
}
