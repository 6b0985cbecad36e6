//! Commands that stand by hot: they run all the time and are told when they lead.

use leasehold_testkit::free_port;

use super::health::status;
use super::*;

/// Leads while the state file says so, writes that down, and confirms when it has stopped. `$1` is the journal, `$2` the
/// name, `$3` whether it obeys.
const HOT: &str = r#"
import os, socket, sys, time
journal, name, obeys = sys.argv[1:]
print("pid", os.getpid(), flush=True)
led = None
while True:
    state = dict(line.split("=", 1) for line in open(os.environ["LEASEHOLD_STATE_FILE"]).read().splitlines())
    if state["LEASEHOLD_LEADER"] == "1" or (led and obeys == "no"):
        led = led or state["LEASEHOLD_TOKEN"]
        with open(journal, "a") as file:
            file.write(f"leader {led} {name}\n")
    elif led:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as said:
            said.sendto(f"STANDBY=1\nTOKEN={led}".encode(), os.environ["NOTIFY_SOCKET"])
        led = None
    time.sleep(0.02)
"#;

fn hot(place: &Place, name: &str, obeys: &str, options: &[&str]) -> Member {
    let script = place.write("hot.py", HOT);
    let journal = place.path("journal").display().to_string();
    let options = [options, &["--standby"]].concat();
    run(place, name, &options, &["python3", &script, &journal, name, obeys])
}

/// The processes that a candidate's command has been.
fn pids(place: &Place, name: &str) -> Vec<String> {
    let lines = place.lines(&format!("{name}.out"));
    lines.iter().filter_map(|line| line.split_once("pid ")).map(|(_, pid)| pid.to_owned()).collect()
}

#[test]
fn a_command_that_obeys_leads_stands_by_and_leads_again_in_one_process() {
    let place = Place::new();
    let port = free_port();
    let one = hot(&place, "one", "yes", &["--health", &format!("127.0.0.1:{port}")]);
    let (_, first) = leader_of(&place, &["one"], 0);
    let two = hot(&place, "two", "yes", &[]);
    wait_until("two stands by", || !pids(&place, "two").is_empty() && two.log().contains("member joined"));
    assert_eq!(status(port, "POST", "/admin/resign-leadership"), 200);
    let (_, second) = leader_of(&place, &["two"], first);
    two.leave();
    leader_of(&place, &["one"], second);
    assert_eq!(pids(&place, "one").len(), 1, "one process all the time: {}", one.log());
    one.leave();
    assert_never_two(&place);
}

#[test]
fn a_command_that_does_not_confirm_is_killed_before_another_leads() {
    let place = Place::new();
    let port = free_port();
    let one = hot(&place, "one", "no", &["--health", &format!("127.0.0.1:{port}")]);
    let (_, first) = leader_of(&place, &["one"], 0);
    let _two = hot(&place, "two", "yes", &[]);
    wait_until("two stands by", || !pids(&place, "two").is_empty());
    assert_eq!(status(port, "POST", "/admin/resign-leadership"), 200);
    leader_of(&place, &["two"], first);
    assert!(one.log().contains("did not confirm that it stopped leading"), "{}", one.log());
    wait_until("it stands by in another process", || pids(&place, "one").len() == 2);
    assert_never_two(&place);
}

#[test]
fn the_command_of_a_frozen_candidate_is_dead_before_another_leads() {
    let place = Place::new();
    let one = hot(&place, "one", "no", &[]);
    let (_, first) = leader_of(&place, &["one"], 0);
    let _two = hot(&place, "two", "yes", &[]);
    wait_until("two stands by", || !pids(&place, "two").is_empty());
    one.signal(Signal::SIGSTOP);
    leader_of(&place, &["two"], first);
    one.signal(Signal::SIGCONT);
    wait_until("it stands by again", || pids(&place, "one").len() == 2);
    assert_never_two(&place);
}

#[test]
fn the_command_can_be_given_as_to_a_shell_and_only_once() {
    let place = Place::new();
    let script = place.write("hot.py", HOT);
    let line = format!("python3 {script} {} one yes", place.path("journal").display());
    let mut elect = leasehold();
    elect.args(["elect", "--store", &place.url(), "--key", KEY, "--ttl", "3s", "--standby", &line]);
    let one = place.start("one", &mut elect);
    leader_of(&place, &["one"], 0);
    one.leave();
    let twice = place.ask(&["elect", "--key", KEY, "--standby", "true", "--", "true"]);
    assert!(twice.code == Some(2) && twice.err.contains("leave one of them out"), "{}", twice.err);
    let none = place.ask(&["elect", "--key", KEY, "--standby"]);
    assert!(none.code == Some(2) && none.err.contains("--standby needs a command"), "{}", none.err);
}
