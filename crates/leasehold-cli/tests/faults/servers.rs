//! The servers as the fault suite handles them.

use std::process::Command;

use leasehold_testkit::{Etcd, EtcdOptions, Persistence, Postgres, Redis, RedisSetup};

use super::stage::binary;

/// A store that is a server of its own.
pub(crate) trait Server: Sized {
    /// Starts one with a live store in it, and this in its environment.
    fn start_in(environment: &[(String, String)]) -> Self;
    /// Where it listens on loopback.
    fn port(&self) -> u16;
    /// The store's URL if the server is reached through this port.
    fn url(&self, port: u16) -> String;
    /// Ends it without a word.
    fn kill(&mut self);
    /// Starts it again on what it has on its disk.
    fn restart(&mut self);
    /// Keeps it from running, without ending it.
    fn pause(&self);
    /// Lets it run again.
    fn resume(&self);
}

/// Makes a new server's store live: nobody has ever held anything in it.
pub(crate) fn prepare(url: &str) {
    let ran = Command::new(binary()).args(["migrate", "--fresh", "--store", url]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

impl Server for Postgres {
    fn start_in(environment: &[(String, String)]) -> Self {
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let server = Postgres::start_in(&["fsync=off"], &environment);
        server.create("work");
        prepare(&server.url("work"));
        server
    }

    fn port(&self) -> u16 {
        self.port()
    }

    fn url(&self, port: u16) -> String {
        self.url("work").replace(&format!(":{}/", self.port()), &format!(":{port}/"))
    }

    fn kill(&mut self) {
        self.kill();
    }

    fn restart(&mut self) {
        self.restart();
    }

    fn pause(&self) {
        self.pause();
    }

    fn resume(&self) {
        self.resume();
    }
}

impl Server for Redis {
    fn start_in(environment: &[(String, String)]) -> Self {
        let setup = RedisSetup {
            persistence: Persistence::Always,
            env: environment.to_vec(),
            ..RedisSetup::default()
        };
        let server = Redis::start_with(setup);
        prepare(&server.url());
        server
    }

    fn port(&self) -> u16 {
        self.port()
    }

    fn url(&self, port: u16) -> String {
        self.url().replace(&format!(":{}", self.port()), &format!(":{port}"))
    }

    fn kill(&mut self) {
        self.kill();
    }

    fn restart(&mut self) {
        self.restart();
    }

    fn pause(&self) {
        self.pause();
    }

    fn resume(&self) {
        self.resume();
    }
}

impl Server for Etcd {
    fn start_in(environment: &[(String, String)]) -> Self {
        let options = EtcdOptions { environment: environment.to_vec(), ..EtcdOptions::default() };
        let server = Etcd::start_with(options);
        prepare(&server.url("leasehold"));
        server
    }

    fn port(&self) -> u16 {
        self.port()
    }

    fn url(&self, port: u16) -> String {
        self.url("leasehold").replace(&format!(":{}/", self.port()), &format!(":{port}/"))
    }

    fn kill(&mut self) {
        self.kill();
    }

    fn restart(&mut self) {
        self.restart();
    }

    fn pause(&self) {
        self.pause();
    }

    fn resume(&self) {
        self.resume();
    }
}
