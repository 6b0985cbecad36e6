//! Elections that programs of another make take part in, here in the person of `etcdctl`.

use std::time::Duration;

use leasehold::Election;
use leasehold::election::Key;
use leasehold::store::conformance::Member;
use leasehold::store::{Acquired, Answer, Guard, Released};
use leasehold_testkit::Etcd;

use super::support::{live, open};

const LEADER: &str = "/ccm/scheduler/leader";

fn address(server: &Etcd, prefix: &str) -> String {
    format!("{}?mirror=work/scheduler={LEADER}", server.url(prefix))
}

/// Campaigns as the other program does: the key is created only if it is absent. Says whether it won.
fn campaign(server: &Etcd, value: &str) -> bool {
    let txn = format!("create(\"{LEADER}\") = \"0\"\n\nput {LEADER} {value}\n\n\n");
    let output = server.try_ctl(&["txn"], &txn);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    said.starts_with("SUCCESS")
}

fn leader(server: &Etcd) -> String {
    server.ctl(&["get", LEADER, "--print-value-only"]).trim().to_owned()
}

/// The ids of etcd's own leases.
fn natives(server: &Etcd) -> Vec<String> {
    let listed = server.ctl(&["lease", "list"]);
    listed.lines().skip(1).map(|line| line.trim().to_owned()).collect()
}

// proves R110, R113, R114, R116
#[tokio::test]
async fn a_foreign_leader_is_respected_and_a_lost_campaign_leaves_no_lease() {
    let server = Etcd::start();
    let store = live(&address(&server, "theirs")).await;
    let mut one = Member::join(&store, "one").await;
    assert!(campaign(&server, "scheduler-7"));
    let refused = one.ask("scheduler").await;
    assert!(matches!(&refused, Acquired::Held { by, .. } if by.as_str() == "scheduler-7"), "{refused:?}");
    assert_eq!(natives(&server), [""; 0], "a lost campaign leaves no lease");
    let _ = one.take("something-else").await;
    let _ = server.ctl(&["del", LEADER]);
    let _ = one.take("scheduler").await;
    assert_eq!(leader(&server), one.id().as_str());
}

// proves R114, R116
#[tokio::test]
async fn a_foreigner_loses_while_a_member_leads_and_wins_after_it_let_go() {
    let server = Etcd::start();
    let store = live(&address(&server, "ours")).await;
    let mut one = Member::join(&store, "one").await;
    let held = one.take("scheduler").await;
    assert!(!campaign(&server, "scheduler-7"), "a member leads");
    assert_eq!((leader(&server).as_str(), natives(&server).len()), (one.id().as_str(), 1));
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    assert!(!campaign(&server, "scheduler-7"), "and goes on leading");
    assert_eq!(one.give_back(&held).await, Released::Freed);
    assert_eq!((leader(&server), natives(&server).len()), (String::new(), 0), "nothing is left behind");
    assert!(campaign(&server, "scheduler-7"));
}

// proves C35
#[tokio::test]
async fn a_lease_that_etcd_ends_early_does_not_end_what_the_record_says() {
    let server = Etcd::start();
    let store = live(&address(&server, "early")).await;
    let mut one = Member::join(&store, "one").await;
    let held = one.take("scheduler").await;
    for native in natives(&server) {
        let _ = server.ctl(&["lease", "revoke", &native]);
    }
    assert_eq!(leader(&server), "", "etcd has ended its lease");
    let mut two = Member::join(&store, "two").await;
    assert_eq!(two.ask("scheduler").await, Acquired::Held { by: one.id().clone(), token: held.token });
    assert_eq!(one.beat().await, Answer::Done(vec![]), "the term is as good as before");
    assert_eq!(
        (leader(&server).as_str(), natives(&server).len()),
        (one.id().as_str(), 1),
        "and is shown again"
    );
}

// proves C35
#[tokio::test]
async fn who_deletes_the_leader_key_wants_another_leader() {
    let server = Etcd::start();
    let store = live(&address(&server, "deleted")).await;
    let mut one = Member::join(&store, "one").await;
    let mut two = Member::join(&store, "two").await;
    let held = one.take("scheduler").await;
    let _ = server.ctl(&["del", LEADER]);
    assert_eq!(two.ask("scheduler").await, Acquired::Held { by: one.id().clone(), token: held.token });
    assert_eq!(one.beat().await, Answer::Done(vec![held.clone()]), "the holder is told to let go");
    assert_eq!(leader(&server), "", "and shows nothing any more");
    assert_eq!(two.ask("scheduler").await, Acquired::Held { by: one.id().clone(), token: held.token });
    assert_eq!(one.give_back(&held).await, Released::Freed);
    assert_eq!(two.take("scheduler").await.token.0, held.token.0 + 1);
    assert_eq!(leader(&server), two.id().as_str());
}

/// Puts a value if the guard holds, as any client can. Says whether it did.
fn put_under(server: &Etcd, guard: &Guard, key: &str) -> bool {
    let Guard::Etcd { key: compared, value } = guard else { panic!("{guard:?} is for another store") };
    let (compared, value) = (String::from_utf8_lossy(compared), String::from_utf8_lossy(value));
    let txn = format!("value({compared:?}) = {value:?}\n\nput {key} written\n\n\n");
    let output = server.try_ctl(&["txn"], &txn);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    said.starts_with("SUCCESS")
}

// proves C39
#[tokio::test]
async fn a_guard_in_a_transaction_refuses_who_leads_no_more() {
    let server = Etcd::start();
    let store = live(&server.url("guarded")).await;
    let key = Key::new(LEADER).expect("a good key");
    let election = |store| Election::new(store, key.clone()).ttl(Duration::from_secs(2));
    let one = election(store).name("one").expect("a good name").start().await.expect("one can start");
    let first = one.campaign().await;
    let old = first.guard().expect("etcd has guards");
    assert!(put_under(&server, &old, "/written/1"));
    drop(first);
    let other = open(&server.url("guarded")).await;
    let two = election(other).name("two").expect("a good name").start().await.expect("two can start");
    let second = two.campaign().await;
    assert!(!put_under(&server, &old, "/written/2"), "the guard of a leader that is no more");
    assert!(put_under(&server, &second.guard().expect("etcd has guards"), "/written/2"));
    assert_eq!(leader(&server), second.lease().member().as_str());
}

#[tokio::test]
async fn a_foreigner_who_took_a_vanished_leader_key_has_the_election() {
    let server = Etcd::start();
    let store = live(&address(&server, "taken")).await;
    let mut one = Member::join(&store, "one").await;
    let held = one.take("scheduler").await;
    let _ = server.ctl(&["del", LEADER]);
    assert!(campaign(&server, "scheduler-7"));
    assert_eq!(one.beat().await, Answer::Done(vec![held.clone()]), "the holder is told to let go");
    assert_eq!(one.give_back(&held).await, Released::Freed);
    assert_eq!(leader(&server), "scheduler-7", "what is theirs stays");
}

#[tokio::test]
async fn what_an_ended_member_left_is_overwritten() {
    let server = Etcd::start();
    let store = live(&address(&server, "left")).await;
    let mut one = Member::join(&store, "one").await;
    let held = one.take("scheduler").await;
    let ended = store.end_silent(one.id(), leasehold::lease::BeatNumber(1), one.era).await;
    assert_eq!(ended.expect("the store answers"), leasehold::store::EndSilent::Ended);
    assert_eq!(leader(&server), one.id().as_str(), "etcd's own lease has not run out");
    let mut two = Member::join(&store, "two").await;
    assert_eq!(two.take("scheduler").await.token.0, held.token.0 + 1);
    assert_eq!(leader(&server), two.id().as_str());
    two.close().await;
    assert_eq!(leader(&server), "", "who closes gives back what is for foreign eyes");
}
