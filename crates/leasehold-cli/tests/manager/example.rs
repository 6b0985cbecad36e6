//! The worker of the examples under real managers, judged by what the consumer of its events accepted.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use leasehold_testkit::{Postgres, RabbitMq};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rusqlite::{Connection, OpenFlags};

use crate::campaign::on_postgresql;
use crate::fleet::Plane;
use crate::house::{House, Manager};
use crate::project::root;
use crate::python::python_with;
use crate::support::{Member, Place, runs, wait_until};

struct Scene {
    house: House,
    settings: String,
    consumer: Member,
    cameras: usize,
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
    /// A control plane with so many cameras, which have so many frames a second.
    fn start(broker: &RabbitMq, place: Place, cameras: usize, fps: usize) -> Self {
        let house = House::with(Plane::start(place, &["--outage-grace", "0s"], None), cameras);
        let (python, example) = (python_with("pika", "python3-pika"), root().join("examples/camera-worker"));
        let (example, url) = (example.display(), house.plane.place.write("amqp", &broker.url()));
        let words = [
            "/usr/bin/env".to_owned(),
            format!("PYTHONPATH={example}"),
            "PYTHONDONTWRITEBYTECODE=1".to_owned(),
            format!("CAMERA_WORKER_AMQP_URL_FILE={url}"),
            format!("CAMERA_WORKER_FPS={fps}"),
            python.to_owned(),
            "-m".to_owned(),
        ];
        let settings = format!(
            "worker_command = {:?}\nlease_ttl_seconds = 9\nmax_cameras_per_worker = 16\n",
            [&words[..], &["camera_worker".to_owned()]].concat()
        );
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["camera_consumer", "--database"]);
        command.arg(house.plane.place.path("accepted.db"));
        let consumer = house.plane.place.start("consumer", &mut command);
        Self { house, settings, consumer, cameras }
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
            last.len() == self.cameras && last.values().all(|runner| runners.contains(&runner.as_str()))
        });
    }
}

/// What happens to two managers of several, and is there when they are back.
fn managers_go(scene: &Scene, managers: &mut Vec<Manager>, names: &[&str]) {
    let worker = *managers[0].pids().first().expect("a worker");
    kill(Pid::from_raw(i32::try_from(worker).expect("a process id")), Signal::SIGKILL).expect("it runs");
    scene.wait("a worker was killed", names);

    let workers = managers[0].pids();
    drop(managers.remove(0));
    wait_until("its workers are gone", || workers.iter().all(|pid| !runs(*pid)));
    scene.wait("a manager was killed", &names[1..]);

    managers.insert(0, scene.manager(names[0]));
    let workers = managers[1].pids();
    managers[1].signal(Signal::SIGSTOP);
    wait_until("its workers are gone", || workers.iter().all(|pid| !runs(*pid)));
    let others: Vec<&str> = names.iter().copied().filter(|name| *name != names[1]).collect();
    scene.wait("a manager was frozen", &others);
    managers[1].signal(Signal::SIGCONT);
}

/// Whoever works on a camera under a term stops before anybody begins under the next one, by what they put out.
fn judge(scene: Scene, managers: Vec<Manager>) {
    for manager in managers {
        manager.process.leave();
    }
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
    let moved = last.values().filter(|(token, _)| *token > 1).count();
    assert!(moved * 2 >= scene.cameras, "of {} cameras {moved} changed hands", scene.cameras);
    println!("{} events were accepted", events.len());
    scene.consumer.leave();
    scene.house.assert_no_orphans();
}

// proves R215, R216, R218, R220, R227, R243, C46, C52
#[test]
fn the_worker_of_the_examples_puts_out_what_counts_whatever_happens_to_it() {
    let broker = RabbitMq::start();
    let scene = Scene::start(&broker, Place::new(), 6, 5);
    let names = ["one", "two"];
    let mut managers: Vec<Manager> = names.map(|name| scene.manager(name)).into();
    scene.wait("two managers work", &names);
    managers_go(&scene, &mut managers, &names);
    judge(scene, managers);
}

/// Three managers, sixty-four cameras, and everybody whom they need is away for a while.
fn campaign(place: Place) {
    let mut broker = RabbitMq::start();
    let mut scene = Scene::start(&broker, place, 64, 1);
    let names = ["one", "two", "three"];
    let mut managers: Vec<Manager> = names.map(|name| scene.manager(name)).into();
    scene.wait("three managers work", &names);
    managers_go(&scene, &mut managers, &names);
    for (plane, with_broker) in [(true, false), (false, true), (true, true)] {
        if plane {
            scene.house.plane.kill();
        }
        if with_broker {
            broker.kill();
        }
        std::thread::sleep(Duration::from_secs(12));
        if with_broker {
            broker.restart();
        }
        if plane {
            scene.house.plane.again();
        }
        scene.wait("somebody was away", &names);
    }
    judge(scene, managers);
}

// proves R216, R227, C45, C46, C52, C61
#[test]
#[ignore = "run by ./test --long"]
fn behind_the_consumer_nothing_of_a_former_owner_counts_on_sqlite() {
    campaign(Place::new());
}

// proves R216, R227, C45, C46, C52, C61
#[test]
#[ignore = "run by ./test --long"]
fn behind_the_consumer_nothing_of_a_former_owner_counts_on_postgresql() {
    let server = Postgres::start();
    campaign(on_postgresql(&server));
}
