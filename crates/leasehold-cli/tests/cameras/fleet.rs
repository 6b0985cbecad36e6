//! A control plane with cameras as a real process, those who ask it, and a queue for what it tells.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::process::Command;

use lapin::options::{
    BasicAckOptions, BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use leasehold_testkit::free_port;
use serde_json::{Value, json};

use crate::server::{serve_with, status, try_ask_with};
use crate::support::{Member, Place, leasehold, wait_until};

pub(crate) const SITE: &str = "/api/v1/tenants/tenant-1/sites/site-1";
const QUEUE: &str = "all";

/// A control plane that comes back at the same address.
pub(crate) struct Plane {
    pub(crate) place: Place,
    pub(crate) address: String,
    options: Vec<String>,
    events: Option<String>,
    process: Option<Member>,
    lives: usize,
}

impl Plane {
    /// A control plane that tells its events to the broker at this address, if there is one.
    pub(crate) fn start(place: Place, options: &[&str], events: Option<&str>) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let (options, events) =
            (options.iter().map(|&one| one.to_owned()).collect(), events.map(str::to_owned));
        let mut plane = Self { place, address, options, events, process: None, lives: 0 };
        plane.again();
        plane
    }

    /// Kills it without warning.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it, as it was, and waits until it answers.
    pub(crate) fn again(&mut self) {
        self.lives += 1;
        let mut command: Command = leasehold();
        command.args(["serve", "--listen", &self.address]).args(&self.options);
        // A password is no argument.
        command.envs(self.events.iter().map(|events| ("LEASEHOLD_EVENTS", events)));
        self.process = Some(serve_with(&self.place, &format!("serve-{}", self.lives), &mut command).0);
        wait_until("the control plane is ready", || {
            self.tell("GET", "/readyz", "").is_some_and(|(code, _)| code == 200)
        });
    }

    /// Everything that it has logged, in all its lives.
    pub(crate) fn logs(&self) -> String {
        let files =
            (1..=self.lives).flat_map(|life| ["out", "err"].map(|kind| format!("serve-{life}.{kind}")));
        files.map(|file| std::fs::read_to_string(self.place.path(&file)).expect("a log")).collect()
    }

    fn tell(&self, method: &str, path: &str, headers: &str) -> Option<(u16, Value)> {
        tell(&self.address, method, path, headers, &Value::Null)
    }

    /// One request, which is answered.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        tell(&self.address, method, path, "", body).expect("an answer")
    }

    /// One request, which must be answered like this.
    pub(crate) fn expect(&self, code: u16, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, body);
        assert_eq!(answer.0, code, "{method} {path}: {}", answer.1);
        answer.1
    }

    /// Cameras of this name with numbers, and a runner that may have any of them.
    pub(crate) fn populate(&self, cameras: usize, runners: &[&str]) {
        for number in 0..cameras {
            let body =
                json!({"camera_uuid": format!("cam-{number}"), "rtsp_url": "rtsp://camera.local/stream"});
            self.expect(201, "POST", &format!("{SITE}/cameras/"), &body);
        }
        for runner in runners {
            let body = json!({"runner_id": runner, "tenant_id": "tenant-1", "site_id": "site-1", "capacity": 1000, "ttl_seconds": 3600});
            self.expect(201, "POST", "/api/v1/runners/register/", &body);
        }
    }

    pub(crate) fn acquire(&self, camera: &str, runner: &str, ttl: u64) -> (u16, Value) {
        self.ask("POST", "/api/v1/leases/acquire/", &wanted(camera, runner, ttl))
    }

    /// Every event that the list has.
    pub(crate) fn audited(&self) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let path = format!("/api/v1/leases/audit/?tenant_id=tenant-1&limit=1000&after={after}");
            let page = self.expect(200, "GET", &path, &Value::Null);
            let Some(last) = page.as_array().expect("an array").last() else { return all };
            after = last["row"].as_u64().expect("a row");
            all.extend(page.as_array().expect("an array").iter().cloned());
        }
    }
}

/// What a runner sends for a camera.
pub(crate) fn wanted(camera: &str, runner: &str, ttl: u64) -> Value {
    json!({"camera_uuid": camera, "runner_id": runner, "shard_id": "shard-1", "tenant_id": "tenant-1", "ttl_seconds": ttl})
}

/// Where something is done to a lease.
pub(crate) fn path(lease: &Value, what: &str) -> String {
    format!("/api/v1/leases/{}/{what}/", lease["lease_id"].as_str().expect("a lease"))
}

/// One request; nothing if nobody answers it whole.
pub(crate) fn tell(
    address: &str,
    method: &str,
    path: &str,
    headers: &str,
    body: &Value,
) -> Option<(u16, Value)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = try_ask_with(address, method, path, headers, &body).ok()?;
    let (head, said) = answer.split_once("\r\n\r\n")?;
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    if length.is_some_and(|length: usize| said.len() < length) {
        return None;
    }
    Some((status(head), serde_json::from_str(said).unwrap_or_else(|_| Value::String(said.to_owned()))))
}

/// A durable queue for everything about leases, and what came out of it so far.
pub(crate) struct Consumer {
    runtime: tokio::runtime::Runtime,
    url: String,
    pub(crate) arrived: Vec<(String, Value)>,
}

impl Consumer {
    pub(crate) fn bind(url: String) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let consumer = Self { runtime: runtime.expect("a runtime"), url, arrived: Vec::new() };
        // A broker that has just started listens before it answers.
        wait_until("there is a queue", || consumer.runtime.block_on(consumer.make_queue()).is_ok());
        consumer
    }

    async fn channel(&self) -> lapin::Result<(Connection, Channel)> {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }

    async fn make_queue(&self) -> lapin::Result<()> {
        let (_connection, channel) = self.channel().await?;
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let (exchange, table) = ("status.topic", FieldTable::default());
        channel.exchange_declare(exchange.into(), ExchangeKind::Topic, durable, table.clone()).await?;
        channel.queue_declare(QUEUE.into(), QueueDeclareOptions::durable(), table.clone()).await?;
        let (key, options) = ("lease.#", QueueBindOptions::default());
        channel.queue_bind(QUEUE.into(), exchange.into(), key.into(), options, table).await
    }

    /// What is taken but not confirmed comes again.
    async fn take(&self, taken: &mut Vec<(String, Value)>) -> lapin::Result<()> {
        let (_connection, channel) = self.channel().await?;
        while let Some(message) = channel.basic_get(QUEUE.into(), BasicGetOptions::default()).await? {
            let event = serde_json::from_slice(&message.data).expect("JSON");
            taken.push((message.routing_key.to_string(), event));
            message.ack(BasicAckOptions::default()).await?;
        }
        Ok(())
    }

    /// Takes what there is; a broker that is away has nothing.
    pub(crate) fn listen(&mut self) {
        let mut taken = Vec::new();
        let _ = self.runtime.block_on(self.take(&mut taken));
        self.arrived.extend(taken);
    }
}
