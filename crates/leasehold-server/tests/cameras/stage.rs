//! A control plane with cameras, and those who ask it.

use std::sync::Arc;

use leasehold::store::Store;
use leasehold::store::memory::MemoryStore;
use leasehold_server::keys::{self, NewKey, Role};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answered, Plane};

pub(crate) async fn plane() -> Plane {
    Plane::serving(Arc::new(MemoryStore::new())).await
}

/// The camera of section 6.1, as it is printed.
pub(crate) fn printed() -> Value {
    json!({
        "camera_uuid": "cam-001",
        "rtsp_url": "rtsp://camera.local/stream",
        "tenant_id": "tenant-1",
        "site_id": "site-1",
        "zones": [{
            "zone_id": 1, "name": "driveway", "kind": "include", "priority": 100,
            "polygon": [[100, 100], [700, 100], [700, 500], [200, 500]],
            "allow_labels": ["person", "car"], "min_score": 0.25
        }],
        "motion_gating": {"enabled": true, "downscale": 0.5, "min_area_px": 1500, "cooldown_frames": 2},
        "allow_labels": ["person", "car", "truck"],
        "min_score": 0.30, "zone_test": "center", "iou_threshold": 0.10
    })
}

/// The same, changed at one place.
pub(crate) fn with(at: &str, value: Value) -> Value {
    let mut body = printed();
    *body.pointer_mut(at).unwrap() = value;
    body
}

/// The registration of section 6.3, as it is printed.
pub(crate) fn registration(runner: &str) -> Value {
    json!({
        "runner_id": runner, "tenant_id": "tenant-1", "site_id": "site-1", "deployment_group": "production",
        "deployment_version": "v1.2.3", "host": "worker-01.example.com", "port": 8080, "capacity": 16,
        "metrics_port": 9108, "capabilities": ["rtsp", "motion_detection", "zone_filtering"]
    })
}

/// A camera without anything special.
pub(crate) fn simple(id: &str) -> Value {
    json!({"camera_uuid": id, "rtsp_url": format!("rtsp://{id}.local/stream")})
}

/// The path of a site.
pub(crate) fn site(tenant: &str, site: &str) -> String {
    format!("/api/v1/tenants/{tenant}/sites/{site}")
}

impl Plane {
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answered {
        self.send(Method::POST, path, body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answered {
        self.send(Method::DELETE, path, "").await
    }

    /// Asks with a key, and with other headers.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answered {
        let mut request = self.client.request(method, self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        Answered::of(request.body(body).send().await.unwrap()).await
    }

    /// Makes cameras at a site.
    pub(crate) async fn cameras(&self, at: &str, ids: &[&str]) {
        for id in ids {
            let made = self.post(&format!("{at}/cameras/"), &simple(id)).await;
            assert_eq!(made.status, 201, "{made:?}");
        }
    }
}

/// A key, as it is sent.
pub(crate) async fn key(store: &Arc<dyn Store>, role: Role, tenant: Option<&str>) -> String {
    let tenant = tenant.map(str::to_owned);
    let new = NewKey { name: String::new(), role, pools: None, tenant, lasts: None };
    let (_, secret) = keys::create(&**store, &new).await.unwrap();
    format!("Bearer {}", secret.expose())
}
