//! Logging in, for browsers: what the cookie opens, and what ends it.

use std::time::Duration;

use leasehold_server::keys::{self, Role};
use leasehold_server::{Running, start};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::stage::{Key, PATIENCE, Stage};

const SESSION: &str = "/api/v1/auth/session";
const POOLS: &str = "/api/v1/pools";
const ACT: &str = "/api/v1/pools/jobs/act";

/// What a browser has after it logged in.
struct Browser {
    cookie: String,
    csrf: String,
}

async fn log_in(stage: &Stage, at: &Running, key: &Key) -> Browser {
    let answer = stage.ask(at, "POST", SESSION, None, &json!({"key": key.text}).to_string()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let set = answer.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(set.contains("; HttpOnly; SameSite=Strict") && set.contains("Path=/;"), "{set}");
    assert!(!set.contains(&key.text), "the key itself stays out of the browser");
    let csrf = answer.body["csrf"].as_str().unwrap().to_owned();
    Browser { cookie: set.split(';').next().unwrap().to_owned(), csrf }
}

impl Browser {
    async fn ask(
        &self,
        stage: &Stage,
        at: &Running,
        what: (&str, &str),
        more: &[(&str, &str)],
        body: Value,
    ) -> u16 {
        let url = format!("http://{}{}", at.address(), what.1);
        let request = stage.client.request(what.0.parse().unwrap(), url).header("cookie", &self.cookie);
        let request = more.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = if body.is_null() { request } else { request.body(body.to_string()) };
        request.send().await.unwrap().status().as_u16()
    }

    async fn looks(&self, stage: &Stage, at: &Running) -> u16 {
        self.ask(stage, at, ("GET", POOLS), &[], Value::Null).await
    }

    /// Asks until the answer is the one that is expected.
    async fn until(&self, stage: &Stage, at: &Running, status: u16) {
        let waiting = async {
            while self.looks(stage, at).await != status {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the answer changes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_is_good_on_every_replica_and_is_no_key() {
    let stage = Stage::new();
    let (one, two) = (stage.closed().await, stage.server().await);
    let key = stage.key(Role::Operator, None, None).await;
    let browser = log_in(&stage, &one, &key).await;
    for server in [&one, &two] {
        assert_eq!(browser.looks(&stage, server).await, 200);
    }
    let secret = browser.cookie.split_once('=').unwrap().1.to_owned();
    let as_key = Key { id: String::new(), text: secret };
    assert_eq!(stage.ask(&one, "GET", POOLS, Some(&as_key), "").await.status, StatusCode::UNAUTHORIZED);
    let key_as_cookie = Browser { cookie: format!("leasehold_session={}", key.text), csrf: String::new() };
    assert_eq!(key_as_cookie.looks(&stage, &one).await, 401);
    let listed = keys::list(&*stage.store().await).await.unwrap();
    assert_eq!(listed.len(), 2, "log-ins are no keys: {listed:?}");
    // Out is out, everywhere.
    let csrf = [("x-leasehold-csrf", browser.csrf.as_str())];
    assert_eq!(browser.ask(&stage, &two, ("DELETE", SESSION), &csrf, Value::Null).await, 204);
    for server in [&two, &one] {
        browser.until(&stage, server, 401).await;
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_something_needs_more_than_the_cookie() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let key = stage.key(Role::Operator, None, None).await;
    let browser = log_in(&stage, &server, &key).await;
    let act = || json!({"act": "drain", "member": "a"});
    let (csrf, here) = (browser.csrf.as_str(), format!("http://{}", server.address()));
    let refused: [&[(&str, &str)]; 5] = [
        &[],
        &[("x-leasehold-csrf", "")],
        &[("x-leasehold-csrf", "00000000000000000000000000000000")],
        &[("x-leasehold-csrf", csrf), ("origin", "http://evil.example")],
        &[("x-leasehold-csrf", csrf), ("sec-fetch-site", "cross-site")],
    ];
    for more in refused {
        assert_eq!(browser.ask(&stage, &server, ("POST", ACT), more, act()).await, 403, "{more:?}");
    }
    let good = [("x-leasehold-csrf", csrf), ("origin", here.as_str()), ("sec-fetch-site", "same-origin")];
    assert_eq!(browser.ask(&stage, &server, ("POST", ACT), &good, act()).await, 200);
    // Another site's page cannot log a browser in either.
    let url = format!("http://{}{SESSION}", server.address());
    let foreign = stage.client.post(url).header("origin", "http://evil.example");
    let foreign = foreign.body(json!({"key": key.text}).to_string()).send().await.unwrap();
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_ends_with_its_time_and_with_its_key() {
    let stage = Stage::new();
    let mut settings = Stage::settings();
    settings.limits.session = Duration::from_secs(2);
    let key = stage.key(Role::Read, None, None).await;
    let short = start(settings, stage.store().await).await.unwrap();
    let browser = log_in(&stage, &short, &key).await;
    browser.until(&stage, &short, 401).await;
    let server = stage.server().await;
    let browser = log_in(&stage, &server, &key).await;
    keys::revoke(&*stage.store().await, &key.id).await.unwrap();
    browser.until(&stage, &server, 401).await;
    short.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_a_bounded_number_of_log_ins() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let key = stage.key(Role::Read, None, None).await;
    let first = log_in(&stage, &server, &key).await;
    assert_eq!(first.looks(&stage, &server).await, 200);
    for _ in 0..16 {
        log_in(&stage, &server, &key).await;
    }
    first.until(&stage, &server, 401).await;
    server.stop().await;
}
