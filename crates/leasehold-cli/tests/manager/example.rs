//! The worker of the examples under real managers, judged by what the consumer of its events accepted.

use std::collections::BTreeMap;
use std::process::Command;

use leasehold_testkit::RabbitMq;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rusqlite::{Connection, OpenFlags};

use crate::house::{House, Manager};
use crate::python::{python_with, root};
use crate::support::{Member, runs, wait_until};

const CAMERAS: usize = 6;

struct Scene {
    house: House,
    settings: String,
    consumer: Member,
}

/// An event that was accepted.
struct Event {
    camera: String,
    token: i64,
    runner: String,
    /// By the worker's clock, which is everybody's here.
    timestamp: String,
}

impl Scene {
    fn start(broker: &RabbitMq) -> Self {
        let house = House::new(CAMERAS);
        let (python, example) = (python_with("pika", "python3-pika"), root().join("examples/camera-worker"));
        let (example, url) = (example.display(), house.plane.place.write("amqp", &broker.url()));
        let words = [
            "/usr/bin/env".to_owned(),
            format!("PYTHONPATH={example}"),
            "PYTHONDONTWRITEBYTECODE=1".to_owned(),
            format!("CAMERA_WORKER_AMQP_URL_FILE={url}"),
            python.to_owned(),
            "-m".to_owned(),
        ];
        let settings = format!(
            "worker_command = {:?}\nlease_ttl_seconds = 9\n",
            [&words[..], &["camera_worker".to_owned()]].concat()
        );
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["camera_consumer", "--database"]);
        command.arg(house.plane.place.path("accepted.db"));
        let consumer = house.plane.place.start("consumer", &mut command);
        Self { house, settings, consumer }
    }

    fn manager(&self, name: &str) -> Manager {
        self.house.manager(name, &self.settings)
    }

    /// All that was accepted, in this order.
    fn accepted(&self) -> Vec<Event> {
        let read = || -> rusqlite::Result<Vec<Event>> {
            let path = self.house.plane.place.path("accepted.db");
            let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            let mut rows = database.prepare(
                "SELECT camera_uuid, fencing_token, runner_id, timestamp FROM events ORDER BY number",
            )?;
            let event = |row: &rusqlite::Row<'_>| {
                Ok(Event {
                    camera: row.get(0)?,
                    token: row.get(1)?,
                    runner: row.get(2)?,
                    timestamp: row.get(3)?,
                })
            };
            rows.query_map([], event)?.collect()
        };
        // Nothing was accepted yet where there is no file, and it may be written to at this very moment.
        read().unwrap_or_default()
    }

    /// Waits until events of every camera are accepted that come from now on, and from these runners only.
    fn wait(&self, what: &str, runners: &[&str]) {
        let since = self.accepted().len();
        wait_until(what, || {
            let last: BTreeMap<String, String> =
                self.accepted().into_iter().skip(since).map(|event| (event.camera, event.runner)).collect();
            last.len() == CAMERAS && last.values().all(|runner| runners.contains(&runner.as_str()))
        });
    }
}

// proves R215, R216, R218, R220, R227, R243, C46, C52
#[test]
fn the_worker_of_the_examples_puts_out_what_counts_whatever_happens_to_it() {
    let broker = RabbitMq::start();
    let scene = Scene::start(&broker);
    let (one, two) = (scene.manager("one"), scene.manager("two"));
    scene.wait("two managers work", &["one", "two"]);

    let worker = *one.pids().first().expect("a worker");
    kill(Pid::from_raw(i32::try_from(worker).expect("a process id")), Signal::SIGKILL).expect("it runs");
    scene.wait("a worker was killed", &["one", "two"]);

    let workers = one.pids();
    drop(one);
    wait_until("its workers are gone", || workers.iter().all(|pid| !runs(*pid)));
    scene.wait("a manager was killed", &["two"]);

    let (one, workers) = (scene.manager("one"), two.pids());
    two.signal(Signal::SIGSTOP);
    wait_until("its workers are gone", || workers.iter().all(|pid| !runs(*pid)));
    scene.wait("a manager was frozen", &["one"]);
    two.signal(Signal::SIGCONT);

    for manager in [one, two] {
        manager.process.leave();
    }
    // Whoever works on a camera under a term stops before anybody begins under the next one, by what they put out.
    let mut last: BTreeMap<String, (i64, String)> = BTreeMap::new();
    let events = scene.accepted();
    for Event { camera, token, timestamp, .. } in &events {
        if let Some((before, at)) = last.insert(camera.clone(), (*token, timestamp.clone())) {
            assert!(before <= *token, "{camera}: token {token} was accepted after {before}");
            assert!(
                before == *token || at <= *timestamp,
                "{camera}: {timestamp} under {token}, {at} under {before}"
            );
        }
    }
    assert!(last.values().all(|(token, _)| *token > 1), "every camera changed hands: {last:?}");
    println!("{} events were accepted", events.len());
    scene.consumer.leave();
    scene.house.assert_no_orphans();
}
