//! Ten instances and a hundred endpoints through minutes of everything that happens; and scale.

use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::{Faults, Proxy};
use nix::sys::signal::Signal;

use crate::fleet::{BUSY, Fleet, millis};

const TTL: Duration = Duration::from_secs(6);

/// Says how long the endpoints of an instance were left alone.
fn told(what: &str, mut takeovers: Vec<Duration>) -> Vec<Duration> {
    takeovers.sort_unstable();
    println!("{what}: {takeovers:?}");
    takeovers
}

// proves R096, R097, R098, R100, C16, C17, C20
#[test]
#[ignore = "run by ./test --long"]
fn ten_instances_and_a_hundred_endpoints_for_minutes() {
    let mut fleet = Fleet::new(100);
    fleet.ttl = TTL;
    let interval = millis(Duration::from_millis(400));
    let names: Vec<String> = (0..10).map(|number| format!("i{number}")).collect();
    let ways: Vec<Proxy> = names.iter().map(|_| Proxy::to(fleet.redis.port())).collect();
    let enter = |fleet: &mut Fleet, number: usize| {
        let url = format!("redis://127.0.0.1:{}", ways[number].port());
        fleet.enter_by(&names[number], &url, &["--interval", &interval]);
    };
    (0..10).for_each(|number| enter(&mut fleet, number));
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    fleet.until_shared(&all, &[10; 10]);
    let (began, mut gone) = (clock::now(), Vec::new());
    for round in 0..3 {
        let victim = |step: usize| (round * 4 + step) % 10;
        // Killed, and started again.
        let number = victim(0);
        let killed = fleet.kill(&names[number]);
        let others: Vec<&str> = all.iter().copied().filter(|name| *name != names[number]).collect();
        fleet.until_shared(&others, &[11, 11, 11, 11, 11, 11, 11, 11, 12]);
        gone.extend(told("killed", fleet.takeovers(&names[number], killed)));
        enter(&mut fleet, number);
        fleet.until_shared(&all, &[10; 10]);
        // Frozen for longer than it is trusted.
        let number = victim(1);
        let frozen = clock::now();
        fleet.signal(&names[number], Signal::SIGSTOP);
        let others: Vec<&str> = all.iter().copied().filter(|name| *name != names[number]).collect();
        fleet.until_shared(&others, &[11, 11, 11, 11, 11, 11, 11, 11, 12]);
        gone.extend(told("frozen", fleet.takeovers(&names[number], frozen)));
        fleet.signal(&names[number], Signal::SIGCONT);
        fleet.until_shared(&all, &[10; 10]);
        // Cut off.
        let number = victim(2);
        let cut = clock::now();
        ways[number].set(Faults::cut());
        let others: Vec<&str> = all.iter().copied().filter(|name| *name != names[number]).collect();
        fleet.until_shared(&others, &[11, 11, 11, 11, 11, 11, 11, 11, 12]);
        gone.extend(told("cut off", fleet.takeovers(&names[number], cut)));
        ways[number].heal();
        fleet.until_shared(&all, &[10; 10]);
        // Redis itself.
        fleet.redis.restart();
        fleet.go_on();
        fleet.until_shared(&all, &[10; 10]);
    }
    fleet.witness.verify();
    let (asks, took) = (fleet.witness.since(began).len(), clock::now().since(began));
    gone.sort_unstable();
    let (half, most, last) = (gone[gone.len() / 2], gone[gone.len() * 9 / 10], gone[gone.len() - 1]);
    println!("{asks} polls in {took:?}, none twice");
    println!(
        "{} endpoints lost their instance and were polled again after {half:?} (half of them), {most:?} (nine of ten) and {last:?} \
         (all), with a TTL of {TTL:?}",
        gone.len()
    );
    let promised = TTL + Duration::from_secs(1);
    assert!(most < promised, "{most:?}");
    assert!(last < promised + BUSY, "{last:?}");
}

// proves R066, R100: a minute without Redis
#[test]
#[ignore = "run by ./test --long"]
fn redis_is_away_for_a_minute() {
    let mut fleet = Fleet::new(20);
    fleet.ttl = Duration::from_secs(30);
    let names = ["one", "two", "three", "four"];
    names.iter().for_each(|name| fleet.enter(name));
    fleet.until_shared(&names, &[5, 5, 5, 5]);
    let away = clock::now();
    fleet.redis.kill();
    std::thread::sleep(Duration::from_secs(60));
    let last = fleet.witness.asks().iter().map(|ask| ask.from).max().unwrap();
    println!("the last poll was {:?} after Redis had gone, with a TTL of 30s", last.since(away));
    assert!(last.since(away) < Duration::from_secs(30), "{:?}", last.since(away));
    fleet.redis.restart();
    let back = clock::now();
    fleet.go_on();
    println!("everything was polled again {:?} after Redis was back", clock::now().since(back));
    fleet.until_shared(&names, &[5, 5, 5, 5]);
    fleet.witness.verify();
}
