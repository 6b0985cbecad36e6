//! Five replicas on three etcd members for two minutes, and whatever can happen to both.
//!
//! `STORM_SEED` repeats the dice of a run, though not its timing nor who leads when; `STORM_SECONDS` makes it longer.

mod stage;

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::clock::{Clock, SystemClock};
use leasehold_testkit::Faults;
use nix::sys::signal::Signal;
use stage::{CONTROLLER, SCHEDULER, Stage, TTL};

const NAMES: [&str; 5] = ["one", "two", "three", "four", "five"];

/// What can happen to a replica.
#[derive(Debug, Clone, Copy)]
enum Mishap {
    Killed,
    Frozen,
    CutOff,
    AnswersLost,
    Leaves,
}

const MISHAPS: [Mishap; 5] =
    [Mishap::Killed, Mishap::Frozen, Mishap::CutOff, Mishap::AnswersLost, Mishap::Leaves];

/// What can happen to the member of etcd that leads, now and then.
#[derive(Debug, Clone, Copy)]
enum Outage {
    None,
    Killed,
    Paused,
}

const OUTAGES: [Outage; 4] = [Outage::None, Outage::Killed, Outage::None, Outage::Paused];

struct Storm {
    stage: Stage,
    dice: u64,
    counts: BTreeMap<String, usize>,
}

impl Storm {
    fn roll(&mut self, below: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        usize::try_from(self.dice % u64::try_from(below).unwrap()).unwrap()
    }

    /// Waits for any part of a duration.
    fn pause(&mut self, at_most: Duration) {
        let part = u32::try_from(self.roll(1000)).unwrap();
        std::thread::sleep(at_most * part / 1000);
    }

    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    /// One mishap, maybe during an outage, and both mended.
    fn round(&mut self, number: usize) {
        let (mishap, outage) = (MISHAPS[number % MISHAPS.len()], OUTAGES[number % OUTAGES.len()]);
        // The one that leads in two of three rounds, as far as can be told. Dice are rolled the same whoever leads.
        let (the_leader, any) = (self.roll(3) > 0, NAMES[self.roll(NAMES.len())]);
        let leader = self.stage.leader(SCHEDULER).filter(|_| the_leader);
        let name = leader.unwrap_or_else(|| any.to_owned());
        let member = self.stage.cluster.leader();
        match outage {
            Outage::None => {}
            Outage::Killed => self.stage.cluster.kill(member),
            Outage::Paused => self.stage.cluster.pause(member),
        }
        self.pause(TTL / 3);
        self.count(&format!("replica {mishap:?}"));
        self.count(&format!("etcd's leader {outage:?}"));
        match mishap {
            Mishap::Killed => self.stage.end(&name, Signal::SIGKILL),
            Mishap::Leaves => self.stage.signal(&name, Signal::SIGTERM),
            Mishap::Frozen => self.stage.signal(&name, Signal::SIGSTOP),
            Mishap::CutOff => self.stage.ways(&name).iter().for_each(|way| way.set(Faults::cut())),
            Mishap::AnswersLost => {
                let lost = Faults { swallow_down: true, ..Faults::default() };
                self.stage.ways(&name).iter().for_each(|way| way.set(lost));
            }
        }
        std::thread::sleep(TTL / 2);
        self.pause(TTL);
        match outage {
            Outage::None => {}
            Outage::Killed => self.stage.cluster.start_again(member),
            Outage::Paused => self.stage.cluster.resume(member),
        }
        self.pause(TTL / 2);
        match mishap {
            Mishap::Killed => self.stage.enter(&name),
            Mishap::Leaves => {
                self.stage.end(&name, Signal::SIGTERM);
                self.stage.enter(&name);
            }
            Mishap::Frozen => self.stage.signal(&name, Signal::SIGCONT),
            Mishap::CutOff | Mishap::AnswersLost => {
                self.stage.ways(&name).iter().for_each(|way| way.heal());
            }
        }
        self.pause(TTL);
    }
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

// proves R110, R111, R112, R113, C36, C38, C39, C40
#[test]
#[ignore = "run by ./test --long"]
fn nothing_is_scheduled_twice_and_nothing_is_forgotten() {
    let seed = variable("STORM_SEED", u64::from(std::process::id()));
    let lasts = Duration::from_secs(variable("STORM_SECONDS", 120));
    println!("STORM_SEED={seed}");
    let mut stage = Stage::on(3);
    ["a", "b", "c", "d"].iter().for_each(|worker| stage.add_worker(worker, 100_000));
    NAMES.iter().for_each(|name| stage.enter(name));
    let creator = stage.create_instances(Duration::from_millis(30));
    stage.until_led("");
    stage.until_more(20);
    let mut storm =
        Storm { stage, dice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, counts: BTreeMap::new() };
    let ends = SystemClock.now().after(lasts);
    let mut rounds = 0;
    while SystemClock.now() < ends {
        storm.round(rounds);
        rounds += 1;
    }
    let Storm { stage, counts, .. } = storm;
    let created = creator.stop();
    stage.judge(created);
    println!("{rounds} rounds: {counts:?}");
    println!("{created} instances, each assigned once; refused or unanswered writes: {}", broken(&stage));
    for key in [SCHEDULER, CONTROLLER] {
        let verdict = stage.judge_ledger(key);
        let terms: usize = verdict.resources.iter().map(|seat| seat.terms).sum();
        println!("{key}: {terms} terms, {verdict}, {} undecided", verdict.undecided.len());
    }
    assert!(rounds >= MISHAPS.len(), "every mishap came about");
}

/// How many writes of a leader came to nothing or may have.
fn broken(stage: &Stage) -> usize {
    let lines = |name: &&str| {
        stage.log(name).matches("refused, for").count() + stage.log(name).matches("not known whether").count()
    };
    NAMES.iter().map(lines).sum()
}
