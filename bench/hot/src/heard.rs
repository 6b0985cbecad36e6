//! Heartbeats: what the store does with one, and what everybody else does about it.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use leasehold::clock::{Clock, SystemClock};
use leasehold::lease::{BeatNumber, MemberId, MemberName, Nonce};
use leasehold::listen::Listener;
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Answer, LeaseStore, OpenSession, Profile, Pulse};
use leasehold::view::View;
use leasehold::{Pool, plan};
use tokio::runtime::Runtime;

const MEMBERS: usize = 100;

/// A pool of a hundred who only beat.
struct Crowd {
    runtime: Runtime,
    store: MemoryStore,
    pool: Pool,
    members: Vec<(MemberId, Nonce)>,
}

impl Crowd {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let (store, pool) = (MemoryStore::new(), Pool::new("work").expect("an id"));
        let members = (0..MEMBERS).map(|number| runtime.block_on(open(&store, &pool, number))).collect();
        Self { runtime, store, pool, members }
    }

    /// The next beat of the next member.
    fn beat(&self, turn: usize) {
        let ((member, era), number) = (&self.members[turn % MEMBERS], (turn / MEMBERS) as u64);
        let pulse = Pulse { era: *era, number: BeatNumber(number + 1), confirmed: BeatNumber(number) };
        let answer = self.runtime.block_on(self.store.beat(member, pulse)).expect("an answer");
        assert!(matches!(black_box(answer), Answer::Done(revoked) if revoked.is_empty()));
    }
}

async fn open(store: &MemoryStore, pool: &Pool, number: usize) -> (MemberId, Nonce) {
    let id = MemberId::new(format!("host-{number}-1700000000000000000-0badcafe")).expect("an id");
    let profile = Profile {
        name: MemberName::new(format!("host-{number}")).expect("a name"),
        capacity: None,
        labels: BTreeMap::new(),
        ready: true,
        settled: true,
        leaving: false,
        listing: None,
        plan_version: plan::VERSION,
        flaps: 0,
        version: None,
    };
    let session = OpenSession { pool: pool.clone(), id: id.clone(), ttl: Duration::from_secs(30), profile };
    match store.open(&session).await.expect("an answer") {
        Answer::Done(era) => (id, era),
        refused => panic!("not opened: {refused:?}"),
    }
}

pub(crate) fn beat(times: usize) {
    let crowd = Crowd::new();
    for turn in 0..times {
        crowd.beat(turn);
    }
}

/// One beats, and a listener reads that and counts its silences anew.
pub(crate) fn hear(times: usize) {
    let crowd = Crowd::new();
    let (mut view, mut listener) = (View::new(crowd.pool.clone()), Listener::default());
    for turn in 0..=times {
        crowd.beat(turn);
        let refreshed = crowd.runtime.block_on(view.refresh(&crowd.store, &SystemClock)).expect("an answer");
        listener.hear(&view, refreshed.at, &refreshed.news);
        black_box(listener.silent(SystemClock.now()));
    }
}
