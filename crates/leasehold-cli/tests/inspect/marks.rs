//! Marks take effect on real work, and so does taking them back.

use crate::support::{Place, leasehold, ran, wait_until};

const OPTIONS: [&str; 4] = ["--resources", "a,b,c,d", "--ttl", "3s"];

fn held(place: &Place, name: &str) -> usize {
    place.owners("jobs").values().filter(|owner| *owner == name).count()
}

/// Waits until everything is owned and what work writes agrees with it.
fn wait_for_work(place: &Place, what: &str, anna: usize, bert: usize) {
    wait_until(what, || {
        let owners = place.owners("jobs");
        let workers = place.workers();
        let agree = owners.iter().all(|(id, owner)| workers.get(id).is_some_and(|(name, _)| name == owner));
        agree && held(place, "anna") == anna && held(place, "bert") == bert
    });
}

/// What operators did, as the ledger has it.
fn marked(place: &Place) -> Vec<String> {
    let events = place.events("jobs");
    let rows = events.iter().filter(|row| row["event"] == "marked");
    let detail = |row: &serde_json::Value| row["detail"].as_str().unwrap().to_owned();
    rows.map(|row| {
        let detail = detail(row);
        let (what, who) = detail.split_once(", by ").expect("the ledger says who");
        assert!(who.contains(" at "), "{detail}");
        what.to_owned()
    })
    .collect()
}

#[test]
fn drain_pin_and_pause_move_work_and_give_it_back() {
    let place = Place::new();
    let members = ["anna", "bert"].map(|name| place.member(name, &OPTIONS));
    wait_for_work(&place, "both have half", 2, 2);

    let said = place.told(&["drain", "--pool", "jobs", "anna"]);
    assert_eq!(said, "anna hands off what it holds and gets nothing\n");
    wait_for_work(&place, "bert has all", 0, 4);
    assert_eq!(place.told(&["drain", "--pool", "jobs", "anna", "--undo"]), "anna takes part again\n");
    wait_for_work(&place, "both have half again", 2, 2);

    let (mine, _) = place.owners("jobs").into_iter().find(|(_, owner)| owner == "bert").unwrap();
    place.told(&["pin", "--pool", "jobs", &mine, "anna"]);
    wait_until("it is where it is pinned to", || place.workers()[&mine].0 == "anna");
    let explained = place.told(&["explain", &format!("jobs/{mine}")]);
    assert!(explained.contains("it is pinned to anna"), "{explained}");
    assert_eq!(place.told(&["pin", "--pool", "jobs", &mine, "--undo"]), format!("{mine} may be anywhere\n"));

    place.told(&["pause", "--pool", "jobs", &mine]);
    wait_until("nobody has it", || !place.owners("jobs").contains_key(&mine));
    let before = place.ticks().iter().filter(|(id, _, _)| *id == mine).count();
    let (other, _) = place.owners("jobs").into_iter().next().unwrap();
    place.more_ticks(&other, 5);
    assert_eq!(
        place.ticks().iter().filter(|(id, _, _)| *id == mine).count(),
        before,
        "work on a paused resource"
    );
    assert!(
        place.told(&["status"]).lines().any(|line| line.starts_with(&mine) && line.ends_with("it is paused"))
    );
    place.told(&["pause", "--pool", "jobs", &mine, "--undo"]);
    place.more_ticks(&mine, 1);

    let wanted = [
        "drain: anna".to_owned(),
        "drain undone: anna".to_owned(),
        format!("pin: {mine} to anna"),
        format!("pin undone: {mine}"),
        format!("pause: {mine}"),
        format!("pause undone: {mine}"),
    ];
    assert_eq!(marked(&place), wanted);
    for member in members {
        member.leave();
    }
    place.assert_one_owner_at_a_time();
}

#[test]
fn a_cordoned_member_keeps_its_work_and_gets_nothing_new() {
    let place = Place::new();
    let anna = place.member("anna", &OPTIONS);
    let bert = place.member("bert", &OPTIONS);
    wait_for_work(&place, "both have half", 2, 2);
    place.told(&["cordon", "--pool", "jobs", "anna"]);
    bert.leave();
    wait_until("bert is gone", || held(&place, "bert") == 0);
    wait_until("it is said why", || place.told(&["status"]).contains("cordoned"));
    let kept = place.owners("jobs");
    place.more_ticks(kept.keys().next().unwrap(), 5);
    assert_eq!(place.owners("jobs"), kept, "a cordoned member got something new");
    assert_eq!(kept.len(), 2);
    place.told(&["cordon", "--pool", "jobs", "anna", "--undo"]);
    wait_for_work(&place, "anna has all", 4, 0);
    assert_eq!(marked(&place), ["cordon: anna", "cordon undone: anna"]);
    anna.leave();
    place.assert_one_owner_at_a_time();
}

#[test]
fn a_mark_on_what_is_not_there_says_so_and_waits() {
    let place = Place::new();
    let anna = place.member("anna", &["--resources", "a", "--ttl", "3s"]);
    place.more_ticks("a", 1);
    for words in [&["drain", "nobody"][..], &["cordon", "nobody"], &["pin", "a", "nobody"]] {
        let said = place.told(&[&words[..1], &["--pool", "jobs"], &words[1..]].concat());
        assert!(said.ends_with("note: no member nobody is there now; the mark waits for it\n"), "{said}");
    }
    let said = place.told(&["pause", "--pool", "jobs", "zz"]);
    assert_eq!(said, "zz is given to nobody\nnote: no resource zz is there now; the mark waits for it\n");
    let nobody = place.member("nobody", &["--resources", "b", "--ttl", "3s"]);
    wait_until("the mark is in force", || place.told(&["status"]).contains("drained, cordoned"));
    assert_eq!(held(&place, "nobody"), 0);
    let done = place.json(&["drain", "--pool", "jobs", "nobody", "--undo"]);
    assert_eq!(
        done,
        serde_json::json!({"pool": "jobs", "mark": "drain", "subject": "nobody", "value": null})
    );
    anna.leave();
    nobody.leave();
}

/// Every word that takes something back, and what is looked at before.
#[test]
fn acts_are_looked_at_first_and_taken_back_by_words_of_their_own() {
    let place = Place::new();
    let members = ["anna", "bert"].map(|name| place.member(name, &OPTIONS));
    wait_for_work(&place, "both have half", 2, 2);
    let jobs = |words: &[&str]| place.told(&[&words[..1], &["--pool", "jobs"], &words[1..]].concat());

    let looked = jobs(&["drain", "anna", "--plan"]);
    assert!(looked.contains("moves from anna to bert") && looked.contains("2 of 4 resources"), "{looked}");
    let preview = place.json(&["drain", "--pool", "jobs", "anna", "--plan"]);
    assert_eq!((preview["basis"].as_u64(), preview["already"].as_bool()), (Some(0), Some(false)));
    assert_eq!(marked(&place), [""; 0], "to look changes nothing");

    jobs(&["drain", "anna"]);
    wait_for_work(&place, "bert has all", 0, 4);
    assert!(jobs(&["drain", "anna", "--plan"]).contains("it is so already"));
    assert_eq!(jobs(&["undrain", "anna"]), "anna takes part again\n");
    wait_for_work(&place, "both have half again", 2, 2);
    jobs(&["cordon", "anna"]);
    assert_eq!(jobs(&["uncordon", "anna"]), "anna gets new work again\n");
    jobs(&["pin", "a", "anna"]);
    assert_eq!(jobs(&["unpin", "a"]), "a may be anywhere\n");
    jobs(&["pause", "a"]);
    assert_eq!(jobs(&["resume", "a"]), "a is shared out again\n");
    wait_until("a is owned", || place.owners("jobs").contains_key("a"));

    let token = || place.json(&["show", "--pool", "jobs", "a"])["resource"]["token"].as_u64().unwrap();
    let before = token();
    assert!(jobs(&["revoke", "a"]).starts_with("the holder of a lets go of it\nnote: "));
    wait_until("a has a new term", || token() > before && place.owners("jobs").contains_key("a"));
    let refused = ran(leasehold().args(["revoke", "--store", &place.url(), "--pool", "jobs", "nothing"]));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("nobody holds nothing; there is nothing to revoke"), "{refused:?}");
    let refused = ran(leasehold().args(["resign", "--store", &place.url(), "--pool", "jobs"]));
    assert!(refused.code == Some(1) && refused.err.contains("nobody leads here"), "{refused:?}");
    let marks = marked(&place);
    assert_eq!(marks.len(), 9, "{marks:?}");
    assert_eq!(marks.last().unwrap(), "revoke: a");
    for member in members {
        member.leave();
    }
}

/// A member that lives, beats and never gives anything back: what it holds and was revoked goes to others, a whole TTL later.
#[test]
fn what_a_living_member_keeps_though_it_was_revoked_goes_to_others_in_time() {
    use leasehold::clock;
    use leasehold::lease::BeatNumber;
    use leasehold::store::{Answer, OpenSession, Profile, Pulse, Wanted, open};
    use std::time::Duration;

    let ttl = Duration::from_secs(4);
    let place = Place::new();
    place.told(&["migrate"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let store = runtime.block_on(open(&place.url().parse().unwrap())).unwrap();
    let id: leasehold::MemberId = "stubborn-1".parse().unwrap();
    let profile = Profile {
        name: "stubborn".parse().unwrap(),
        capacity: None,
        labels: Default::default(),
        ready: true,
        settled: true,
        leaving: false,
        listing: None,
        plan_version: 1,
        flaps: 0,
        version: None,
    };
    let session = OpenSession { pool: "jobs".parse().unwrap(), id: id.clone(), ttl, profile };
    let Answer::Done(era) = runtime.block_on(store.open(&session)).unwrap() else { panic!("no session") };
    let pulse = move |number| Pulse { era, number: BeatNumber(number), confirmed: BeatNumber(number - 1) };
    let wanted = [Wanted { resource: "a".parse().unwrap(), floor: leasehold::Token(0) }];
    let _ = runtime.block_on(store.acquire(&id, pulse(1), &wanted)).unwrap();
    runtime.spawn(async move {
        for number in 2.. {
            let _ = store.beat(&id, pulse(number)).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let bert = place.member("bert", &["--resources", "a", "--ttl", "4s"]);
    wait_until("bert is there", || place.told(&["status"]).contains("bert"));
    assert_eq!(place.owners("jobs")["a"], "stubborn");
    let before = clock::now();
    place.told(&["revoke", "--pool", "jobs", "a"]);
    wait_until("bert has it", || place.owners("jobs").get("a").is_some_and(|owner| owner == "bert"));
    assert!(clock::now().since(before) >= ttl, "nobody has it before its holder cannot trust it any more");
    assert!(place.told(&["status"]).contains("stubborn"), "its holder lives");
    place.more_ticks("a", 1);
    bert.leave();
}
