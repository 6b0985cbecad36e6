//! What is asked, how often, and where the answers go.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::{Process, RedisSetup, free_port};
use serde_json::Value;

use crate::fleet::{Fleet, INTERVAL};
use crate::support::{wait_for, wait_until};

fn lines(fleet: &Fleet, name: &str) -> Vec<Value> {
    let lines = fleet.place.lines(&format!("{name}.out"));
    lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn what_an_endpoint_said_before_is_not_asked_for_again() {
    let mut fleet = Fleet::new(1);
    let url = fleet.redis.url();
    fleet.enter_by("one", &url, &["--to", "stdout"]);
    wait_until("it is polled a few times", || lines(&fleet, "one").len() > 3);
    let asks = fleet.witness.asks();
    assert!(!asks[0].conditional && asks[1..].iter().all(|ask| ask.conditional), "{asks:?}");
    let told = lines(&fleet, "one");
    assert_eq!((&told[0]["status"], &told[0]["body"]["ok"]), (&200.into(), &true.into()));
    assert!(
        told[1..]
            .iter()
            .all(|line| line["status"] == 304 && line["changed"] == false && line["body"].is_null())
    );
}

#[test]
fn answers_go_to_a_stream_and_to_a_webhook() {
    let mut fleet = Fleet::new(1);
    let (url, hook) = (fleet.redis.url(), fleet.witness.url("hook"));
    fleet.enter_by("one", &url, &["--to", "stream:polls:{id}", "--to", &hook, "--stream-keep", "5"]);
    let posted = || fleet.witness.asks().into_iter().filter(|ask| ask.endpoint == "hook").collect::<Vec<_>>();
    wait_until("the webhook hears a few", || posted().len() > 3);
    let body: Value = serde_json::from_str(&posted()[0].body).unwrap();
    assert_eq!((&body["id"], &body["token"], &body["status"]), (&"e1".into(), &1.into(), &200.into()));
    let kept = fleet.redis.cli(&["XRANGE", "polls:e1", "-", "+"]);
    assert!(kept.contains("\"token\":1") && kept.contains("instance"), "{kept}");
    let count: usize = fleet.redis.cli(&["XLEN", "polls:e1"]).parse().unwrap();
    assert!(count > 0);
}

#[test]
fn an_endpoint_with_https_is_asked_if_its_certificate_can_be_trusted() {
    let mut fleet = Fleet::new(0);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = fleet.place.write("server.pem", &made.cert.pem());
    let key = fleet.place.write("server.key", &made.signing_key.serialize_pem());
    let port = free_port();
    let mut server = Command::new("openssl");
    server.args([
        "s_server",
        "-www",
        "-quiet",
        "-accept",
        &port.to_string(),
        "-cert",
        &certificate,
        "-key",
        &key,
    ]);
    let _server = Process::start(&mut server, &fleet.place.path("server.log"));
    wait_until("the server is there", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    fleet.write("e1", &format!("https://localhost:{port}/state"), "");
    let url = fleet.redis.url();
    fleet.enter_by("trustful", &url, &["--to", "stdout"]);
    let first = |fleet: &Fleet, name: &str| wait_for("it is asked", || lines(fleet, name).into_iter().next());
    let refused = first(&fleet, "trustful");
    assert!(refused["status"].is_null(), "{refused}");
    assert!(refused["error"].as_str().is_some_and(|why| why.contains("certificate")), "{refused}");
    fleet.stop("trustful");
    fleet.enter_by("knowing", &url, &["--to", "stdout", "--ca", &certificate]);
    let told = first(&fleet, "knowing");
    assert_eq!(told["status"], 200, "{told}");
    assert!(told["body"].as_str().is_some_and(|body| body.contains("TLSv1.3")), "{told}");
}

// proves U13: each endpoint has an interval of its own
#[test]
fn a_session_has_an_interval_and_a_timeout_of_its_own() {
    let mut fleet = Fleet::new(0);
    fleet.write("often", &fleet.witness.url("often"), r#","pollInterval":"50ms""#);
    fleet.write("seldom", &fleet.witness.url("seldom"), r#","pollInterval":3600"#);
    // Nobody answers there.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    fleet.write("silent", &silent.local_addr().unwrap().to_string(), r#","pollTimeout":0.2"#);
    let url = fleet.redis.url();
    fleet.enter_by("one", &url, &["--to", "stdout"]);
    let count = |id: &str| fleet.witness.asks().iter().filter(|ask| ask.endpoint == id).count();
    wait_until("it is polled often", || count("often") > 20);
    assert_eq!(count("seldom"), 1);
    let timed_out =
        wait_for("it is given up", || lines(&fleet, "one").into_iter().find(|line| line["id"] == "silent"));
    assert_eq!(timed_out["error"], "there was no answer within 200ms");
    // A session that is written anew is polled as it says now.
    fleet.write("seldom", &fleet.witness.url("seldom"), r#","pollInterval":"50ms""#);
    wait_until("it is polled as it says now", || count("seldom") > 5);
}

// proves R109, C31
#[test]
fn a_session_that_rests_is_left_alone_and_polled_again_afterwards() {
    let mut fleet = Fleet::with(2, RedisSetup::default().with(&["--notify-keyspace-events", "KA"]));
    fleet.enter("one");
    fleet.until_shared(&["one"], &[2]);
    fleet.write("e1", &fleet.witness.url("e1"), r#","isPaused":true"#);
    wait_until("its lease is let go of", || fleet.redis.cli(&["EXISTS", "poll:lease:e1"]) == "0");
    let rested = clock::now();
    wait_until("the other is polled", || fleet.witness.since(rested).len() > 5);
    assert!(fleet.witness.since(rested).iter().all(|ask| ask.endpoint == "e2"));
    let reasons: Vec<Value> = fleet.releases().iter().map(|row| row["reason"].clone()).collect();
    assert_eq!(reasons, ["session_paused"]);
    fleet.write("e1", &fleet.witness.url("e1"), r#","isPaused":false"#);
    fleet.until_shared(&["one"], &[2]);
    fleet.redis.cli(&["SET", "deleted-session:e2", "1"]);
    wait_until("its lease is let go of", || fleet.redis.cli(&["EXISTS", "poll:lease:e2"]) == "0");
    fleet.witness.verify();
}

#[test]
fn no_more_endpoints_are_asked_at_once_than_allowed() {
    let mut fleet = Fleet::new(8);
    fleet.witness.delay(INTERVAL);
    let url = fleet.redis.url();
    fleet.enter_by("one", &url, &["--concurrency", "2"]);
    wait_until("everything is polled a few times", || fleet.witness.asks().len() > 40);
    let asks = fleet.witness.asks();
    for ask in &asks {
        let during =
            asks.iter().filter(|other| other.from <= ask.from && other.to.is_none_or(|to| to > ask.from));
        assert!(during.count() <= 2, "{ask:?}");
    }
    // An answer takes a moment from the endpoint's end to ours, and no longer.
    assert!(asks.windows(2).all(|two| two[1].from.since(two[0].from) < Duration::from_secs(20)));
}

// proves R089, R090, R091, R092, R093
#[test]
fn the_log_says_what_happens_to_leases_in_the_words_of_the_documents() {
    let mut fleet = Fleet::new(1);
    fleet.enter("one");
    fleet.until_shared(&["one"], &[1]);
    let instance = fleet.polling()["e1"].instance.clone();
    let renewed = format!("Lease renewed: instance={instance} endpoint=e1");
    wait_until("a heartbeat is confirmed", || fleet.log_of("one").contains(&renewed));
    fleet.stop("one");
    let log = fleet.log_of("one");
    let line = |words: &str| {
        log.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {log}"))
    };
    for (words, event) in [
        (format!("Lease acquired: instance={instance} endpoint=e1 ttl=3000"), "acquired"),
        (renewed, "renewed"),
        (format!("Lease released: instance={instance} endpoint=e1 reason=shutdown"), "released"),
    ] {
        let line = line(&words);
        assert!(line.contains("INFO") && line.contains(&format!("event=\"{event}\"")), "{line}");
        assert!(line.starts_with("20") && line.contains("endpoint=\"e1\""), "{line}");
    }
}
