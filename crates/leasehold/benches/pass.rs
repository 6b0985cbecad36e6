//! How soon a member of a large pool does something about one change: a new resource that is its to take, from the answer to the declaration to
//! the first step of the work, on the embedded store. The pass of a member that knows every lease is in it, and the grant.
//!
//! `cargo bench -p leasehold --bench pass [-- RESOURCES MEMBERS]`. Beside it stands the same in a pool of a hundredth.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::lease::{BeatNumber, MemberId, Nonce, ResourceId, Token};
use leasehold::plan::{self, rendezvous::hash_id};
use leasehold::store::{
    Acquired, Answer, Begin, Declared, Listing, OpenSession, Profile, Pulse, Store, StoreUrl, Version,
    Wanted, migrate, open,
};
use leasehold::{Participant, Pool, clock};
use tokio::sync::mpsc;

/// Nobody falls silent while this runs.
const TTL: Duration = Duration::from_secs(3600);
const TURNS: usize = 30;
/// Long enough for what came of the last one to be over.
const PAUSE: Duration = Duration::from_millis(500);
const BATCH: usize = 1000;

/// A session that holds its share, and is no member otherwise.
struct Other {
    id: MemberId,
    era: Nonce,
    held: usize,
}

impl Other {
    fn pulse(&self) -> Pulse {
        Pulse { era: self.era, number: BeatNumber(1), confirmed: BeatNumber(0) }
    }

    async fn new(store: &dyn Store, pool: &Pool, number: usize, listing: &Listing) -> Self {
        let profile = Profile {
            name: format!("other-{number}").parse().expect("a name"),
            capacity: None,
            labels: BTreeMap::new(),
            ready: true,
            settled: true,
            leaving: false,
            listing: Some(listing.id()),
            plan_version: plan::VERSION,
            flaps: 0,
            version: None,
        };
        let id = MemberId::new(format!("other-{number}-1")).expect("an id");
        let session = OpenSession { pool: pool.clone(), id: id.clone(), ttl: TTL, profile };
        match store.open(&session).await.expect("an answer") {
            Answer::Done(era) => Self { id, era, held: 0 },
            refused => panic!("not opened: {refused:?}"),
        }
    }

    async fn take(&mut self, store: &dyn Store, resources: &[ResourceId]) {
        for few in resources.chunks(BATCH) {
            let wanted: Vec<Wanted> =
                few.iter().map(|id| Wanted { resource: id.clone(), floor: Token(0) }).collect();
            let answer = store.acquire(&self.id, self.pulse(), &wanted).await.expect("an answer");
            let Answer::Done(outcomes) = answer else { panic!("not acquired: {answer:?}") };
            assert!(outcomes.iter().all(|outcome| matches!(outcome, Acquired::Granted(_))), "not granted");
            self.held += outcomes.len();
        }
    }
}

/// A resource that the member is preferred for above all others.
fn preferred(turn: usize, me: &MemberId, others: &[Other]) -> ResourceId {
    let hash = |id: &MemberId| hash_id(id.as_str());
    let all: Vec<u64> = others.iter().map(|other| hash(&other.id)).chain([hash(me)]).collect();
    let mut ids = (0..).map(|number| format!("new-{turn}-{number}"));
    let id = ids.find(|id| plan::rank_of(&all, hash_id(id), hash(me)) == 0).expect("there are many");
    ResourceId::new(id).expect("an id")
}

async fn measure(resources: usize, members: usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let url: StoreUrl =
        format!("sqlite:{}", directory.path().join("work.db").display()).parse().expect("a store's URL");
    migrate(&url, Begin::Live).await.expect("a store");
    let (store, pool) = (open(&url).await.expect("a store"), Pool::new("many").expect("an id"));
    let ids: Vec<ResourceId> =
        (0..resources).map(|number| ResourceId::new(format!("r{number}")).expect("an id")).collect();
    let listing = Listing::new(ids.clone()).expect("each once");
    store.publish(&pool, &listing.id(), &listing).await.expect("an answer");
    let mut others = Vec::new();
    // The member's own share is free, and is what it takes first.
    for (number, share) in ids.chunks(resources.div_ceil(members)).skip(1).enumerate() {
        let mut other = Other::new(&*store, &pool, number, &listing).await;
        other.take(&*store, share).await;
        others.push(other);
    }
    let own = resources - others.iter().map(|other| other.held).sum::<usize>();
    let (began, mut work) = mpsc::unbounded_channel();
    let member = Participant::join(Arc::clone(&store), pool.clone())
        .ttl(TTL)
        .resources(ids.iter().map(ResourceId::as_str))
        .expect("ids")
        .start(move |lease| {
            let _ = began.send((lease.resource().clone(), clock::now()));
            async move {
                lease.lost().await;
            }
        })
        .await
        .expect("a member");
    let mut status = member.status();
    status.wait_for(|status| status.held.len() == own).await.expect("a member");
    for _ in 0..own {
        work.recv().await.expect("a member");
    }
    let me = status.borrow().member.clone().expect("a session");
    let mut took = Vec::new();
    for turn in 0..TURNS {
        tokio::time::sleep(PAUSE).await;
        let mut new = Declared::new(preferred(turn, &me, &others));
        let _ = store.declare(&pool, &new).await.expect("an answer");
        let declared = clock::now();
        let (taken, at) = work.recv().await.expect("a member");
        assert_eq!(taken, new.resource, "nothing else is taken");
        took.push(at.since(declared).as_secs_f64() * 1000.0);
        (new.removed, new.version) = (true, Version(1));
        let _ = store.declare(&pool, &new).await.expect("an answer");
        status.wait_for(|status| status.held.len() == own).await.expect("a member");
    }
    took.sort_unstable_by(f64::total_cmp);
    println!(
        "{resources} resources, {members} members: a new one is worked on after {:.1} ms (median of {TURNS}; {:.1} to {:.1})",
        took[TURNS / 2],
        took[0],
        took[TURNS - 1]
    );
    member.leave().await;
}

#[tokio::main]
async fn main() {
    let mut given = std::env::args().skip(1).filter_map(|given| given.parse().ok());
    let (resources, members) = (given.next().unwrap_or(1_000_000), given.next().unwrap_or(100));
    measure((resources / 100).max(members), members).await;
    measure(resources, members).await;
}
