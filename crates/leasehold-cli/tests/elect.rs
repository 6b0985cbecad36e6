//! `elect` with real processes, judged by what the leaders' commands wrote.

mod support;

#[path = "elect/etcd.rs"]
mod etcd;
#[path = "elect/health.rs"]
mod health;
#[path = "elect/refused.rs"]
mod refused;
#[path = "elect/standby.rs"]
mod standby;

use std::time::Duration;

use leasehold::clock::{self, Moment};
use nix::sys::signal::Signal;

use support::{Member, PATIENCE, Place, leasehold, ran, wait_for, wait_until};

const KEY: &str = "/ccm/scheduler/leader";
const TTL: Duration = Duration::from_secs(3);

/// Leads as every leader here does: it writes its resource, its token and its name again and again.
const LEAD: &str = "while :; do echo $LEASEHOLD_RESOURCE $LEASEHOLD_TOKEN $1 >> $0; sleep 0.02; done";

/// A candidate that leads like that.
fn candidate(place: &Place, name: &str, options: &[&str]) -> Member {
    let journal = place.path("journal").display().to_string();
    run(place, name, options, &["sh", "-c", LEAD, &journal, name])
}

/// A candidate that runs `command` while it leads.
fn run(place: &Place, name: &str, options: &[&str], command: &[&str]) -> Member {
    let mut elect = leasehold();
    elect.args(["elect", "--store", &place.url(), "--key", KEY, "--name", name, "--ttl", "3s"]).args(options);
    place.start(name, elect.arg("--").args(command))
}

/// Waits until one of these leads, and says which and with which token.
fn leader_of(place: &Place, names: &[&str], above: u64) -> (String, u64) {
    wait_for(&format!("one of {names:?} leads under a token above {above}"), || {
        let (_, token, name) = place.ticks().pop()?;
        (token > above && names.contains(&name.as_str())).then_some((name, token))
    })
}

/// How long after `from` another leads.
fn until_next_leads(place: &Place, names: &[&str], above: u64, from: Moment) -> Duration {
    leader_of(place, names, above);
    clock::now().since(from)
}

fn assert_never_two(place: &Place) {
    place.assert_one_owner_at_a_time();
    let verdict = place.ask(&["verify"]);
    assert_eq!(verdict.code, Some(0), "{}{}", verdict.out, verdict.err);
    assert!(verdict.out.contains("overlap 0 s"), "{}", verdict.out);
}

/// Two candidates, the first of which leads.
fn two(place: &Place) -> (Member, Member, u64) {
    let one = candidate(place, "one", &[]);
    let (_, token) = leader_of(place, &["one"], 0);
    let two = candidate(place, "two", &[]);
    wait_until("two has joined", || two.log().contains("member joined"));
    (one, two, token)
}

// proves R113, R119, R120, C36
#[test]
fn after_kill_9_the_other_leads_within_the_ttl() {
    let place = Place::new();
    let (one, _two, token) = two(&place);
    let killed = clock::now();
    one.signal(Signal::SIGKILL);
    let gap = until_next_leads(&place, &["two"], token, killed);
    println!("after kill -9: {gap:?} with a TTL of {TTL:?}");
    // The promise is a TTL and a second; what is beyond it here is for machines that are busy with other tests.
    assert!(gap < TTL * 3, "nobody led for {gap:?}");
    assert_never_two(&place);
}

// proves R121
#[test]
fn after_sigterm_the_other_leads_at_once() {
    let place = Place::new();
    let (one, _two, token) = two(&place);
    let told = clock::now();
    one.signal(Signal::SIGTERM);
    let gap = until_next_leads(&place, &["two"], token, told);
    println!("after SIGTERM: {gap:?}");
    assert!(gap < TTL, "nobody led for {gap:?}");
    one.leave();
    assert_never_two(&place);
}

// proves C22, C36, C52
#[test]
fn the_command_of_a_frozen_leader_is_dead_before_another_leads() {
    let place = Place::new();
    let (one, _two, token) = two(&place);
    one.signal(Signal::SIGSTOP);
    let (_, newer) = leader_of(&place, &["two"], token);
    one.signal(Signal::SIGCONT);
    wait_until("it is a candidate again", || one.log().contains("no longer leading"));
    assert_eq!(leader_of(&place, &["one", "two"], token), ("two".to_owned(), newer));
    assert_never_two(&place);
}

#[test]
fn a_command_that_dies_at_once_makes_way_for_another_candidate() {
    let place = Place::new();
    let broken = run(&place, "broken", &[], &["sh", "-c", "exit 3"]);
    wait_until("it was elected", || broken.log().contains("elected"));
    let _sound = candidate(&place, "sound", &[]);
    leader_of(&place, &["sound"], 0);
    let said = broken.log();
    assert!(said.contains("exit code 3") && said.contains("another may lead"), "{said}");
    assert!(said.contains("again_in=250ms") && said.contains("again_in=2s"), "the waits grow: {said}");
}

#[test]
fn once_runs_the_command_once_and_ends_with_its_code() {
    let place = Place::new();
    let ran = place.ask(&["elect", "--key", KEY, "--once", "--", "sh", "-c", "echo done; exit 7"]);
    assert_eq!(ran.code, Some(7), "{}", ran.err);
    assert_eq!(ran.out, "[leader] done\n");
    let killed = place.ask(&["elect", "--key", KEY, "--once", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.code, Some(137), "{}", killed.err);
    let again = place.ask(&["elect", "--key", KEY, "--once", "--no-wait", "--", "true"]);
    assert_eq!(again.code, Some(0), "the seat was given back: {}", again.err);
}

#[test]
fn once_says_so_if_leadership_ends_before_the_command() {
    let place = Place::new();
    let journal = place.path("journal").display().to_string();
    let mut one = run(&place, "one", &["--once"], &["sh", "-c", LEAD, &journal, "one"]);
    leader_of(&place, &["one"], 0);
    one.signal(Signal::SIGTERM);
    assert_eq!(one.wait().code(), Some(75), "{}", one.log());
    assert!(one.log().contains("was lost before the command had ended"), "{}", one.log());
}

#[test]
fn no_wait_ends_at_once_where_somebody_else_leads() {
    let place = Place::new();
    let _one = candidate(&place, "one", &[]);
    leader_of(&place, &["one"], 0);
    let refused = place.ask(&["elect", "--key", KEY, "--no-wait", "--log", "error", "--", "true"]);
    assert_eq!(refused.code, Some(75), "{}", refused.err);
    assert!(
        refused.err.starts_with("leasehold: one-") && refused.err.contains(" leads /ccm"),
        "{}",
        refused.err
    );
}

#[test]
fn observe_prints_who_leads_and_every_change() {
    let place = Place::new();
    let (one, _two, _) = two(&place);
    let mut watch = leasehold();
    watch.args(["elect", "--store", &place.url(), "--key", KEY, "--observe"]);
    let watch = place.start("watch", &mut watch);
    let mut lines = leasehold();
    lines.args(["elect", "--store", &place.url(), "--key", KEY, "--observe", "--json"]);
    let lines = place.start("lines", &mut lines);
    wait_until("one is seen leading", || place.lines("watch.out").iter().any(|l| l.contains("one-")));
    wait_until("also by programs", || {
        place.lines("lines.out").iter().any(|l| l.contains("\"name\":\"one\""))
    });
    one.leave();
    wait_until("two is seen leading", || place.lines("watch.out").iter().any(|l| l.contains("two-")));
    wait_until("also by programs", || {
        place.lines("lines.out").iter().any(|l| l.contains("\"name\":\"two\""))
    });
    watch.leave();
    lines.leave();
}
