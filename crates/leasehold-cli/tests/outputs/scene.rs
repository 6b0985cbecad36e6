//! Stores with ids, tokens and times that are the same in every run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::election::Key;
use leasehold::lease::BeatNumber;
use leasehold::ledger::{Entry, Event, Reason};
use leasehold::store::{
    Answer, Declared, MarkKind, OpenSession, Profile, Pulse, Store, StoreUrl, Version, Wanted, open,
};
use leasehold::{MemberId, MemberName, Pool, ResourceId, Token};

use crate::support::Place;

/// 2001-09-09T01:46:40Z.
const THEN: u64 = 1_000_000_000_000_000_000;

/// A pool with three members, six resources and a history; one that had two owners at once; and an election.
pub(crate) fn pool() -> Place {
    let place = Place::new();
    on(&place, async |store| {
        let jobs = Pool::new("jobs").unwrap();
        for resource in ["a", "b", "c", "d", "e", "f"] {
            let mut declared = Declared::new(ResourceId::new(resource).unwrap());
            if resource == "e" {
                declared.requires = BTreeMap::from([("gpu".to_owned(), "yes".to_owned())]);
            }
            let _ = store.declare(&jobs, &declared).await.unwrap();
        }
        join(&*store, &jobs, "anna", &["a", "b"]).await;
        join(&*store, &jobs, "bert", &["c"]).await;
        join(&*store, &jobs, "cleo", &["f"]).await;
        for (kind, subject, value) in
            [(MarkKind::Pause, "d", ""), (MarkKind::Pin, "b", "anna"), (MarkKind::Cordon, "cleo", "")]
        {
            let _ = store.set_mark(&jobs, kind, subject, Some(value), Version(0)).await.unwrap();
        }
        store.append(&jobs, &history()).await.unwrap();
        let broken = Pool::new("broken").unwrap();
        join(&*store, &broken, "dora", &["x"]).await;
        store.append(&broken, &overlap()).await.unwrap();
        let election: Key = "backup".parse().unwrap();
        join(&*store, election.pool(), "emil", &["leader"]).await;
    });
    place
}

/// A control plane's database with a key in it.
pub(crate) fn plane() -> Place {
    let place = Place::new();
    place.ask(&["migrate"]);
    place
}

fn on(place: &Place, scene: impl AsyncFnOnce(Arc<dyn Store>)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url: StoreUrl = place.url().parse().unwrap();
        scene(open(&url).await.unwrap()).await;
    });
}

/// A member that may be silent for longer than any test runs.
async fn join(store: &dyn Store, pool: &Pool, name: &str, takes: &[&str]) {
    let id = MemberId::new(format!("{name}-1")).unwrap();
    let profile = Profile {
        name: MemberName::new(name).unwrap(),
        capacity: (name == "bert").then_some(9),
        labels: BTreeMap::from([("site".to_owned(), "north".to_owned())]),
        ready: true,
        settled: name != "cleo",
        leaving: false,
        listing: None,
        plan_version: 1,
        flaps: 0,
        version: Some("1.4.2".to_owned()),
    };
    let session = OpenSession { pool: pool.clone(), id: id.clone(), ttl: Duration::from_hours(1), profile };
    let Answer::Done(era) = store.open(&session).await.unwrap() else { panic!("no session for {name}") };
    let pulse = Pulse { era, number: BeatNumber(1), confirmed: BeatNumber(0) };
    let wanted: Vec<Wanted> =
        takes.iter().map(|id| Wanted { resource: ResourceId::new(*id).unwrap(), floor: Token(0) }).collect();
    let taken = store.acquire(&id, pulse, &wanted).await.unwrap();
    assert!(matches!(taken, Answer::Done(_)), "{taken:?}");
}

/// A row of the ledger, so many milliseconds after the beginning.
fn row(millis: u64, name: &str, event: Event, term: Option<(&str, u64)>) -> Entry {
    let nanos = millis * 1_000_000;
    Entry {
        wall_nanos: THEN + nanos,
        at: Moment(nanos),
        boot: "one".to_owned(),
        number: None,
        member: MemberId::new(format!("{name}-1")).unwrap(),
        name: MemberName::new(name).unwrap(),
        event,
        resource: term.map(|(resource, _)| ResourceId::new(resource).unwrap()),
        token: term.map(|(_, token)| Token(token)),
        trusted_until: event.is_of_term().then_some(Moment(nanos + 8_000_000_000)),
        ttl_ms: Some(10_000),
        reason: None,
        error: None,
        other: None,
        detail: None,
    }
}

fn history() -> Vec<Entry> {
    let (a, b) = (Some(("a", 1)), Some(("b", 1)));
    let handed_on = |entry: Entry| Entry {
        reason: Some(Reason::Rebalance),
        other: Some(MemberId::new("bert-1").unwrap()),
        ..entry
    };
    let operator = |entry: Entry| Entry {
        detail: Some("pause: d, by ann at desk".to_owned()),
        trusted_until: None,
        ..entry
    };
    vec![
        row(0, "anna", Event::Joined, None),
        row(10, "anna", Event::Acquired, a),
        row(11, "anna", Event::Acquired, b),
        row(20, "anna", Event::Started, a),
        row(21, "anna", Event::Started, b),
        row(1500, "bert", Event::Joined, None),
        handed_on(row(4000, "anna", Event::Stopped, a)),
        handed_on(row(4010, "anna", Event::Released, a)),
        row(4030, "bert", Event::Acquired, Some(("a", 2))),
        row(4040, "bert", Event::Started, Some(("a", 2))),
        operator(row(5000, "desk", Event::Marked, Some(("d", 0)))),
        Entry { reason: Some(Reason::TtlExpiry), ..row(6000, "anna", Event::Lost, b) },
        Entry { reason: Some(Reason::TtlExpiry), ..row(6001, "anna", Event::Stopped, b) },
    ]
}

/// Two who work on one thing at the same time.
fn overlap() -> Vec<Entry> {
    vec![
        row(0, "dora", Event::Acquired, Some(("x", 1))),
        row(1, "dora", Event::Started, Some(("x", 1))),
        row(1000, "fred", Event::Acquired, Some(("x", 2))),
        row(1001, "fred", Event::Started, Some(("x", 2))),
        row(3000, "dora", Event::Stopped, Some(("x", 1))),
        row(4000, "fred", Event::Stopped, Some(("x", 2))),
    ]
}
