//! Whether a command that ended is started again.

use crate::support::{Place, wait_until};

fn starts(place: &Place) -> usize {
    place.lines("starts").len()
}

fn run(place: &Place, restart: &str, exit: u8) -> crate::support::Member {
    let path = place.path("starts").display().to_string();
    let script = format!("echo $LEASEHOLD_TOKEN >> $0; exit {exit}");
    place.run(
        "anna",
        &["--resources", "a", "--ttl", "3s", "--restart", restart],
        &["sh", "-c", &script, &path],
    )
}

#[test]
fn always_starts_it_again_later_each_time() {
    let place = Place::new();
    let member = run(&place, "always", 0);
    wait_until("it was started four times", || starts(&place) >= 4);
    let log = member.log();
    let waits: Vec<&str> =
        log.split("again_in=").skip(1).filter_map(|rest| rest.split_whitespace().next()).collect();
    assert_eq!(waits[..3], ["250ms", "500ms", "1s"]);
    member.leave();
    assert!(place.lines("starts").iter().all(|token| token == "1"), "the lease did not stay");
}

#[test]
fn on_failure_starts_it_again_until_it_succeeds_and_never_does_not() {
    let (failing, done, never) = (Place::new(), Place::new(), Place::new());
    let members = [run(&failing, "on-failure", 3), run(&done, "on-failure", 0), run(&never, "never", 3)];
    wait_until("the failing one was started again", || starts(&failing) >= 3);
    for (place, member) in [(&done, &members[1]), (&never, &members[2])] {
        wait_until("it is done", || member.log().contains("the command is done"));
        // The one that fails has been started three times meanwhile.
        assert_eq!(starts(place), 1);
        assert_eq!(place.owners("jobs").len(), 1, "its lease stays, so that nobody repeats it");
    }
    for member in members {
        member.leave();
    }
}

#[test]
fn five_quick_failures_set_a_resource_aside_and_the_others_are_undisturbed() {
    let place = Place::new();
    let journal = place.path("journal").display().to_string();
    let script = format!("[ $LEASEHOLD_RESOURCE = bad ] && exit 7; {}", crate::support::TICK);
    let options = ["--resources", "bad,good", "--ttl", "3s"];
    let member = place.run("anna", &options, &["sh", "-c", &script, &journal, "anna"]);
    place.more_ticks("good", 1);
    let before = place.workers();
    wait_until("bad is set aside", || place.told(&["status", "--pool", "jobs"]).contains("keeps failing"));
    let status = place.told(&["status", "--pool", "jobs"]);
    let row = status.lines().find(|line| line.starts_with("bad ")).unwrap();
    assert!(
        row.contains("under token 1 the command keeps failing: exit code 7; next try in 60s"),
        "{status}"
    );
    assert_eq!(status.matches("keeps failing").count(), 1, "{status}");
    assert!(place.told(&["show", "--pool", "jobs", "bad"]).contains("\nquarantine under token 1"));
    assert!(place.events("jobs").iter().any(|row| row["event"] == "quarantined" && row["resource"] == "bad"));
    assert_eq!(member.log().matches("again_in=").count(), 4);
    place.more_ticks("good", 3);
    assert_eq!(place.workers(), before);
    member.leave();
}
