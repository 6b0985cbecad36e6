//! What the tests share: a database, servers on it, keys, and a client.

use std::net::SocketAddr;
use std::sync::{Arc, Once};
use std::time::Duration;

use leasehold::clock;
use leasehold::store::{self, Store, StoreUrl};
use leasehold_server::keys::{self, NewKey, Role};
use leasehold_server::{Running, Settings, start};
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;
use tempfile::TempDir;

/// How long a condition may take to come about on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// A database, and a client.
pub(crate) struct Stage {
    pub(crate) place: TempDir,
    pub(crate) client: Client,
}

/// A key with its id.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) text: String,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

/// One provider of cryptography for the process.
pub(crate) fn crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

impl Stage {
    pub(crate) fn new() -> Self {
        crypto();
        Self { place: tempfile::tempdir().unwrap(), client: Client::builder().build().unwrap() }
    }

    /// A handle on the database of its own, as another process has it.
    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        store::open(&StoreUrl::Sqlite(self.place.path().join("leases.db"))).await.unwrap()
    }

    pub(crate) fn settings() -> Settings {
        Settings::at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// A server on a database with a key: it asks for one from the start.
    pub(crate) async fn closed(&self) -> Running {
        self.key(Role::Read, None, None).await;
        self.server().await
    }

    /// A server on the database as it is.
    pub(crate) async fn server(&self) -> Running {
        start(Self::settings(), self.store().await).await.unwrap()
    }

    /// Makes a key as the command line does.
    pub(crate) async fn key(&self, role: Role, tenant: Option<&str>, pools: Option<&[&str]>) -> Key {
        self.lasting(role, tenant, pools, None).await
    }

    pub(crate) async fn lasting(
        &self,
        role: Role,
        tenant: Option<&str>,
        pools: Option<&[&str]>,
        lasts: Option<Duration>,
    ) -> Key {
        let pools = pools.map(|pools| pools.iter().map(|&pool| pool.to_owned()).collect());
        let new = NewKey { name: String::new(), role, pools, tenant: tenant.map(str::to_owned), lasts };
        let (info, secret) = keys::create(&*self.store().await, &new).await.unwrap();
        Key { id: info.id, text: secret.expose().to_owned() }
    }

    pub(crate) async fn ask(
        &self,
        at: &Running,
        method: &str,
        path: &str,
        key: Option<&Key>,
        body: &str,
    ) -> Answer {
        let key = key.map(|key| format!("Bearer {}", key.text));
        self.ask_as(at, method, path, key.as_deref(), body).await
    }

    /// The same with the whole value of the header.
    pub(crate) async fn ask_as(
        &self,
        at: &Running,
        method: &str,
        path: &str,
        header: Option<&str>,
        body: &str,
    ) -> Answer {
        let url = format!("http://{}{path}", at.address());
        let mut request = self.client.request(Method::from_bytes(method.as_bytes()).unwrap(), url);
        if let Some(header) = header {
            request = request.header("authorization", header);
        }
        if !body.is_empty() {
            request = request.body(body.to_owned());
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let streams = headers.get("content-type").is_some_and(|content| content == "text/event-stream");
        let text = if streams { String::new() } else { response.text().await.unwrap() };
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status, headers, body }
    }

    /// Asks again and again until the answer is the one that is expected; says how long that took.
    pub(crate) async fn until(&self, at: &Running, path: &str, key: &Key, status: StatusCode) -> Duration {
        self.until_any(at, path, key, &[status]).await
    }

    /// The same for any of some answers.
    pub(crate) async fn until_any(
        &self,
        at: &Running,
        path: &str,
        key: &Key,
        any: &[StatusCode],
    ) -> Duration {
        let began = clock::now();
        loop {
            let answer = self.ask(at, "GET", path, Some(key), "").await;
            let took = clock::now().since(began);
            if any.contains(&answer.status) {
                return took;
            }
            assert!(took < PATIENCE, "{path} still answers {answer:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
