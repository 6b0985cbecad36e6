//! The life of keys: made, used, rotated, expired, revoked; and what is said about them.

use std::sync::Arc;
use std::time::Duration;

use leasehold::store::around::{Fault, Faulty};
use leasehold_server::keys::{self, Role};
use leasehold_server::{StartError, start};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::stage::{Key, Stage};

const POOLS: &str = "/api/v1/pools";

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_ends_on_every_replica_within_a_second() {
    let stage = Stage::new();
    let (one, two) = (stage.closed().await, stage.server().await);
    let admin = stage.key(Role::Admin, None, None).await;
    for round in 0..3 {
        let key = stage.key(Role::Read, None, None).await;
        // One that was made a moment ago is good at once, everywhere.
        for server in [&one, &two] {
            assert_eq!(stage.ask(server, "GET", POOLS, Some(&key), "").await.status, StatusCode::OK);
        }
        let at = format!("/api/v1/keys/{}", key.id);
        let revoked = stage.ask(&one, "DELETE", &at, Some(&admin), "").await;
        assert_eq!(revoked.status, StatusCode::NO_CONTENT);
        let answer = stage.ask(&one, "GET", POOLS, Some(&key), "").await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "where it was revoked it ends at once");
        let took = stage.until(&two, POOLS, &key, StatusCode::UNAUTHORIZED).await;
        assert!(took < Duration::from_secs(1), "round {round}: it took {took:?}");
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_until_there_is_a_key_and_never_again() {
    let stage = Stage::new();
    let server = stage.server().await;
    assert!(server.is_open());
    let ask = async |key: Option<&Key>| stage.ask(&server, "GET", POOLS, key, "").await.status;
    assert_eq!(ask(None).await, StatusCode::OK);
    let made =
        stage.ask(&server, "POST", "/api/v1/keys", None, "{\"role\": \"admin\", \"name\": \"me\"}").await;
    assert_eq!(made.status, StatusCode::CREATED);
    let text = |body: &Value, name: &str| body[name].as_str().unwrap().to_owned();
    let key = Key { id: text(&made.body, "id"), text: text(&made.body, "key") };
    assert_eq!(ask(None).await, StatusCode::UNAUTHORIZED, "from then on one is asked for");
    assert_eq!(ask(Some(&key)).await, StatusCode::OK);
    // To take the last key away opens nothing, not even after a restart.
    let gone = stage.ask(&server, "DELETE", &format!("/api/v1/keys/{}", key.id), Some(&key), "").await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(ask(None).await, StatusCode::UNAUTHORIZED);
    server.stop().await;
    let server = stage.server().await;
    assert!(!server.is_open());
    assert_eq!(stage.ask(&server, "GET", POOLS, None, "").await.status, StatusCode::UNAUTHORIZED);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_made_elsewhere_closes_an_open_server() {
    let stage = Stage::new();
    let server = stage.server().await;
    assert!(server.is_open());
    let key = stage.key(Role::Read, None, None).await;
    let nobody = Key { id: String::new(), text: "nothing".to_owned() };
    stage.until(&server, POOLS, &nobody, StatusCode::UNAUTHORIZED).await;
    stage.until(&server, POOLS, &key, StatusCode::OK).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_browser_are_kept_out_while_it_is_open() {
    let stage = Stage::new();
    let server = stage.server().await;
    let url = format!("http://{}{POOLS}", server.address());
    for (name, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let answer = stage.client.get(&url).header(name, value).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{name}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_expires() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let key = stage.lasting(Role::Read, None, None, Some(Duration::from_secs(2))).await;
    assert_eq!(stage.ask(&server, "GET", POOLS, Some(&key), "").await.status, StatusCode::OK);
    stage.until(&server, POOLS, &key, StatusCode::UNAUTHORIZED).await;
    let answer = stage.ask(&server, "GET", POOLS, Some(&key), "").await;
    assert!(answer.body["message"].as_str().unwrap().contains("expired"), "{answer:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_key_has_two_secrets_for_a_while() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let admin = stage.key(Role::Admin, None, None).await;
    let old = stage.key(Role::Read, None, None).await;
    let at = format!("/api/v1/keys/{}/rotate", old.id);
    let rotated = stage.ask(&server, "POST", &at, Some(&admin), "{\"grace_s\": 3}").await;
    assert_eq!(rotated.status, StatusCode::OK);
    assert_eq!(rotated.body["id"], old.id.as_str(), "what it holds stays its own");
    let new = Key { id: old.id.clone(), text: rotated.body["key"].as_str().unwrap().to_owned() };
    assert_ne!(new.text, old.text);
    for key in [&old, &new] {
        assert_eq!(stage.ask(&server, "GET", POOLS, Some(key), "").await.status, StatusCode::OK);
    }
    stage.until(&server, POOLS, &old, StatusCode::UNAUTHORIZED).await;
    assert_eq!(stage.ask(&server, "GET", POOLS, Some(&new), "").await.status, StatusCode::OK);
    let rotated = stage.ask(&server, "POST", &at, Some(&admin), "{\"grace_s\": 0}").await;
    assert_eq!(rotated.status, StatusCode::OK);
    let answer = stage.ask(&server, "GET", POOLS, Some(&new), "").await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "without grace the secret before ends at once");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_key_that_acquired_a_lease_may_touch_it() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let operator = stage.key(Role::Admin, None, None).await;
    let (mine, theirs) =
        (stage.key(Role::Member, None, None).await, stage.key(Role::Member, None, None).await);
    stage.ask(&server, "PUT", "/api/v1/scenes/one", Some(&operator), "").await;
    let at = "/api/v1/scenes/one/lease";
    let body = "{\"holder_id\": \"tracker-0\"}";
    assert_eq!(stage.ask(&server, "POST", at, Some(&mine), body).await.status, StatusCode::CREATED);
    for key in [&theirs, &operator] {
        let renewed = stage.ask(&server, "POST", &format!("{at}/renew"), Some(key), body).await;
        assert_eq!(renewed.status, StatusCode::FORBIDDEN);
        assert_eq!(renewed.body["error"], "not_your_lease");
        let released = stage.ask(&server, "DELETE", at, Some(key), body).await;
        assert_eq!(released.status, StatusCode::FORBIDDEN);
    }
    let renewed = stage.ask(&server, "POST", &format!("{at}/renew"), Some(&mine), body).await;
    assert_eq!(renewed.status, StatusCode::OK);
    let released = stage.ask(&server, "DELETE", at, Some(&mine), body).await;
    assert_eq!(released.headers["x-lease-released"], "true");
    server.stop().await;
}

// proves U01
#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_exchanged_for_a_token() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let key = stage.key(Role::Read, None, None).await;
    let url = format!("http://{}/api/v1/auth", server.address());
    let form = async |pairs: &[(&str, &str)]| {
        let answer = stage.client.post(&url).form(pairs).send().await.unwrap();
        (answer.status(), answer.json::<Value>().await.unwrap())
    };
    let (status, body) = form(&[("username", "tracker"), ("password", &key.text)]).await;
    assert_eq!((status, &body), (StatusCode::OK, &json!({"token": key.text})));
    let sent = json!({"username": "tracker", "password": key.text}).to_string();
    let answer = stage.ask(&server, "POST", "/api/v1/auth", None, &sent).await;
    assert_eq!((answer.status, answer.body), (StatusCode::OK, json!({"token": key.text})));
    for scheme in ["Token", "token", "Bearer"] {
        let header = format!("{scheme} {}", key.text);
        let answer = stage.ask_as(&server, "GET", POOLS, Some(&header), "").await;
        assert_eq!(answer.status, StatusCode::OK, "{scheme}");
    }
    let wrong = key.text.replace(|c: char| c.is_ascii_digit(), "f");
    let (status, body) = form(&[("username", "tracker"), ("password", &wrong)]).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(!body.to_string().contains(&wrong), "{body}");
    for pairs in [&[("username", "tracker")][..], &[("password", "x")], &[]] {
        assert_eq!(form(pairs).await.0, StatusCode::BAD_REQUEST, "{pairs:?}");
    }
    for header in ["Basic abc", "Bearer", "Bearer ", "nonsense", "Bearer lh_x_y"] {
        let answer = stage.ask_as(&server, "GET", POOLS, Some(header), "").await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{header}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_listed_without_what_is_secret_about_them() {
    let stage = Stage::new();
    let server = stage.closed().await;
    let admin = stage.key(Role::Admin, None, None).await;
    let wanted = json!({"name": "trackers", "role": "member", "pools": ["scenes"], "expires_in_s": 3600});
    let made = stage.ask(&server, "POST", "/api/v1/keys", Some(&admin), &wanted.to_string()).await;
    assert_eq!(
        (made.status, made.headers["cache-control"].to_str().unwrap()),
        (StatusCode::CREATED, "no-store")
    );
    let secret = made.body["key"].as_str().unwrap().rsplit('_').next().unwrap().to_owned();
    let id = made.body["id"].as_str().unwrap();
    for path in ["/api/v1/keys".to_owned(), format!("/api/v1/keys/{id}"), "/metrics".to_owned()] {
        let text = stage.ask(&server, "GET", &path, Some(&admin), "").await.body.to_string();
        assert!(!text.contains(&secret) && !text.contains("hash") && !text.contains(&admin.text), "{text}");
    }
    // Nor are they in the database.
    let read = std::fs::read_dir(stage.place.path()).unwrap();
    for file in read.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()) {
        assert!(!file.windows(secret.len()).any(|window| window == secret.as_bytes()));
    }
    let listed = stage.ask(&server, "GET", "/api/v1/keys", Some(&admin), "").await.body;
    assert_eq!(listed[2]["name"], "trackers");
    assert_eq!(listed[2]["pools"], json!(["scenes"]));
    for wrong in [
        "{}",
        "{\"role\": \"king\"}",
        "{\"role\": \"read\", \"tenant\": \"a.b\"}",
        "{\"role\": \"read\", \"pools\": []}",
    ] {
        let answer = stage.ask(&server, "POST", "/api/v1/keys", Some(&admin), wrong).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}");
        assert_eq!(answer.headers["content-type"], "application/problem+json");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_reach_needs_keys_and_tls() {
    let stage = Stage::new();
    let mut settings = Stage::settings();
    settings.listen = "0.0.0.0:0".parse().unwrap();
    let refused = start(settings.clone(), stage.store().await).await.unwrap_err();
    assert!(matches!(refused, StartError::Exposed { keys: true, tls: true, .. }), "{refused}");
    let key = stage.key(Role::Admin, None, None).await;
    let refused = start(settings.clone(), stage.store().await).await.unwrap_err();
    assert!(matches!(refused, StartError::Exposed { keys: false, tls: true, .. }), "{refused}");
    let certificate = super::tls::Files::new(&stage);
    settings.tls = Some(certificate.settings());
    let running = start(settings.clone(), stage.store().await).await.unwrap();
    running.stop().await;
    keys::revoke(&*stage.store().await, &key.id).await.unwrap();
    let refused = start(settings, stage.store().await).await.unwrap_err();
    assert!(matches!(refused, StartError::Exposed { keys: true, tls: false, .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_known_outlive_the_store_for_a_while_and_no_longer() {
    let stage = Stage::new();
    let store = Faulty::new(stage.store().await);
    let (known, expiring) = (
        stage.key(Role::Read, None, None).await,
        stage.lasting(Role::Read, None, None, Some(Duration::from_secs(1))).await,
    );
    let mut settings = Stage::settings();
    settings.limits.keys = Duration::from_secs(3);
    settings.limits.call = Duration::from_millis(200);
    let server = start(settings, Arc::new(store.clone())).await.unwrap();
    let unseen = Key { id: known.id.clone(), text: known.text.replace("lh_", "lh_0") };
    let ask = async |key: &Key| stage.ask(&server, "GET", "/openapi.json", Some(key), "").await.status;
    assert_eq!(ask(&known).await, StatusCode::OK);
    store.break_everything(Fault::Hangs);
    let broken = leasehold::clock::now();
    let status = ask(&known).await;
    if leasehold::clock::now().since(broken) < Duration::from_secs(2) {
        assert_eq!(status, StatusCode::OK, "a key that is known is taken for a while");
    }
    assert_eq!(
        ask(&unseen).await,
        StatusCode::SERVICE_UNAVAILABLE,
        "nobody can say whether this one is good"
    );
    // One that has expired is over, store or not.
    stage
        .until_any(
            &server,
            "/openapi.json",
            &expiring,
            &[StatusCode::UNAUTHORIZED, StatusCode::SERVICE_UNAVAILABLE],
        )
        .await;
    stage.until(&server, "/openapi.json", &known, StatusCode::SERVICE_UNAVAILABLE).await;
    let answer = stage.ask(&server, "GET", "/openapi.json", Some(&known), "").await;
    assert!(answer.headers.contains_key("retry-after"));
    assert_eq!(stage.ask(&server, "GET", "/healthz", None, "").await.status, StatusCode::OK);
    store.mend();
    stage.until(&server, "/openapi.json", &known, StatusCode::OK).await;
    server.stop().await;
}
