//! Keys on the command line, and `leasehold serve` as a real process: what it refuses, what it reads again, what it never says.
#![cfg(target_os = "linux")]

#[path = "access/deploy.rs"]
mod deploy;
#[path = "access/events.rs"]
mod events;
#[path = "access/logs.rs"]
mod logs;
#[path = "support/server.rs"]
mod server;
mod support;

use nix::sys::signal::Signal;
use serde_json::Value;

use server::{ask, serve, status};
use support::{Place, leasehold, ran, wait_until};

/// A command on the place's database; it must succeed.
fn told(place: &Place, words: &[&str]) -> String {
    let ran = ran(leasehold().args(words).args(["--database", &place.url()]));
    assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.err);
    ran.out
}

fn create(place: &Place, options: &[&str]) -> String {
    told(place, &[&["keys", "create"], options].concat()).trim().to_owned()
}

/// What is secret about a key.
fn secret(key: &str) -> &str {
    key.rsplit('_').next().expect("a secret")
}

#[test]
fn a_key_is_printed_once_and_never_again() {
    let place = Place::new();
    let made = ran(leasehold()
        .args(["keys", "create", "--role", "member", "--pool", "scenes", "--pool", "cameras"])
        .args(["--tenant", "acme", "--expires", "30d", "--name", "trackers", "--database", &place.url()]));
    assert_eq!(made.code, Some(0), "{}", made.err);
    let key = made.out.trim_end().to_owned();
    assert!(key.starts_with("lh_") && !key.contains(char::is_whitespace), "{key}");
    assert!(made.err.contains("not shown again") && !made.err.contains(secret(&key)), "{}", made.err);
    let id = key.split('_').nth(1).expect("an id");
    let text = told(&place, &["keys", "list"]);
    for part in [id, "member", "acme", "cameras,scenes", "trackers"] {
        assert!(text.contains(part), "{text}");
    }
    let json: Value = serde_json::from_str(&told(&place, &["keys", "list", "--json"])).expect("JSON");
    assert_eq!(json[0]["id"], id);
    assert_eq!(json[0]["role"], "member");
    assert_eq!(json[0].get("hash"), None);
    let rotated: Value =
        serde_json::from_str(&told(&place, &["keys", "rotate", id, "--grace", "2h", "--json"]))
            .expect("JSON");
    assert_eq!(rotated["id"], id);
    assert_ne!(rotated["key"], key.as_str());
    assert!(rotated["previous_until"].is_string());
    for listed in [text, json.to_string()] {
        assert!(!listed.contains(secret(&key)), "{listed}");
    }
    told(&place, &["keys", "revoke", id]);
    let again = ran(leasehold().args(["keys", "revoke", id, "--database", &place.url()]));
    assert_eq!(again.code, Some(1), "{}", again.err);
    assert!(again.err.contains("there is no key"), "{}", again.err);
    for wrong in [
        &["--role", "king"][..],
        &["--role", "read", "--tenant", "a.b"],
        &["--role", "read", "--expires", "soon"],
    ] {
        let refused = ran(leasehold().args(["keys", "create", "--database", &place.url()]).args(wrong));
        assert_eq!(refused.code, Some(2), "{wrong:?}: {}", refused.err);
    }
}

#[test]
fn an_address_that_others_reach_is_refused_with_the_commands_to_run() {
    let place = Place::new();
    let serve = |options: &[&str]| {
        ran(leasehold().args(["serve", "--database", &place.url(), "--listen", "0.0.0.0:0"]).args(options))
    };
    let refused = serve(&[]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    let last = refused.err.lines().last().expect("a sentence");
    for part in
        ["leasehold keys create --role admin --database sqlite:", "--tls-cert", "--tls-key", "127.0.0.1"]
    {
        assert!(last.contains(part), "{last}");
    }
    create(&place, &["--role", "admin"]);
    let refused = serve(&[]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    let last = refused.err.lines().last().expect("a sentence");
    assert!(!last.contains("keys create") && last.contains("--tls-cert"), "{last}");
    let refused = serve(&["--tls-cert", "none.pem", "--tls-key", "none.pem"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("none.pem"), "{}", refused.err);
}

#[test]
fn no_secret_is_in_a_log_a_metric_or_an_answer() {
    let place = Place::new();
    let (server, address) = serve(&place, "open", &["--log", "trace", "--log-format", "json"]);
    assert!(server.log().contains("there are no keys"), "it says that it is open");
    assert_eq!(status(&ask(&address, "GET", "/api/v1/pools", None, "")), 200);
    let admin = create(&place, &["--role", "admin", "--name", "me"]);
    wait_until("it asks for keys", || status(&ask(&address, "GET", "/api/v1/pools", None, "")) == 401);
    let wrong = format!("{}{}", &admin[..admin.len() - 4], "0000");
    let basic = "c2VjcmV0OnBhc3N3b3Jk";
    let mut seen = Vec::new();
    for key in [&admin, &wrong, "not-a-key-but-a-password"] {
        seen.push(ask(&address, "GET", "/api/v1/pools", Some(key), ""));
        seen.push(ask(&address, "GET", "/metrics", Some(key), ""));
        seen.push(ask(&address, "GET", "/api/v1/keys", Some(key), ""));
        seen.push(ask(&address, "PUT", "/api/v1/scenes/one", Some(key), "{}"));
        seen.push(ask(&address, "POST", "/api/v1/scenes/one/lease", Some(key), "{\"holder_id\": \"t\"}"));
        let body = format!("username=me&password={key}");
        let answer = ask(&address, "POST", "/api/v1/auth", None, &body);
        assert_eq!(status(&answer) == 200, *key == *admin, "{answer}");
        if status(&answer) != 200 {
            seen.push(answer);
        }
        // A body that cannot be read may hold a password all the same.
        seen.push(ask(
            &address,
            "POST",
            "/api/v1/auth",
            None,
            &format!("{{\"username\": 1, \"password\": \"{key}\""),
        ));
        seen.push(ask(
            &address,
            "POST",
            "/api/v1/auth",
            None,
            &format!("{{\"username\": \"x\", \"password\": [\"{key}\"]}}"),
        ));
    }
    seen.push(ask(&address, "GET", "/api/v1/pools", Some(basic), ""));
    let made = ask(&address, "POST", "/api/v1/keys", Some(&admin), "{\"role\": \"read\"}");
    assert_eq!(status(&made), 201, "{made}");
    let body: Value = serde_json::from_str(made.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
    let other = body["key"].as_str().expect("a key").to_owned();
    let id = body["id"].as_str().expect("an id");
    let rotated = ask(&address, "POST", &format!("/api/v1/keys/{id}/rotate"), Some(&admin), "{}");
    assert_eq!(status(&rotated), 200, "{rotated}");
    seen.push(ask(&address, "GET", "/metrics", Some(&admin), ""));
    assert!(seen.last().expect("figures").contains("leasehold_auth_failures_total"));
    server.signal(Signal::SIGHUP);
    wait_until("it has read its options again", || server.log().contains("told to read its options again"));
    let log = server.log();
    assert!(log.contains("a key was made") && log.contains("answered"), "the log says enough: {log}");
    seen.push(log);
    server.leave();
    for text in &seen {
        for hidden in
            [secret(&admin), secret(&wrong), secret(&other), "not-a-key-but-a-password", basic, "\"hash\""]
        {
            assert!(!text.contains(hidden), "{hidden} is in {text}");
        }
    }
}

#[test]
fn a_signal_has_the_level_and_the_limits_read_again() {
    let place = Place::new();
    let key = create(&place, &["--role", "read"]);
    let config = place.write("options.toml", "log = \"info\"\nrate = 1\nburst = 2\n");
    let (server, address) = serve(&place, "server", &["--config", &config]);
    let pools = || status(&ask(&address, "GET", "/api/v1/pools", Some(&key), ""));
    wait_until("the key asks too often", || pools() == 429);
    assert!(!server.log().contains("answered"), "{}", server.log());
    place.write("options.toml", "log = \"debug\"\nrate = 1000\nburst = 1000\n");
    server.signal(Signal::SIGHUP);
    wait_until("it has read its options again", || server.log().contains("told to read its options again"));
    for _ in 0..10 {
        assert_eq!(pools(), 200);
    }
    wait_until("requests are logged", || server.log().contains("answered"));
    // What cannot be used changes nothing.
    place.write("options.toml", "rate = \"fast\"\n");
    server.signal(Signal::SIGHUP);
    wait_until("it says why not", || server.log().contains("the options stay as they were"));
    assert_eq!(pools(), 200);
    server.leave();
}

#[test]
fn the_control_planes_own_pool_is_shown_to_nobody() {
    let place = Place::new();
    let key = create(&place, &["--role", "admin"]);
    let id = key.split('_').nth(1).expect("an id");
    let store = ["--store".to_owned(), place.url()];
    for words in [
        &["status", "--pool", "_leasehold"][..],
        &["status", "--pool", "_leasehold", "--json"],
        &["show", "--pool", "_leasehold", id],
        &["show", "--pool", "_leasehold", id, "--json"],
        &["events", "--pool", "_leasehold"],
        &["plan", "--pool", "_leasehold"],
        &["explain", &format!("_leasehold/{id}")],
        &["pause", "--pool", "_leasehold", id],
    ] {
        let refused = ran(leasehold().args(words).args(&store));
        assert_eq!(refused.code, Some(2), "{words:?}: {}{}", refused.out, refused.err);
        assert!(refused.err.contains("leasehold keys list"), "{words:?}: {}", refused.err);
        assert!(!refused.out.contains("hash"), "{}", refused.out);
    }
    let all = ran(leasehold().args(["status", "--json"]).args(&store));
    assert_eq!(all.code, Some(0), "{}", all.err);
    assert!(!all.out.contains("_leasehold") && !all.out.contains("hash"), "{}", all.out);
}
