//! A hot standby whose supervisor is killed or frozen, judged by what it wrote.

use std::process::Command;
use std::time::Duration;

use leasehold::clock;
use nix::sys::signal::Signal;

use crate::supervised::{SLACK, STAMPS, Supervised, last_stamp};
use crate::support::{example, lines, members, runs, send, wait_for};

const TTL: Duration = Duration::from_millis(1500);
/// The supervisor moves the deadline on five times in each TTL while it is elected.
const PERIOD: Duration = Duration::from_millis(300);

/// A supervisor whose standby writes the time, and `leads` and `stops` when it is told so, which it does not do.
fn start() -> Supervised {
    let mut supervisor = Command::new(example("standby"));
    supervisor.arg(TTL.as_millis().to_string());
    let traps = "trap 'echo leads >>$0' USR1; trap 'echo stops >>$0' USR2";
    Supervised::start(supervisor, &format!("(trap '' TERM HUP; sleep 1000) & {traps}; {STAMPS}"))
}

fn wait_until_written(supervised: &Supervised, word: &str) {
    wait_for(word, || lines(&supervised.stamps).contains(&word.to_owned()).then_some(()));
}

fn promote(supervised: &mut Supervised) {
    supervised.order("promote 7");
    supervised.wait_until_said("promoted 7");
    wait_until_written(supervised, "leads");
}

fn kill_and_see_nothing_left(mut supervised: Supervised) {
    assert!(members(supervised.child).len() >= 2);
    let killed_at = clock::now();
    send(supervised.supervisor.id(), Signal::SIGKILL);
    supervised.supervisor.wait().expect("a dead supervisor");
    supervised.wait_until_group_is_dead();
    assert!(clock::now().since(killed_at) < Duration::from_secs(1));
    wait_for("the deadman has gone too", || (!runs(supervised.deadman)).then_some(()));
}

#[test]
fn a_killed_supervisor_leaves_no_standby_behind() {
    kill_and_see_nothing_left(start());
}

#[test]
fn a_killed_supervisor_leaves_no_leader_behind() {
    let mut supervised = start();
    promote(&mut supervised);
    kill_and_see_nothing_left(supervised);
}

#[test]
fn a_frozen_supervisor_keeps_its_standby_but_no_leader_past_the_deadline() {
    let mut supervised = start();
    send(supervised.supervisor.id(), Signal::SIGSTOP);
    let first = last_stamp(&supervised.stamps);
    wait_for("a standby lives on", || {
        (last_stamp(&supervised.stamps) > first.after(TTL * 4 / 3)).then_some(())
    });
    send(supervised.supervisor.id(), Signal::SIGCONT);

    promote(&mut supervised);
    let first = last_stamp(&supervised.stamps);
    wait_for("a TTL of work", || (last_stamp(&supervised.stamps) > first.after(TTL * 4 / 3)).then_some(()));
    send(supervised.supervisor.id(), Signal::SIGSTOP);
    supervised.wait_until_group_is_dead();
    let (last, kill_at) = (last_stamp(&supervised.stamps), supervised.kill_at());
    assert!(last <= kill_at.after(SLACK), "ran {:?} too long", last.since(kill_at));
    // The last word of the supervisor may not have reached the deadman, but the one before has.
    let earliest = kill_at.before(PERIOD + SLACK * 2);
    assert!(last >= earliest, "killed {:?} too early", earliest.since(last));
    assert!(lines(&supervised.stamps).contains(&"term".to_owned()), "it was not asked to end first");

    send(supervised.supervisor.id(), Signal::SIGCONT);
    supervised.wait_until_said("exit signal SIGKILL");
}

#[test]
fn a_supervisor_that_freezes_while_it_demotes_keeps_the_earlier_deadline() {
    let mut supervised = start();
    promote(&mut supervised);
    supervised.order("demote 700");
    wait_until_written(&supervised, "stops");
    send(supervised.supervisor.id(), Signal::SIGSTOP);
    supervised.wait_until_group_is_dead();
    let by = supervised.moment("demote-by ").expect("a deadline");
    let last = last_stamp(&supervised.stamps);
    assert!(last <= by.after(SLACK), "ran {:?} too long", last.since(by));
    assert!(by.after(SLACK * 2) < supervised.kill_at(), "the general deadline would not have been later");
    assert!(!lines(&supervised.stamps).contains(&"term".to_owned()));
}
