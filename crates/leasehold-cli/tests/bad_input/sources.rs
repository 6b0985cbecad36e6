//! Where the resources come from: refused at the start, borne while running.

use crate::run_refused;
use crate::support::{Place, wait_until};

#[test]
fn a_source_that_cannot_be_used_at_the_start_is_refused_before_anything_is_created() {
    let place = Place::new();
    place.write("twice", "a\nb\na\n");
    place.write("bad", "a\n\n# a remark\nb/c\n");
    run_refused(
        &place,
        &["--from", "file:none"],
        &["--from", "cannot read the resources from none", "No such file"],
    );
    run_refused(&place, &["--from", "dir:none"], &["--from", "cannot read the resources from none"]);
    run_refused(&place, &["--from", "cmd:exit 3"], &["--from", "cmd:exit 3", "exit status: 3"]);
    run_refused(&place, &["--from", "file:twice"], &["twice", "resource a is listed twice", "remove one"]);
    run_refused(&place, &["--from", "file:bad"], &["bad", "line 4 is not a resource", "contains '/'"]);
    run_refused(
        &place,
        &["--from", "ldap:x"],
        &["\"ldap:x\" is no source", "use file:PATH, dir:PATH or cmd:COMMAND"],
    );
    run_refused(&place, &["--from", "file:"], &["is no source"]);
    run_refused(&place, &["--from", "list"], &["is no source"]);
    let both = ["--resources", "a", "--from", "file:twice"];
    run_refused(&place, &both, &["--resources cannot be used together with --from", "leave one out"]);
}

#[test]
fn a_list_that_turns_bad_leaves_the_last_good_one_in_force_and_warns_once() {
    let place = Place::new();
    let list = place.write("list", "a\nb\n");
    let from = format!("file:{list}");
    let member = place.member("anna", &["--from", &from, "--ttl", "6s"]);
    let warnings = |words: &str| {
        let log = member.log();
        log.lines().filter(|line| line.contains("the last good list") && line.contains(words)).count()
    };
    place.more_ticks("a", 1);
    place.more_ticks("b", 1);
    let before = place.workers();
    let stages: [(&dyn Fn(), &str); 3] = [
        (&|| std::fs::remove_file(&list).unwrap(), "No such file"),
        (&|| std::fs::write(&list, "a\nb\nc\na\n").unwrap(), "resource a is listed twice"),
        (&|| std::fs::write(&list, "a\nb\nc/d\n").unwrap(), "line 3 is not a resource"),
    ];
    for (spoil, words) in stages {
        spoil();
        wait_until(words, || warnings(words) > 0);
        // Long enough to be looked at again.
        place.more_ticks("a", 12);
    }
    for (_, words) in stages {
        assert_eq!(warnings(words), 1, "{words}: {}", member.log());
    }
    assert_eq!(place.workers(), before, "the work was disturbed");
    std::fs::write(&list, "a\nb\nc\n").unwrap();
    place.more_ticks("c", 2);
    let after = place.workers();
    assert_eq!((after.get("a"), after.get("b")), (before.get("a"), before.get("b")));
    member.leave();
    assert_eq!(place.lines("anna.err").iter().filter(|line| line.contains("work started")).count(), 3);
}
