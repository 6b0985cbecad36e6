//! The broker is away and the control plane killed meanwhile, while leases are acquired, renewed and released.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::RabbitMq;
use serde_json::Value;

use crate::fleet::{Consumer, Plane, path, tell, wanted};
use crate::support::{Place, wait_until};

/// Runners that ask at the same time, and how many cameras each has to itself.
const RUNNERS: [&str; 4] = ["one", "two", "three", "four"];
const CAMERAS: usize = 3;
/// How long a runner rests between two requests.
const REST: Duration = Duration::from_millis(10);
/// How long events may take to arrive after everybody is back.
const PATIENCE: Duration = Duration::from_secs(180);

/// What a runner was answered.
#[derive(Default)]
struct Answers {
    acquired: BTreeSet<String>,
    released: BTreeSet<String>,
    requests: usize,
    unanswered: usize,
}

/// Takes its cameras and lets them go, again and again. Whoever gets no answer asks again.
fn work(address: &str, runner: &str, first: usize, stop: &AtomicBool) -> Answers {
    let mut answers = Answers::default();
    let mut ask = |method: &str, path: &str, body: &Value| loop {
        std::thread::sleep(REST);
        answers.requests += 1;
        match tell(address, method, path, "", body) {
            Some((code, said)) if code < 500 => break (code, said),
            _ => answers.unanswered += 1,
        }
    };
    let (mut acquired, mut released) = (BTreeSet::new(), BTreeSet::new());
    for turn in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let camera = format!("cam-{}", first + turn % CAMERAS);
        let (code, lease) = ask("POST", "/api/v1/leases/acquire/", &wanted(&camera, runner, 60));
        assert!(code == 200 || code == 201, "{runner} and {camera}: {code} {lease}");
        let id = lease["lease_id"].as_str().expect("a lease").to_owned();
        let (code, said) = ask("PUT", &path(&lease, "renew"), &Value::Null);
        assert_eq!(code, 200, "{runner} and {camera}: {said}");
        acquired.insert(id.clone());
        let (code, said) = ask("DELETE", &path(&lease, "release"), &Value::Null);
        assert_eq!(code, 200, "{runner} and {camera}: {said}");
        released.insert(id);
    }
    Answers { acquired, released, ..answers }
}

/// Has the broker away for this long, and the control plane killed twice: while it is, and when it has just come back.
fn storm(away: Duration) {
    let mut broker = RabbitMq::start();
    let mut consumer = Consumer::bind(broker.url());
    let mut plane = Plane::start(Place::new(), &[], Some(&broker.url()));
    plane.populate(RUNNERS.len() * CAMERAS, &RUNNERS);
    let (stop, address) = (AtomicBool::new(false), plane.address.clone());
    let answers: Vec<Answers> = std::thread::scope(|scope| {
        let working: Vec<_> = RUNNERS
            .iter()
            .enumerate()
            .map(|(number, runner)| {
                let (address, stop) = (&address, &stop);
                scope.spawn(move || work(address, runner, number * CAMERAS, stop))
            })
            .collect();
        let rest = |part: u32| std::thread::sleep(away / part);
        rest(4);
        wait_until("events arrive", || {
            consumer.listen();
            !consumer.arrived.is_empty()
        });
        broker.kill();
        rest(2);
        plane.kill();
        rest(8);
        plane.again();
        rest(2);
        broker.restart();
        rest(8);
        plane.kill();
        plane.again();
        rest(8);
        stop.store(true, Ordering::Relaxed);
        working.into_iter().map(|one| one.join().expect("a runner")).collect()
    });

    let began = clock::now();
    let committed = loop {
        consumer.listen();
        let here: BTreeSet<&str> =
            consumer.arrived.iter().filter_map(|(_, event)| event["id"].as_str()).collect();
        let committed = plane.audited();
        let is_here = |event: &Value| here.contains(event["event_id"].as_str().expect("an id"));
        if committed.iter().all(is_here) {
            break committed;
        }
        assert!(
            clock::now().since(began) < PATIENCE,
            "{} of {} events are here",
            here.len(),
            committed.len()
        );
        std::thread::sleep(Duration::from_millis(200));
    };
    let took = clock::now().since(began);
    let repeated = judge(&committed, &consumer.arrived);
    let sum = |of: fn(&Answers) -> usize| answers.iter().map(of).sum::<usize>();
    println!(
        "{} requests, {} of them without an answer; {} leases; {} events committed, {} arrived twice, all within {took:.1?}",
        sum(|one| one.requests),
        sum(|one| one.unanswered),
        sum(|one| one.acquired.len()),
        committed.len(),
        repeated,
    );
    assert!(sum(|one| one.unanswered) > 0, "the control plane was away");
    for answers in &answers {
        assert_told(&committed, "lease_acquired", &answers.acquired);
        assert_told(&committed, "lease_released", &answers.released);
    }
}

/// What a runner was answered was told, once.
fn assert_told(committed: &[Value], kind: &str, answered: &BTreeSet<String>) {
    let of_kind = committed.iter().filter(|event| event["event_type"] == kind);
    let told: Vec<&str> = of_kind.filter_map(|event| event["lease_id"].as_str()).collect();
    let once: BTreeSet<&str> = told.iter().copied().collect();
    assert_eq!(told.len(), once.len(), "a lease has one {kind}");
    let missing: Vec<_> = answered.iter().filter(|id| !once.contains(id.as_str())).collect();
    assert!(missing.is_empty(), "no {kind} of {missing:?}");
}

/// Judges what arrived: all that was committed and nothing else, of each camera for the first time in its order. Says how many came
/// again.
fn judge(committed: &[Value], arrived: &[(String, Value)]) -> usize {
    let by_id: BTreeMap<&str, &Value> =
        committed.iter().map(|event| (event["event_id"].as_str().expect("an id"), event)).collect();
    let (mut seen, mut last) = (BTreeSet::new(), BTreeMap::new());
    for (key, event) in arrived.iter().filter(|(_, event)| event["event_type"].is_string()) {
        let (id, camera) =
            (event["id"].as_str().expect("an id"), event["camera_uuid"].as_str().expect("a camera"));
        let known = by_id.get(id).unwrap_or_else(|| panic!("{event} did not commit"));
        for field in ["event_type", "lease_id", "camera_uuid", "runner_id", "timestamp"] {
            assert_eq!(known[field], event[field], "{field} of {id}");
        }
        let word = event["event_type"].as_str().expect("a word").trim_start_matches("lease_");
        assert_eq!(*key, format!("lease.{word}.tenant-1.site-1.{camera}"));
        if seen.insert(id) {
            let row = event["row"].as_u64().expect("a row");
            assert!(last.insert(camera, row).unwrap_or(0) < row, "{id} came late");
        }
    }
    assert_eq!(seen.len(), by_id.len(), "every event that was committed has arrived");
    arrived.len() - seen.len()
}

// proves R154, R227, R228, U18, C46
#[test]
fn every_event_arrives_though_the_broker_was_away_and_the_control_plane_killed_meanwhile() {
    storm(Duration::from_secs(8));
}

// proves R154, R227, R228, U18, C46
#[test]
#[ignore = "run by ./test --long"]
fn every_event_arrives_though_the_broker_was_away_for_a_minute() {
    storm(Duration::from_secs(60));
}
