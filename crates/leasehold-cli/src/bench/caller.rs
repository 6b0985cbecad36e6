//! A session that asks the store directly, as a member does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::lease::{BeatNumber, MemberId, MemberName, Nonce, Term};
use leasehold::store::{
    Acquired, Answer, OpenSession, Profile, Pulse, Release, Released, Store, StoreError, StoreErrorKind,
    Wanted,
};
use leasehold::{Pool, ResourceId, Token};

use crate::failure::{Failure, code};

/// As usual: the longest TTL that a store has seen is what it waits for when it may have forgotten something.
const TTL: Duration = Duration::from_secs(30);

/// How often a session is collected that once held very much: what one call has no time for, the next goes on with.
const COLLECTS: u32 = 10;

/// One session and what it holds.
#[derive(Debug)]
pub(super) struct Caller {
    store: Arc<dyn Store>,
    id: MemberId,
    name: MemberName,
    era: Nonce,
    number: u64,
    confirmed: u64,
    pub(super) held: Vec<Term>,
}

impl Caller {
    pub(super) async fn open(store: &Arc<dyn Store>, pool: &Pool) -> Result<Self, Failure> {
        Self::open_as(store, pool, true).await
    }

    /// One that is to be given nothing by the members of the pool.
    pub(super) async fn open_idle(store: &Arc<dyn Store>, pool: &Pool) -> Result<Self, Failure> {
        Self::open_as(store, pool, false).await
    }

    async fn open_as(store: &Arc<dyn Store>, pool: &Pool, ready: bool) -> Result<Self, Failure> {
        let name = MemberName::new("bench").map_err(|error| Failure::usage(error.to_string()))?;
        let id = MemberId::generate_for(&name);
        let profile = Profile {
            name: name.clone(),
            capacity: None,
            labels: BTreeMap::new(),
            ready,
            settled: true,
            leaving: false,
            listing: None,
            plan_version: leasehold::plan::VERSION,
            flaps: 0,
            version: None,
        };
        let session = OpenSession { pool: pool.clone(), id: id.clone(), ttl: TTL, profile };
        let era = done(store.open(&session).await)?;
        Ok(Self { store: Arc::clone(store), id, name, era, number: 0, confirmed: 0, held: Vec::new() })
    }

    pub(super) fn id(&self) -> &MemberId {
        &self.id
    }

    pub(super) fn name(&self) -> &MemberName {
        &self.name
    }

    fn pulse(&mut self) -> Pulse {
        self.number += 1;
        Pulse { era: self.era, number: BeatNumber(self.number), confirmed: BeatNumber(self.confirmed) }
    }

    pub(super) async fn beat(&mut self) -> Result<(), Failure> {
        let pulse = self.pulse();
        done(self.store.beat(&self.id, pulse).await)?;
        self.confirmed = pulse.number.0;
        Ok(())
    }

    /// Asks for all of them in one call; answers how many it got.
    pub(super) async fn acquire(&mut self, resources: Vec<ResourceId>) -> Result<usize, Failure> {
        let pulse = self.pulse();
        let wanted: Vec<Wanted> =
            resources.into_iter().map(|resource| Wanted { resource, floor: Token(0) }).collect();
        let answers = done(self.store.acquire(&self.id, pulse, &wanted).await)?;
        self.confirmed = pulse.number.0;
        let before = self.held.len();
        self.held.extend(answers.into_iter().filter_map(|answer| match answer {
            Acquired::Granted(term) => Some(term),
            Acquired::Held { .. } => None,
        }));
        Ok(self.held.len() - before)
    }

    /// Gives the last so many back in one call.
    pub(super) async fn release(&mut self, count: usize) -> Result<usize, Failure> {
        let pulse = self.pulse();
        let terms = self.held.split_off(self.held.len().saturating_sub(count));
        let terms: Vec<Release> = terms.into_iter().map(|term| Release { term, offer: None }).collect();
        let answers = done(self.store.release(&self.id, pulse, &terms).await)?;
        self.confirmed = pulse.number.0;
        Ok(answers.into_iter().filter(|answer| *answer == Released::Freed).count())
    }

    /// Ends the session and leaves its tombstone, by which others learn of it.
    pub(super) async fn close(self) -> Result<(), Failure> {
        Ok(self.store.close(&self.id).await?)
    }

    /// Gives everything back in parts that the store takes, and leaves no session behind.
    pub(super) async fn leave(mut self, batch: usize) -> Result<(), Failure> {
        while !self.held.is_empty() {
            self.release(batch).await?;
        }
        self.store.close(&self.id).await?;
        let collect = || self.store.collect_known(&self.id, &[]);
        for _ in 1..COLLECTS {
            match collect().await {
                Err(error) if error.kind() == StoreErrorKind::Unavailable => {}
                collected => return Ok(collected?),
            }
        }
        Ok(collect().await?)
    }
}

fn done<T>(answer: Result<Answer<T>, StoreError>) -> Result<T, Failure> {
    match answer? {
        Answer::Done(done) => Ok(done),
        Answer::Gone => Err(Failure::new(
            code::TEMPORARY,
            "a session of the benchmark was ended while it ran; the store or this machine is too slow for its size: give a \
             smaller one",
        )),
        Answer::Frozen(_) => Err(frozen()),
    }
}

pub(super) fn frozen() -> Failure {
    Failure::new(
        code::TEMPORARY,
        "the store is frozen, and grants nothing until its longest TTL is over; start again then. A new store \
         begins at once with `leasehold migrate --fresh`",
    )
}
