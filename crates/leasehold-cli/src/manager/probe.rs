//! Asks a worker over HTTP how it is, for those that do not say so by themselves.

use std::sync::OnceLock;
use std::time::Duration;

use leasehold_manager::Running;
use serde_json::Value;

/// How often a worker is asked at least.
pub(super) const EVERY_MAX: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long an answer may be.
const ANSWER_MAX: usize = 64 * 1024;

/// Asks whoever has a worker's port: nothing if the worker does not answer, else the generation that it says it follows.
///
/// A port may be somebody else's, who must not speak for the worker, least of all of cameras let go. So the answer has to name
/// a process of the worker's; one that names none is a sign of life, and no more.
pub(super) async fn health(worker: &Running, port: u16) -> Option<Option<u64>> {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    let client = CLIENT.get_or_init(|| {
        let client = reqwest::Client::builder().timeout(PATIENCE).no_proxy();
        client.redirect(reqwest::redirect::Policy::none()).build().unwrap_or_default()
    });
    let mut answer = client.get(format!("http://127.0.0.1:{port}/healthz")).send().await.ok()?;
    if answer.status() != reqwest::StatusCode::OK {
        return None;
    }
    let mut body = Vec::new();
    while let Ok(Some(piece)) = answer.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() > ANSWER_MAX {
            return Some(None);
        }
    }
    let Ok(said) = serde_json::from_slice::<Value>(&body) else { return Some(None) };
    match &said["pid"] {
        Value::Null => Some(None),
        pid => {
            let speaks = pid.as_u64().and_then(|pid| u32::try_from(pid).ok())?;
            worker.has(speaks).then(|| said["applied"].as_u64())
        }
    }
}
