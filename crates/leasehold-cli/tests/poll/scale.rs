//! A hundred instances and ten thousand endpoints on one Redis: what they cost it while nothing happens.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::{Persistence, RedisSetup};

use crate::fleet::Fleet;

/// Unless `LEASEHOLD_SCALE` says otherwise, as in `20x2000`.
const INSTANCES: usize = 100;
const ENDPOINTS: usize = 10_000;
/// How long anything may take until everything is quiet.
const PATIENCE: Duration = Duration::from_secs(900);
/// How long it is measured.
const MEASURED: Duration = Duration::from_secs(60);

/// Processor time that a process has used.
fn used_by(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // In user and in kernel mode, in hundredths of a second.
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up_at = clock::now().after(PATIENCE);
    while !holds() {
        assert!(clock::now() < give_up_at, "waited in vain until {what}");
        std::thread::sleep(Duration::from_secs(1));
    }
}

// proves U13, R098: below a tenth of a core
#[test]
#[ignore = "run by ./test --long"]
fn a_hundred_instances_and_ten_thousand_endpoints_cost_redis_little() {
    let given = std::env::var("LEASEHOLD_SCALE").unwrap_or_default();
    let given = given.split_once('x').and_then(|(one, two)| Some((one.parse().ok()?, two.parse().ok()?)));
    let (instances, endpoints): (usize, usize) = given.unwrap_or((INSTANCES, ENDPOINTS));
    let setup = RedisSetup { persistence: Persistence::EverySecond, ..RedisSetup::default() };
    let mut fleet = Fleet::with(0, setup);
    fleet.ttl = Duration::from_secs(30);
    fleet.witness.hang_up();
    let (url, began) = (fleet.redis.url(), clock::now());
    for number in 0..instances {
        fleet.enter_by(&format!("i{number}"), &url, &["--interval", "30s", "--log", "error"]);
    }
    until("all are there", || {
        let told = fleet.place.json(&["status"]);
        told["pools"][0]["members"].as_array().is_some_and(|members| members.len() == instances)
    });
    println!("{instances} instances are there after {:?}", clock::now().since(began));
    let write = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'session:e' .. i, \
        '{\"id\":\"e' .. i .. '\",\"name\":\"n\",\"address\":\"' .. ARGV[2] .. i .. '\",\"isOnline\":true}') end";
    fleet.redis.cli(&["EVAL", write, "0", &endpoints.to_string(), &fleet.witness.url("e")]);
    let written = clock::now();
    until("everything is polled", || fleet.witness.newest().len() == endpoints);
    println!("{endpoints} endpoints are polled after {:?}", clock::now().since(written));
    until("shares are equal", || {
        let mut shares: BTreeMap<String, usize> = BTreeMap::new();
        for ask in fleet.witness.newest().into_values() {
            *shares.entry(ask.name).or_default() += 1;
        }
        shares.len() == instances && shares.values().all(|share| *share == endpoints / instances)
    });
    println!("shared equally after {:?}", clock::now().since(written));
    std::thread::sleep(Duration::from_secs(30));
    let server = fleet.redis.process().id();
    fleet.redis.cli(&["CONFIG", "RESETSTAT"]);
    let (before, polled) = (used_by(server), fleet.witness.asks().len());
    std::thread::sleep(MEASURED);
    let used = (used_by(server) - before).as_secs_f64() / MEASURED.as_secs_f64();
    let polls = (fleet.witness.asks().len() - polled) as f64 / MEASURED.as_secs_f64();
    println!("Redis uses {used:.3} of a core in steady state, with {polls:.0} polls a second");
    println!("{}", fleet.redis.cli(&["INFO", "commandstats"]));
    fleet.witness.verify();
    assert!(used < 0.1, "{used:.3} of a core");
}
