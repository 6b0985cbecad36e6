//! More than one transaction, or one answer, can hold.

use leasehold::lease::{ResourceId, Term};
use leasehold::store::conformance::member::{all_leases, freeze};
use leasehold::store::conformance::{Member, pool, wanted};
use leasehold::store::{Acquired, Answer, Listing, Reasserted, Thawed, Wanted};
use leasehold_testkit::Etcd;

use super::support::live;

// proves R070
#[tokio::test]
async fn many_leases_are_read_reasserted_and_collected_in_pieces() {
    let server = Etcd::start();
    let (store, work) = (live(&server.url("many")).await, pool("work"));
    let mut one = Member::join(&store, "one").await;
    let names: Vec<Wanted> = (0..1230).map(|number| wanted(&format!("r{number:04}"))).collect();
    let mut terms: Vec<Term> = Vec::new();
    for some in names.chunks(store.capabilities().batch_max) {
        let Answer::Done(outcomes) = one.acquire_wanted(some).await else { panic!("a living session") };
        terms.extend(outcomes.into_iter().map(|outcome| match outcome {
            Acquired::Granted(term) => term,
            Acquired::Held { by, .. } => panic!("{by} has it"),
        }));
    }
    let read = all_leases(&store, &work).await;
    assert!(read.iter().map(|lease| &lease.resource).eq(names.iter().map(|name| &name.resource)));
    let nonce = freeze(&store).await;
    assert_eq!(one.reassert(nonce, &terms).await, Answer::Done(vec![Reasserted::Kept; terms.len()]));
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    assert_eq!(one.beat().await, Answer::Done(vec![]));
    one.close().await;
    store.collect(one.id()).await.expect("the store answers");
    assert!(all_leases(&store, &work).await.iter().all(|lease| lease.holder.is_none()), "all are free");
}

#[tokio::test]
async fn a_thaw_ends_more_sessions_than_one_transaction_holds() {
    let server = Etcd::start();
    let store = live(&server.url("crowd")).await;
    let mut members = Vec::new();
    for number in 0..150 {
        members.push(Member::join(&store, &format!("m{number}")).await);
    }
    let nonce = freeze(&store).await;
    assert_eq!(members[7].reassert(nonce, &[]).await, Answer::Done(vec![]));
    assert_eq!(store.thaw(nonce).await.expect("the store answers"), Thawed::Thawed);
    let sessions = leasehold::store::conformance::member::all_sessions(&store, &pool("work")).await;
    let alive: Vec<_> = sessions.iter().filter(|session| !session.ended).map(|session| &session.id).collect();
    assert_eq!(alive, [members[7].id()]);
}

#[tokio::test]
async fn a_listing_larger_than_a_request_is_kept_in_parts() {
    let server = Etcd::start();
    let (store, work) = (live(&server.url("listed")).await, pool("work"));
    let ids = (0..20_000).map(|number| ResourceId::new(format!("{number:0>120}")).expect("a good id"));
    let listing = Listing::new(ids.collect()).expect("no id twice");
    store.publish(&work, &listing.id(), &listing).await.expect("the store answers");
    let found = store.listing(&work, &listing.id()).await.expect("the store answers");
    assert!(found.as_ref() == Some(&listing), "it comes back as it was");
    store.collect_listings(&work).await.expect("the store answers");
    assert!(store.listing(&work, &listing.id()).await.expect("the store answers").is_none());
    assert_eq!(server.ctl(&["get", "--prefix", "listed/part/", "--keys-only"]), "", "no part is left");
}
