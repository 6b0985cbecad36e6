//! Three managers and everything that can happen to them, judged by what their workers wrote and by the ledger.

use std::time::Duration;

use leasehold_testkit::{Postgres, RabbitMq};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::fleet::Plane;
use crate::house::{House, Manager};
use crate::support::{Place, runs, wait_until};

const NAMES: [&str; 3] = ["one", "two", "three"];

/// How much is done.
struct Campaign {
    cameras: usize,
    /// For how long the control plane is away, one after the other.
    away: &'static [u64],
    degraded: bool,
    /// Whether everything is done that can be done to managers and workers.
    whole: bool,
}

struct Scene {
    house: House,
    broker: Option<RabbitMq>,
    settings: String,
    cameras: usize,
}

impl Scene {
    fn start(&self, name: &str) -> Manager {
        self.house.manager(name, &self.settings)
    }

    /// Waits until every camera is worked on, and says what came before.
    fn wait(&self, what: &str) {
        println!("{what}");
        self.house.wait_for_work(self.cameras);
    }

    fn victim(&self) -> u32 {
        self.house.wait_for_work(self.cameras).values().next().expect("a worker").pid
    }
}

fn kill_one(pid: u32) {
    // It may have ended meanwhile.
    let _ = kill(Pid::from_raw(i32::try_from(pid).expect("a process id")), Signal::SIGKILL);
}

fn campaign(place: Place, what: &Campaign) {
    let broker = what.degraded.then(RabbitMq::start);
    let url = broker.as_ref().map(RabbitMq::url);
    // What is granted while the control plane is away is kept for as long as a runner may go on.
    let grace = if what.degraded { "90s" } else { "0s" };
    let house = House::with(Plane::start(place, &["--outage-grace", grace], url.as_deref()), what.cameras);
    let policy = url.map_or(String::new(), |url| {
        format!("outage_policy = \"degraded\"\noutage_grace_seconds = 80\nevents_url = \"{url}\"\n")
    });
    let command = house.settings("any", "127.0.0.1:0", "");
    let command =
        command.lines().find_map(|line| line.strip_prefix("worker_command = [")).expect("a command");
    let command = command.trim_end_matches(']');
    let settings = format!(
        "{policy}lease_ttl_seconds = {}\nmax_cameras_per_worker = {}\nworker_command = [{command}, \"--tick\", \"0.2\"]",
        if what.whole { 9 } else { 8 },
        what.cameras / 4 + 1
    );
    let scene = Scene { house, broker, settings, cameras: what.cameras };
    let mut managers: Vec<Manager> = NAMES.map(|name| scene.start(name)).into();
    scene.wait("three managers");

    workers_misbehave(&scene, what.whole);
    managers_go(&scene, &mut managers, what.whole);
    let mut scene = scene;
    for seconds in what.away {
        scene.house.plane.kill();
        std::thread::sleep(Duration::from_secs(*seconds));
        scene.house.plane.again();
        scene.wait(&format!("the control plane was away for {seconds} s"));
    }
    brokers_go(&mut scene);

    assert_eq!(managers[0].ask("POST", "/drain?mode=hard").0, 202);
    wait_until("it has nothing", || managers[0].told("cameras_held") == json!(0));
    scene.wait("one was drained");
    for manager in managers {
        manager.process.leave();
    }
    scene.house.assert_no_orphans();
    let refused = scene.house.assert_stale_output_is_marked();
    if !what.degraded {
        scene.house.assert_one_owner_at_a_time();
    }
    let verdict = scene.house.plane.place.ask(&["verify", "--clock-error", "10ms"]);
    assert_eq!(verdict.code, Some(0), "{}{}", verdict.out, verdict.err);
    println!("{} lines were written, {refused} of them for a fence to refuse", scene.house.lines().len());
}

/// One is killed, one hangs, one is deaf and leaves children behind.
fn workers_misbehave(scene: &Scene, whole: bool) {
    kill_one(scene.victim());
    scene.wait("a worker was killed");
    if !whole {
        return;
    }
    let hung = scene.house.wait_for_work(scene.cameras).values().find(|line| line.runner == "two").cloned();
    let hung = hung.expect("a worker of two");
    scene.house.behave("two", hung.shard, "hang deaf leak");
    wait_until("it is ended", || !runs(hung.pid));
    scene.house.behave("two", hung.shard, "leak");
    scene.wait("a worker hung, and was deaf");
    scene.house.behave("three", 0, "stubborn careless leak");
    std::thread::sleep(Duration::from_secs(3));
    scene.house.behave("three", 0, "leak");
    scene.wait("a worker did not look at its configuration");
}

/// One manager is killed and comes back, one is frozen until others have what it had.
fn managers_go(scene: &Scene, managers: &mut Vec<Manager>, whole: bool) {
    let workers = managers[0].pids();
    drop(managers.remove(0));
    wait_until("its workers are gone", || workers.iter().all(|pid| !runs(*pid)));
    scene.wait("a manager was killed");
    managers.insert(0, scene.start("one"));
    scene.wait("it is back");
    if !whole {
        return;
    }
    let workers = managers[1].pids();
    managers[1].signal(Signal::SIGSTOP);
    wait_until("its workers are gone", || workers.iter().all(|pid| !runs(*pid)));
    scene.wait("a manager was frozen");
    managers[1].signal(Signal::SIGCONT);
    wait_until("it is told", || managers[1].told("mode") == "active");
    scene.wait("it goes on");
}

/// The broker is away, and then both.
fn brokers_go(scene: &mut Scene) {
    let Some(mut broker) = scene.broker.take() else { return };
    broker.kill();
    std::thread::sleep(Duration::from_secs(10));
    scene.wait("the broker is away");
    scene.house.plane.kill();
    std::thread::sleep(Duration::from_secs(15));
    scene.wait("both are away");
    scene.house.plane.again();
    broker.restart();
    scene.wait("both are back");
    scene.broker = Some(broker);
}

/// A place on this server.
pub(crate) fn on_postgresql(server: &Postgres) -> Place {
    server.create("plane");
    let place = Place::on(server.url("plane"));
    // A store that nobody has ever used need not wait for those who hold something in it.
    place.told(&["migrate", "--fresh"]);
    place
}

// proves R216, R227, C45, C46, C52
#[test]
fn three_managers_never_work_on_one_camera_at_once() {
    campaign(Place::new(), &Campaign { cameras: 24, away: &[8], degraded: false, whole: false });
}

// proves R216, R227, C45, C46, C52, C61
#[test]
#[ignore = "run by ./test --long"]
fn three_managers_and_sixty_four_cameras_on_sqlite() {
    campaign(Place::new(), &Campaign { cameras: 64, away: &[10, 30, 60], degraded: false, whole: true });
}

// proves R216, R227, C45, C46, C52, C61
#[test]
#[ignore = "run by ./test --long"]
fn three_managers_and_sixty_four_cameras_on_postgresql() {
    let server = Postgres::start();
    campaign(
        on_postgresql(&server),
        &Campaign { cameras: 64, away: &[10, 30, 60], degraded: false, whole: true },
    );
}

// proves R222, R227, R237, C45, C46
#[test]
#[ignore = "run by ./test --long"]
fn three_managers_that_go_on_degraded_put_out_nothing_stale_that_is_not_marked() {
    campaign(Place::new(), &Campaign { cameras: 64, away: &[10, 30, 60], degraded: true, whole: true });
}
