//! What surrounds ownership: marks, declared resources, listings, the ledger.

use super::member::{open, session};
use super::{Harness, Member, pool, resource};
use crate::clock::Moment;
use crate::lease::{MemberId, MemberName, ResourceId};
use crate::ledger::{Entry, Event};
use crate::store::{Cursor, Declared, Listing, Mark, MarkKind, Marked, Version};

fn declared(name: &str, weight: u32, version: u64) -> Declared {
    let requires = [("gpu".to_owned(), "a \"b\"".to_owned())].into();
    Declared { weight, requires, version: Version(version), ..Declared::new(resource(name)) }
}

/// Operators' marks change one after the other.
pub async fn a_mark_is_set_changed_and_removed_by_its_version<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let values = [Some("api-1"), Some("a remark, 'quoted' ü"), None, Some("")];
    for (version, value) in values.into_iter().enumerate() {
        let expected = Version(version as u64);
        let set = store.set_mark(&work, MarkKind::Pin, "camera/ü 1", value, expected).await;
        let now = Version(expected.0 + 1);
        assert_eq!(set.expect("the store answers"), Marked::Set(now));
        let marks = store.marks(&work, Cursor::START).await.expect("the store answers").items;
        let subject = "camera/ü 1".to_owned();
        let mark = Mark { kind: MarkKind::Pin, subject, value: value.map(str::to_owned), version: now };
        assert_eq!(marks, [mark], "a removed mark is there without a value");
    }
    assert_eq!(store.marks(&pool("other"), Cursor::START).await.expect("the store answers").items, []);
}

/// Two operators at once.
pub async fn a_mark_with_another_version_is_a_conflict<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let set = |expected| {
        let (store, work) = (store.clone(), work.clone());
        async move {
            let set = store.set_mark(&work, MarkKind::Drain, "api-1", Some("x"), Version(expected)).await;
            set.expect("the store answers")
        }
    };
    assert_eq!(set(3).await, Marked::Conflict(Version(0)), "there is none yet");
    assert_eq!(set(0).await, Marked::Set(Version(1)));
    assert_eq!(set(0).await, Marked::Conflict(Version(1)), "somebody was faster");
    let other = store.set_mark(&work, MarkKind::Cordon, "api-1", None, Version(1)).await;
    assert_eq!(
        other.expect("the store answers"),
        Marked::Conflict(Version(0)),
        "another kind is another mark"
    );
    let marks = store.marks(&work, Cursor::START).await.expect("the store answers").items;
    assert_eq!(marks.len(), 1, "a conflict writes nothing: {marks:?}");
}

/// Members read marks as they read everything.
pub async fn marks_are_found_by_cursor<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    for subject in ["one", "two"] {
        let set = store.set_mark(&work, MarkKind::Pause, subject, Some(""), Version(0)).await;
        assert_eq!(set.expect("the store answers"), Marked::Set(Version(1)));
    }
    let cursor = store.marks(&work, Cursor::START).await.expect("the store answers").cursor;
    let nothing = store.marks(&work, cursor).await.expect("the store answers");
    assert_eq!(nothing.items, []);
    let removed = store.set_mark(&work, MarkKind::Pause, "two", None, Version(1)).await;
    assert_eq!(removed.expect("the store answers"), Marked::Set(Version(2)));
    let changed = store.marks(&work, cursor).await.expect("the store answers").items;
    let seen: Vec<_> = changed.iter().map(|mark| (mark.subject.as_str(), &mark.value)).collect();
    assert_eq!(seen, [("two", &None)], "only the removal");
}

/// Declared resources change one after the other.
pub async fn a_resource_is_declared_changed_and_removed_by_its_version<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let mut wish = declared("a", 3, 0);
    for version in 1..=4 {
        let set = store.declare(&work, &wish).await.expect("the store answers");
        assert_eq!(set, Marked::Set(Version(version)));
        wish.version = Version(version);
        let seen = store.resources(&work, Cursor::START).await.expect("the store answers").items;
        assert_eq!(seen, [wish.clone()], "a removed one is there, marked so");
        wish.weight += 1;
        wish.removed = !wish.removed;
    }
    let stale = store.declare(&work, &declared("a", 9, 2)).await.expect("the store answers");
    assert_eq!(stale, Marked::Conflict(Version(4)));
    let absent = store.declare(&work, &declared("b", 9, 2)).await.expect("the store answers");
    assert_eq!(absent, Marked::Conflict(Version(0)));
    let seen = store.resources(&work, Cursor::START).await.expect("the store answers").items;
    assert_eq!(seen.len(), 1, "a conflict writes nothing: {seen:?}");
}

/// What describes a resource comes back as it was given.
pub async fn a_declared_resource_keeps_its_labels_and_its_document<H: Harness>() {
    let mut harness = H::fresh().await;
    let work = pool("work");
    let document = serde_json::json!({
        "name": "yard \"ü\" \u{0}", "camera": [{"at": [0.1, -122.30000000000001, 9_007_199_254_740_993_u64]}], "none": null,
    });
    let labels = [("floor".to_owned(), "2".to_owned()), ("ü \"x\"".to_owned(), String::new())].into();
    let full = Declared { labels, document: Some(document), ..declared("a", 1, 0) };
    let steps = [
        full.clone(),
        Declared { weight: 2, ..full.clone() },
        Declared { removed: true, ..full.clone() },
        declared("a", 1, 0),
        Declared { document: Some(serde_json::json!("text")), ..declared("a", 1, 0) },
        full,
    ];
    for (version, step) in (0..).zip(steps) {
        let store = harness.store();
        let step = Declared { version: Version(version), ..step };
        let set = store.declare(&work, &step).await.expect("the store answers");
        assert_eq!(set, Marked::Set(Version(version + 1)));
        let now = Declared { version: Version(version + 1), ..step };
        let seen = store.resources(&work, Cursor::START).await.expect("the store answers").items;
        assert_eq!(seen, std::slice::from_ref(&now));
        drop(store);
        // Once is enough: the last has everything.
        if version == 5 && harness.restart().await {
            let seen = harness.store().resources(&work, Cursor::START).await.expect("the store answers");
            assert_eq!(seen.items, [now], "after a restart");
        }
    }
    let null = Declared { document: Some(serde_json::Value::Null), ..declared("b", 1, 0) };
    let store = harness.store();
    let _ = store.declare(&work, &null).await.expect("the store answers");
    let seen = store.resources(&work, Cursor::START).await.expect("the store answers").items;
    let found = seen.iter().find(|declared| declared.resource.as_str() == "b");
    assert_eq!(found.map(|declared| &declared.document), Some(&None), "null is none");
}

/// Members read declared resources as they read everything.
pub async fn declared_resources_are_found_by_cursor<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    for name in ["a", "b"] {
        let set = store.declare(&work, &declared(name, 1, 0)).await.expect("the store answers");
        assert_eq!(set, Marked::Set(Version(1)));
    }
    let cursor = store.resources(&work, Cursor::START).await.expect("the store answers").cursor;
    let changed = declared("b", 2, 1);
    assert_eq!(store.declare(&work, &changed).await.expect("the store answers"), Marked::Set(Version(2)));
    let seen = store.resources(&work, cursor).await.expect("the store answers").items;
    assert_eq!(seen, [Declared { version: Version(2), ..changed }]);
}

/// Status pages list every pool.
pub async fn every_pool_with_a_session_a_lease_or_a_declaration_is_known<H: Harness>() {
    let harness = H::fresh().await;
    let store = harness.store();
    assert_eq!(store.pools().await.expect("the store answers"), []);
    let mut one = Member::join(&store, "one").await;
    let _ = one.take("a").await;
    let set = store.declare(&pool("cameras"), &declared("a", 1, 0)).await.expect("the store answers");
    assert_eq!(set, Marked::Set(Version(1)));
    let mut other = session("other");
    other.pool = pool("scenes");
    open(&store, &other).await;
    let known = store.pools().await.expect("the store answers");
    assert_eq!(known, [pool("cameras"), pool("scenes"), pool("work")]);
    one.close().await;
    store.collect(one.id()).await.expect("the store answers");
    let known = store.pools().await.expect("the store answers");
    assert!(known.contains(&pool("work")), "its lease keeps the token");
}

/// Members that list the same share one listing.
pub async fn a_listing_is_kept_while_a_living_session_publishes_it<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let list = |names: &[&str]| Listing::new(names.iter().map(|name| resource(name)).collect());
    let used = list(&["a", "b:1@x+y=z"]).expect("no id twice");
    let unused = list(&["c"]).expect("no id twice");
    for listing in [&used, &used, &unused] {
        store.publish(&work, &listing.id(), listing).await.expect("the store answers");
    }
    let mut publisher = session("publisher");
    publisher.profile.listing = Some(used.id());
    open(&store, &publisher).await;
    let find = |listing: &Listing| {
        let (store, work, id) = (store.clone(), work.clone(), listing.id());
        async move { store.listing(&work, &id).await.expect("the store answers") }
    };
    assert_eq!(find(&unused).await.as_ref(), Some(&unused));
    store.collect_listings(&pool("other")).await.expect("the store answers");
    assert_eq!(find(&unused).await.as_ref(), Some(&unused), "another pool's collection");
    store.collect_listings(&work).await.expect("the store answers");
    assert_eq!(find(&unused).await, None, "nobody publishes it");
    assert_eq!(find(&used).await.as_ref(), Some(&used));
    store.close(&publisher.id).await.expect("the store answers");
    store.collect_listings(&work).await.expect("the store answers");
    assert_eq!(find(&used).await, None, "its publisher has ended");
}

pub(crate) fn entry(event: Event, on: Option<&str>) -> Entry {
    Entry {
        wall_nanos: u64::MAX,
        at: Moment(7),
        boot: "boot".to_owned(),
        number: None,
        member: MemberId::generate(),
        name: MemberName::new("one").expect("a good name"),
        event,
        resource: on.map(resource),
        token: None,
        trusted_until: None,
        ttl_ms: None,
        reason: None,
        error: Some("what \"went\" wrong".to_owned()),
        other: None,
        detail: None,
    }
}

/// proves R089, R091
pub async fn the_ledger_keeps_its_order_and_filters_and_limits<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let entries = [
        entry(Event::Joined, None),
        entry(Event::Acquired, Some("a")),
        entry(Event::Acquired, Some("b")),
        entry(Event::Released, Some("a")),
    ];
    store.append(&work, &entries[..2]).await.expect("the store answers");
    store.append(&work, &entries[2..]).await.expect("the store answers");
    store.append(&pool("other"), &entries[..1]).await.expect("the store answers");
    store.append(&work, &[]).await.expect("the store answers");
    let read = |on: Option<ResourceId>, after, limit| {
        let (store, work) = (store.clone(), work.clone());
        async move { store.ledger(&work, on.as_ref(), after, limit).await.expect("the store answers") }
    };
    let all = read(None, 0, 100).await;
    assert_eq!(all.iter().map(|(_, entry)| entry.clone()).collect::<Vec<_>>(), entries);
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers rise");
    assert!(all[0].0 > 0, "nothing comes before the first");
    assert_eq!(read(None, 0, 2).await, all[..2], "the oldest first");
    assert_eq!(read(None, all[1].0, 100).await, all[2..], "going on after a row");
    assert_eq!(read(None, all[3].0, 100).await, []);
    let of_a = [all[1].clone(), all[3].clone()];
    assert_eq!(read(Some(resource("a")), 0, 100).await, of_a);
    assert_eq!(read(Some(resource("a")), all[1].0, 1).await, of_a[1..]);
    assert_eq!(read(Some(resource("never-seen")), 0, 100).await, []);
}

/// How many rows one call brings makes no difference to whoever reads them.
pub async fn rows_that_came_together_are_read_one_by_one<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let names = ["a", "aa", "b"];
    let many: Vec<Entry> = (0..100).map(|number| entry(Event::Acquired, Some(names[number % 3]))).collect();
    let mut rows = vec![entry(Event::Joined, None)];
    rows.extend(many.iter().cloned());
    // A heartbeat is no less a row of its own among many.
    rows.insert(60, entry(Event::Renewed, None));
    rows.push(entry(Event::Left, None));
    store.append(&work, &rows[..1]).await.expect("the store answers");
    store.append(&work, &rows[1..102]).await.expect("the store answers");
    store.append(&pool("other"), &many).await.expect("the store answers");
    store.append(&work, &rows[102..]).await.expect("the store answers");
    let read = |on: Option<ResourceId>, after, limit| {
        let (store, work) = (store.clone(), work.clone());
        async move { store.ledger(&work, on.as_ref(), after, limit).await.expect("the store answers") }
    };
    let all = read(None, 0, 1000).await;
    assert_eq!(all.iter().map(|(_, entry)| entry.clone()).collect::<Vec<_>>(), rows);
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers rise");
    let of_a: Vec<_> =
        all.iter().filter(|(_, entry)| entry.resource == Some(resource("a"))).cloned().collect();
    assert_eq!(read(Some(resource("a")), 0, 1000).await, of_a, "and nothing about aa");
    for (on, whole) in [(None, &all), (Some(resource("a")), &of_a)] {
        let (mut pages, mut after) = (Vec::new(), 0);
        loop {
            let page = read(on.clone(), after, 7).await;
            let Some((last, _)) = page.last() else { break };
            assert!(page.len() <= 7, "no more than was asked for");
            after = *last;
            pages.extend(page);
        }
        assert_eq!(pages, *whole, "page by page");
    }
}

/// Heartbeats neither fill the ledger nor move anything in it.
pub async fn a_heartbeat_takes_the_place_of_the_one_before<H: Harness>() {
    let harness = H::fresh().await;
    let (store, work) = (harness.store(), pool("work"));
    let (one, two) = (MemberId::generate(), MemberId::generate());
    let beat = |member: &MemberId, at| Entry {
        member: member.clone(),
        at: Moment(at),
        trusted_until: Some(Moment(at + 9)),
        ..entry(Event::Renewed, None)
    };
    let acquired = entry(Event::Acquired, Some("a"));
    let rows = [beat(&one, 1), acquired.clone(), beat(&two, 2), beat(&one, 3)];
    store.append(&work, &rows).await.expect("the store answers");
    store.append(&pool("other"), &[beat(&one, 4)]).await.expect("the store answers");
    store.append(&work, &[beat(&two, 5), beat(&two, 6)]).await.expect("the store answers");
    let ledger = store.ledger(&work, None, 0, 100).await.expect("the store answers");
    let kept: Vec<Entry> = ledger.iter().map(|(_, entry)| entry.clone()).collect();
    assert_eq!(kept, [beat(&one, 3), acquired, beat(&two, 6)], "one row for each member");
    let other = store.ledger(&pool("other"), None, 0, 100).await.expect("the store answers");
    assert_eq!(other.len(), 1, "another pool's heartbeat is another");
    store.append(&work, &[entry(Event::Left, None)]).await.expect("the store answers");
    let after = store.ledger(&work, None, ledger[2].0, 100).await.expect("the store answers");
    assert_eq!(after.len(), 1, "what comes next comes after them");
}

/// What an operator said is not forgotten by a restart.
pub async fn the_registry_survives_a_restart<H: Harness>() {
    let mut harness = H::fresh().await;
    let work = pool("work");
    let store = harness.store();
    let set = store.set_mark(&work, MarkKind::Drain, "api-1", Some("x"), Version(0)).await;
    assert_eq!(set.expect("the store answers"), Marked::Set(Version(1)));
    let set = store.declare(&work, &declared("a", 2, 0)).await.expect("the store answers");
    assert_eq!(set, Marked::Set(Version(1)));
    store.append(&work, &[entry(Event::Joined, None)]).await.expect("the store answers");
    drop(store);
    if !harness.restart().await {
        eprintln!("this store keeps nothing across a restart by its nature; nothing to prove");
        return;
    }
    let store = harness.store();
    assert_eq!(store.marks(&work, Cursor::START).await.expect("the store answers").items.len(), 1);
    assert_eq!(store.resources(&work, Cursor::START).await.expect("the store answers").items.len(), 1);
    assert_eq!(store.ledger(&work, None, 0, 9).await.expect("the store answers").len(), 1);
}
