//! Asks a worker over HTTP how it is, for those that do not say so by themselves.

use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

/// How often a worker is asked at least.
pub(super) const EVERY_MAX: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long an answer may be.
const ANSWER_MAX: usize = 64 * 1024;

/// What a worker answers at `/healthz`: nothing if it does not, else the generation that it says it follows.
pub(super) async fn health(port: u16) -> Option<Option<u64>> {
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
    Some(serde_json::from_slice::<Value>(&body).ok().and_then(|value| value["applied"].as_u64()))
}
