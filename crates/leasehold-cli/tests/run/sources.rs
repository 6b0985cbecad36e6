//! Resources that come and go while a member runs.

use crate::support::{Place, wait_until};

fn reasons(place: &Place, resource: &str) -> Vec<String> {
    let released = |row: &serde_json::Value| row["event"] == "released" && row["resource"] == resource;
    let events = place.events("jobs");
    events.iter().filter(|row| released(row)).map(|row| row["reason"].as_str().unwrap().to_owned()).collect()
}

/// `change` takes `a` off the list and puts `c` on it; `b` stays.
fn follows(from: &str, place: &Place, change: impl FnOnce()) {
    let member = place.member("anna", &["--from", from, "--ttl", "6s"]);
    place.more_ticks("a", 1);
    place.more_ticks("b", 1);
    let before = place.workers();
    change();
    place.more_ticks("c", 1);
    wait_until("a is let go", || reasons(place, "a") == ["session_deleted"]);
    let owners = place.owners("jobs");
    assert_eq!(owners.keys().collect::<Vec<_>>(), ["b", "c"]);
    let ticks = place.ticks().iter().filter(|(id, _, _)| id == "a").count();
    place.more_ticks("b", 3);
    assert_eq!(
        place.ticks().iter().filter(|(id, _, _)| id == "a").count(),
        ticks,
        "a goes on without a lease"
    );
    assert_eq!(place.workers()["b"], before["b"], "b was disturbed");
    member.leave();
}

#[test]
fn a_file_is_followed() {
    let place = Place::new();
    let list = place.write("list", "# cameras\na\n\nb\n");
    follows(&format!("file:{list}"), &place, || std::fs::write(&list, "b\nc\n").unwrap());
}

#[test]
fn a_directory_is_followed() {
    let place = Place::new();
    let directory = place.path("tenants");
    std::fs::create_dir(&directory).unwrap();
    for name in ["a", "b", ".hidden", "not an id"] {
        std::fs::write(directory.join(name), "").unwrap();
    }
    follows(&format!("dir:{}", directory.display()), &place, || {
        std::fs::rename(directory.join("a"), directory.join("c")).unwrap();
    });
}

#[test]
fn a_command_is_followed() {
    let place = Place::new();
    let list = place.write("list", "a\nb\n");
    follows(&format!("cmd:grep . {list} | sort"), &place, || std::fs::write(&list, "c\nb\n").unwrap());
}
