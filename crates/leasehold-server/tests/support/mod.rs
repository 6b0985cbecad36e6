//! A control plane on a loopback port, and a client for it.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leasehold::store::{self, Store, StoreUrl};
use leasehold_server::{Running, Settings};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A control plane on a store.
pub(crate) struct Plane {
    pub(crate) running: Option<Running>,
    pub(crate) client: Client,
    pub(crate) store: Arc<dyn Store>,
}

/// A file for a store, in a directory that goes with it.
pub(crate) struct File(TempDir);

impl File {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("work.db")
    }

    pub(crate) fn url(&self) -> StoreUrl {
        StoreUrl::Sqlite(self.path())
    }
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answered {
    pub(crate) async fn of(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Self { status, headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl Plane {
    pub(crate) async fn on(url: &StoreUrl) -> Self {
        Self::serving(store::open(url).await.unwrap()).await
    }

    pub(crate) async fn serving(store: Arc<dyn Store>) -> Self {
        let settings = Settings::at("127.0.0.1:0".parse().unwrap());
        Self::with(settings, store).await
    }

    pub(crate) async fn with(settings: Settings, store: Arc<dyn Store>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let running = leasehold_server::start(settings, Arc::clone(&store)).await.unwrap();
        // The client can speak TLS, and wants to know by whose cryptography, even where it does not.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { running: Some(running), client: Client::new(), store }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.as_ref().unwrap().address())
    }

    /// Sends a request with this text as its body, as `curl -d` would.
    pub(crate) async fn send(&self, method: Method, path: &str, body: impl Into<String>) -> Answered {
        let request = self.client.request(method, self.url(path)).body(body.into());
        Answered::of(request.send().await.unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answered {
        self.send(Method::GET, path, "").await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answered {
        self.send(Method::PUT, path, body.to_string()).await
    }

    /// Makes scenes `scene-0`, `scene-1`, ….
    pub(crate) async fn scenes(&self, count: usize) {
        for number in 0..count {
            let made = self.put(&format!("/api/v1/scenes/scene-{number}"), &json!({})).await;
            assert_eq!(made.status, 201, "{made:?}");
        }
    }

    pub(crate) async fn acquire(&self, scene: &str, body: &Value) -> Answered {
        self.send(Method::POST, &format!("/api/v1/scenes/{scene}/lease"), body.to_string()).await
    }

    pub(crate) async fn renew(&self, scene: &str, body: &Value) -> Answered {
        self.send(Method::POST, &format!("/api/v1/scenes/{scene}/lease/renew"), body.to_string()).await
    }

    pub(crate) async fn release(&self, scene: &str, body: &Value) -> Answered {
        self.send(Method::DELETE, &format!("/api/v1/scenes/{scene}/lease"), body.to_string()).await
    }

    pub(crate) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }
}

pub(crate) fn holder(name: &str) -> Value {
    json!({"holder_id": name})
}

/// A holder with the shortest TTL there is.
pub(crate) fn brief(name: &str) -> Value {
    json!({"holder_id": name, "ttl_ms": 1000})
}

/// Waits until something holds, for a long while.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("waited a minute in vain: {what}");
}
