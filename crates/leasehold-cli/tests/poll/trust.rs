//! Owned, uncertain, lost: what is polled and what is passed on while Redis does not answer.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::{Faults, Proxy, Redis};
use nix::sys::signal::Signal;

use crate::fleet::{Fleet, TTL};
use crate::support::wait_until;

/// Whoever listens to the answers, by the server's own client.
struct Listener {
    child: Child,
    heard: std::path::PathBuf,
}

impl Listener {
    fn of(fleet: &Fleet, redis: &Redis) -> Self {
        let heard = fleet.place.path("heard");
        let child = Command::new("redis-cli")
            .args(["-p", &redis.port().to_string(), "PSUBSCRIBE", "satisfactory_events:*"])
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&heard).unwrap())
            .spawn()
            .unwrap();
        let listener = Self { child, heard };
        wait_until("somebody listens", || listener.text().contains("psubscribe"));
        listener
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.heard).unwrap_or_default()
    }

    /// What was published, and where.
    fn results(&self) -> Vec<(String, serde_json::Value)> {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        let mut results = Vec::new();
        for four in lines.windows(4).filter(|four| four[0] == "pmessage") {
            if let Ok(result) = serde_json::from_str(four[3]) {
                results.push((four[2].to_owned(), result));
            }
        }
        results
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

// proves C21, R086: paused at the first heartbeat that goes unconfirmed, resumed under the same token when one is confirmed
#[test]
fn polling_pauses_with_an_unconfirmed_heartbeat_and_resumes_with_a_confirmed_one() {
    let mut fleet = Fleet::new(2);
    fleet.ttl = Duration::from_secs(12);
    let way = Proxy::to(fleet.redis.port());
    // Answers go elsewhere, so that nothing but the heartbeat waits for Redis.
    fleet.enter_by("one", &format!("redis://127.0.0.1:{}", way.port()), &["--to", "stdout"]);
    fleet.until_shared(&["one"], &[2]);
    let before = fleet.polling();
    let cut = clock::now();
    way.set(Faults::cut());
    wait_until("nothing is polled", || fleet.polling().is_empty());
    let paused = clock::now();
    // A heartbeat every four seconds, and its answer is waited for for two and a half. Trust would run for ten.
    assert!(paused.since(cut) < Duration::from_millis(9500), "{:?}", paused.since(cut));
    way.heal();
    fleet.until_shared(&["one"], &[2]);
    for (endpoint, ask) in fleet.polling() {
        assert_eq!(
            (ask.token, &ask.instance),
            (before[&endpoint].token, &before[&endpoint].instance),
            "it was lost"
        );
    }
    let instance = &before["e1"].instance;
    let renewed = format!("Lease renewed: instance={instance} endpoint=e2");
    wait_until("a heartbeat is confirmed", || fleet.log_of("one").contains(&renewed));
    let log = fleet.log_of("one");
    let said =
        |event: &str, words: &str| log.lines().any(|line| line.contains(event) && line.contains(words));
    assert!(said("WARN", &format!("Lease renewal failed: instance={instance} endpoint=e1 error=")), "{log}");
    assert!(said("INFO", &renewed), "{log}");
    fleet.witness.verify();
}

// proves C22: a poll in flight is broken off before trust ends, and what it would have brought is not passed on
#[test]
fn a_poll_in_flight_is_broken_off_before_trust_ends() {
    let mut fleet = Fleet::new(1);
    fleet.witness.delay(Duration::from_secs(20));
    let listener = Listener::of(&fleet, &fleet.redis);
    let way = Proxy::to(fleet.redis.port());
    fleet.enter_by("one", &format!("redis://127.0.0.1:{}", way.port()), &[]);
    wait_until("a poll is in flight", || !fleet.witness.asks().is_empty());
    let cut = clock::now();
    way.set(Faults::cut());
    wait_until("it is broken off", || fleet.witness.asks()[0].to.is_some());
    let ask = fleet.witness.asks()[0].clone();
    assert!(
        !ask.answered && ask.to.unwrap().since(cut) < TTL,
        "{:?} after the cut",
        ask.to.unwrap().since(cut)
    );
    assert_eq!(listener.results(), []);
}

// proves C22: an answer that comes after trust has ended is dropped, also by whoever slept through it
#[test]
fn what_a_frozen_instance_learned_is_not_passed_on() {
    let mut fleet = Fleet::new(1);
    let listener = Listener::of(&fleet, &fleet.redis);
    fleet.witness.delay(Duration::from_millis(1500));
    fleet.enter("one");
    wait_until("a poll is in flight", || !fleet.witness.asks().is_empty());
    fleet.signal("one", Signal::SIGSTOP);
    fleet.enter("two");
    wait_until("another is heard", || listener.results().iter().any(|(_, result)| result["token"] == 2));
    fleet.signal("one", Signal::SIGCONT);
    let heard = listener.results().len();
    wait_until("more is heard", || listener.results().len() > heard + 1);
    let tokens: Vec<u64> =
        listener.results().iter().map(|(_, result)| result["token"].as_u64().unwrap()).collect();
    assert!(tokens.is_sorted() && !tokens.contains(&1), "{tokens:?}");
}

// proves C22, C23: Redis itself refuses to publish under a term that no longer stands
#[test]
fn answers_are_published_with_their_token_on_the_endpoints_channel() {
    let mut fleet = Fleet::new(2);
    let listener = Listener::of(&fleet, &fleet.redis);
    fleet.enter("one");
    wait_until("both are heard", || {
        ["e1", "e2"].iter().all(|id| listener.results().iter().any(|(_, result)| result["id"] == *id))
    });
    let instance = fleet.polling()["e1"].instance.clone();
    for (channel, result) in listener.results() {
        assert_eq!(channel, format!("satisfactory_events:{}", result["id"].as_str().unwrap()));
        assert_eq!((&result["instance"], &result["token"]), (&instance.clone().into(), &1.into()));
    }
    let first = &listener.results()[0].1;
    assert_eq!(
        (&first["status"], &first["body"]["ok"], &first["changed"]),
        (&200.into(), &true.into(), &true.into())
    );
}
