//! Instances of `leasehold poll` on one Redis, and the endpoints that they poll.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use leasehold::clock::{self, Moment};
use leasehold_testkit::{Persistence, Redis, RedisSetup};
use nix::sys::signal::Signal;

use crate::support::{Member, Place, leasehold, wait_until};
use crate::witness::{Ask, Witness};

/// The TTL of instances, unless a test says otherwise.
pub(crate) const TTL: Duration = Duration::from_secs(3);
/// How often an endpoint is polled.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// An endpoint that was polled so recently is being polled.
const FRESH: Duration = Duration::from_millis(1000);
/// What may come on top of the second that is promised, on a machine that is busy with other tests.
pub(crate) const BUSY: Duration = Duration::from_secs(3);

pub(crate) struct Fleet {
    pub(crate) redis: Redis,
    pub(crate) witness: Witness,
    pub(crate) place: Place,
    pub(crate) ttl: Duration,
    pub(crate) instances: BTreeMap<String, Member>,
    endpoints: usize,
}

impl Fleet {
    /// A Redis that keeps what it is told, with so many sessions in it.
    pub(crate) fn new(endpoints: usize) -> Self {
        Self::with(endpoints, RedisSetup { persistence: Persistence::Always, ..RedisSetup::default() })
    }

    pub(crate) fn with(endpoints: usize, setup: RedisSetup) -> Self {
        let redis = Redis::start_with(setup);
        let place = Place::on(redis.url());
        place.told(&["migrate", "--fresh"]);
        let fleet = Self {
            redis,
            witness: Witness::start(),
            place,
            ttl: TTL,
            instances: BTreeMap::new(),
            endpoints: 0,
        };
        let mut fleet = fleet;
        for number in 1..=endpoints {
            fleet.add(&format!("e{number}"));
        }
        fleet
    }

    /// A session whose endpoint is the witness.
    pub(crate) fn add(&mut self, id: &str) {
        self.write(id, &self.witness.url(id), "");
        self.endpoints += 1;
    }

    /// Writes a session as others do.
    pub(crate) fn write(&self, id: &str, address: &str, more: &str) {
        let session = format!(
            r#"{{"id":"{id}","name":"n","address":"{address}","sessionName":"s","isOnline":true{more},"createdAt":"2026-01-11T00:00:00Z"}}"#
        );
        assert_eq!(self.redis.cli(&["SET", &format!("session:{id}"), &session]), "OK");
    }

    pub(crate) fn enter(&mut self, name: &str) {
        let url = self.redis.url();
        self.enter_by(name, &url, &[]);
    }

    /// An instance that reaches Redis by a way of its own, with more options.
    pub(crate) fn enter_by(&mut self, name: &str, url: &str, options: &[&str]) {
        let mut command = self.command(name, url);
        let member = self.place.start(name, command.args(options));
        self.instances.insert(name.to_owned(), member);
    }

    pub(crate) fn command(&self, name: &str, url: &str) -> Command {
        let headers = self.place.write(&format!("{name}.headers"), &format!("X-Name: {name}\n"));
        let mut command = leasehold();
        // What the command line says wins.
        command.env("LEASEHOLD_NAME", name).env("LEASEHOLD_TTL", millis(self.ttl));
        command.env("LEASEHOLD_INTERVAL", millis(INTERVAL)).env("LEASEHOLD_TIMEOUT", "30s");
        command.args(["poll", "--store", url, "--header-file", &headers]);
        command
    }

    pub(crate) fn signal(&self, name: &str, signal: Signal) {
        self.instances[name].signal(signal);
    }

    /// Kills an instance without a word, and gives the moment before.
    pub(crate) fn kill(&mut self, name: &str) -> Moment {
        let at = clock::now();
        let mut member = self.instances.remove(name).unwrap();
        member.signal(Signal::SIGKILL);
        member.wait();
        at
    }

    /// Tells an instance to stop and waits until it has.
    pub(crate) fn stop(&mut self, name: &str) -> Moment {
        let at = clock::now();
        self.instances.remove(name).unwrap().leave();
        at
    }

    /// Who is polling what at this moment.
    pub(crate) fn polling(&self) -> BTreeMap<String, Ask> {
        let now = clock::now();
        let newest = self.witness.newest().into_iter();
        newest.filter(|(_, ask)| ask.to.is_none() || now.since(ask.from) < FRESH).collect()
    }

    /// How many endpoints each of these is polling.
    pub(crate) fn shares(&self, names: &[&str]) -> Vec<usize> {
        let polling = self.polling();
        names.iter().map(|name| polling.values().filter(|ask| ask.name == *name).count()).collect()
    }

    /// Waits until these share all endpoints in these numbers, in any order, and it stays so for a while.
    pub(crate) fn until_shared(&self, names: &[&str], wanted: &[usize]) {
        let mut since = clock::now();
        wait_until(&format!("{names:?} share {wanted:?} and not {:?}", self.shares(names)), || {
            let mut shares = self.shares(names);
            shares.sort_unstable();
            if shares != wanted {
                since = clock::now();
            }
            clock::now().since(since) > FRESH + Duration::from_millis(200)
        });
    }

    /// Waits until every endpoint has been asked after this moment, by anybody or by one of these.
    pub(crate) fn until_all_polled_after(&self, from: Moment, by: &[&str]) {
        wait_until(&format!("{by:?} ask all endpoints"), || {
            let asks = self.witness.since(from);
            let by_them = asks.iter().filter(|ask| by.is_empty() || by.contains(&ask.name.as_str()));
            let endpoints: std::collections::BTreeSet<&str> =
                by_them.map(|ask| ask.endpoint.as_str()).collect();
            endpoints.len() == self.endpoints
        });
    }

    /// Waits until every endpoint was polled so many times more.
    pub(crate) fn go_on(&self) {
        self.until_all_polled_after(clock::now(), &[]);
    }

    /// When this one asked for the last time, and each of its endpoints was asked by another for the first time after.
    pub(crate) fn takeovers(&self, name: &str, before: Moment) -> Vec<Duration> {
        let asks = self.witness.asks();
        let mut lasts: BTreeMap<&str, &Ask> = BTreeMap::new();
        for ask in asks.iter().filter(|ask| ask.from <= before) {
            lasts.insert(&ask.endpoint, ask);
        }
        let its = lasts.into_values().filter(|ask| ask.name == name);
        let next = |last: &Ask| {
            let later = asks.iter().filter(|ask| ask.endpoint == last.endpoint && ask.token > last.token);
            later.map(|ask| ask.from).min().map(|from| from.since(before))
        };
        its.map(|last| next(last).unwrap_or(Duration::MAX)).collect()
    }

    /// The ledger's releases: endpoint, reason, by whom and to whom, by instance ids.
    pub(crate) fn releases(&self) -> Vec<serde_json::Value> {
        let rows = self.place.events("endpoints").into_iter();
        rows.filter(|row| row["event"] == "released").collect()
    }

    /// What all instances logged.
    pub(crate) fn log_of(&self, name: &str) -> String {
        self.place.lines(&format!("{name}.err")).join("\n")
    }
}

pub(crate) fn millis(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}
