//! Outages of the store that are shorter than what the settings leave room for.

use std::sync::Arc;
use std::time::Duration;

use leasehold::participant::{Running, State};
use leasehold::store::around::{Fault, Faulty};
use leasehold::store::memory::MemoryStore;
use leasehold::{Participant, clock};

use crate::witness::Witness;
use crate::{PATIENCE, pool, until};

const TTL: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(2);
/// A little less than a third of the TTL.
const OUTAGE: Duration = Duration::from_millis(1950);
/// An outage that a busy machine has made longer than this proves nothing.
const OUTAGE_MAX: Duration = Duration::from_millis(1990);

async fn next_heartbeat(member: &Running) {
    let mut trust = member.trusted_until();
    trust.borrow_and_update();
    tokio::time::timeout(PATIENCE, trust.changed()).await.expect("a heartbeat is confirmed").unwrap();
}

/// Answers whether the outage was as short as it was meant to be.
async fn outage(store: &Faulty, member: &Running, after_a_heartbeat: Duration) -> bool {
    next_heartbeat(member).await;
    tokio::time::sleep(after_a_heartbeat).await;
    let began = clock::now();
    store.break_everything(Fault::Fails);
    tokio::time::sleep(OUTAGE).await;
    store.mend();
    let lasted = clock::now().since(began);
    until(member, "being sure of itself again", |status| status.state == State::Held).await;
    next_heartbeat(member).await;
    lasted <= OUTAGE_MAX
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_shorter_than_a_third_of_the_ttl_costs_no_lease_whenever_it_begins() {
    let witness = Witness::default();
    let store = Faulty::new(Arc::new(MemoryStore::new()));
    let builder = Participant::join(Arc::new(store.clone()), pool()).ttl(TTL).resources(["a", "b"]).unwrap();
    let member = builder.start(witness.work("one")).await.unwrap();
    until(&member, "owning both", |status| status.held.len() == 2).await;
    for after_a_heartbeat in [Duration::ZERO, HEARTBEAT * 97 / 100] {
        loop {
            let before = member.status().borrow().clone();
            if outage(&store, &member, after_a_heartbeat).await {
                let after = member.status().borrow().clone();
                assert_eq!((before.member, before.held), (after.member, after.held), "{after_a_heartbeat:?}");
                break;
            }
            until(&member, "owning both", |status| status.held.len() == 2).await;
        }
    }
    member.leave().await;
    witness.verify();
}
