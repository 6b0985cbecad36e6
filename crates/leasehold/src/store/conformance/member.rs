//! A member as the cases use it: it counts its own beats and remembers what was confirmed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::lease::{BeatNumber, MemberId, MemberName, Nonce, Pool, ResourceId, Term, Token};
use crate::store::{
    Acquired, Answer, Cursor, LeaseRecord, OpenSession, Profile, Pulse, Reasserted, Release, Released,
    SessionRecord, Store, Wanted,
};

/// The TTL of members unless a case says otherwise.
pub const TTL: Duration = Duration::from_secs(30);

/// A pool by its name.
pub fn pool(name: &str) -> Pool {
    Pool::new(name).expect("a case names its pool well")
}

/// A resource by its name.
pub fn resource(name: &str) -> ResourceId {
    ResourceId::new(name).expect("a case names its resources well")
}

/// A term by its parts.
pub fn term(name: &str, token: u64) -> Term {
    Term { resource: resource(name), token: Token(token) }
}

/// A resource wanted with nothing known of it.
pub fn wanted(name: &str) -> Wanted {
    Wanted { resource: resource(name), floor: Token(0) }
}

/// A profile with the least in it.
pub fn profile(name: &str) -> Profile {
    Profile {
        name: MemberName::new(name).expect("a case names its members well"),
        capacity: None,
        labels: BTreeMap::new(),
        ready: true,
        settled: false,
        leaving: false,
        listing: None,
        plan_version: 1,
        flaps: 0,
        version: None,
    }
}

/// A session to open in the pool `work`.
pub fn session(name: &str) -> OpenSession {
    OpenSession { pool: pool("work"), id: MemberId::generate(), ttl: TTL, profile: profile(name) }
}

/// Opens a session that must not be refused.
pub async fn open(store: &Arc<dyn Store>, session: &OpenSession) -> Nonce {
    match store.open(session).await.expect("the store answers") {
        Answer::Done(nonce) => nonce,
        other => panic!("a new session was refused: {other:?}"),
    }
}

/// All sessions of a pool.
pub async fn all_sessions(store: &Arc<dyn Store>, pool: &Pool) -> Vec<SessionRecord> {
    store.sessions(pool, Cursor::START).await.expect("the store answers").items
}

/// All leases of a pool.
pub async fn all_leases(store: &Arc<dyn Store>, pool: &Pool) -> Vec<LeaseRecord> {
    store.leases(pool, Cursor::START).await.expect("the store answers").items
}

/// One lease of the pool `work`.
pub async fn lease(store: &Arc<dyn Store>, name: &str) -> LeaseRecord {
    let leases = all_leases(store, &pool("work")).await;
    let found = leases.into_iter().find(|lease| lease.resource.as_str() == name);
    found.unwrap_or_else(|| panic!("the store has no record of {name}"))
}

/// One session of the pool `work`.
pub async fn session_of(store: &Arc<dyn Store>, id: &MemberId) -> SessionRecord {
    let sessions = all_sessions(store, &pool("work")).await;
    sessions.into_iter().find(|session| session.id == *id).expect("the store knows the session")
}

/// A member with an open session.
#[derive(Debug, Clone)]
pub struct Member {
    /// The handle it uses.
    pub store: Arc<dyn Store>,
    /// Its session as it was opened.
    pub session: OpenSession,
    /// The era it knows.
    pub era: Nonce,
    /// The last beat it sent.
    pub sent: u64,
    /// The last beat that was confirmed.
    pub confirmed: u64,
}

impl Member {
    /// Joins the pool `work`.
    pub async fn join(store: &Arc<dyn Store>, name: &str) -> Self {
        let session = session(name);
        let era = open(store, &session).await;
        Self { store: Arc::clone(store), session, era, sent: 0, confirmed: 0 }
    }

    /// Its id.
    pub fn id(&self) -> &MemberId {
        &self.session.id
    }

    /// What the next call carries.
    pub fn pulse(&mut self) -> Pulse {
        self.sent += 1;
        Pulse { era: self.era, number: BeatNumber(self.sent), confirmed: BeatNumber(self.confirmed) }
    }

    fn note<T>(&mut self, answer: Answer<T>) -> Answer<T> {
        if matches!(answer, Answer::Done(_)) {
            self.confirmed = self.sent;
        }
        answer
    }

    /// A heartbeat.
    pub async fn beat(&mut self) -> Answer<Vec<Term>> {
        let pulse = self.pulse();
        let answer = self.store.beat(&self.session.id, pulse).await.expect("the store answers");
        self.note(answer)
    }

    /// Asks for resources.
    pub async fn acquire(&mut self, names: &[&str]) -> Answer<Vec<Acquired>> {
        let wanted: Vec<Wanted> = names.iter().map(|name| wanted(name)).collect();
        self.acquire_wanted(&wanted).await
    }

    /// Asks for resources with floors.
    pub async fn acquire_wanted(&mut self, wanted: &[Wanted]) -> Answer<Vec<Acquired>> {
        let pulse = self.pulse();
        let answer = self.store.acquire(&self.session.id, pulse, wanted).await.expect("the store answers");
        self.note(answer)
    }

    /// Asks for one resource that must be free.
    pub async fn take(&mut self, name: &str) -> Term {
        match self.ask(name).await {
            Acquired::Granted(term) => term,
            Acquired::Held { by, token } => panic!("{name} should be free, but {by} has it under {token}"),
        }
    }

    /// Asks for one resource.
    pub async fn ask(&mut self, name: &str) -> Acquired {
        match self.acquire(&[name]).await {
            Answer::Done(mut outcomes) if outcomes.len() == 1 => outcomes.remove(0),
            other => panic!("one wanted resource got {other:?}"),
        }
    }

    /// Gives terms back.
    pub async fn release(&mut self, terms: &[Release]) -> Answer<Vec<Released>> {
        let pulse = self.pulse();
        self.store.release(&self.session.id, pulse, terms).await.expect("the store answers")
    }

    /// Gives one term back.
    pub async fn give_back(&mut self, term: &Term) -> Released {
        match self.release(&[Release { term: term.clone(), offer: None }]).await {
            Answer::Done(mut outcomes) if outcomes.len() == 1 => outcomes.remove(0),
            other => panic!("one release got {other:?}"),
        }
    }

    /// Says under `nonce` what it holds.
    pub async fn reassert(&mut self, nonce: Nonce, terms: &[Term]) -> Answer<Vec<Reasserted>> {
        let pulse = Pulse { era: nonce, ..self.pulse() };
        let answer = self.store.reassert(&self.session, pulse, terms).await.expect("the store answers");
        if matches!(answer, Answer::Done(_)) {
            self.era = nonce;
        }
        self.note(answer)
    }

    /// Closes its session.
    pub async fn close(&self) {
        self.store.close(&self.session.id).await.expect("the store answers");
    }
}

/// Freezes a store by a call from an era that it never had, and answers the new nonce.
pub async fn freeze(store: &Arc<dyn Store>) -> Nonce {
    let stranger = Pulse { era: Nonce::generate(), number: BeatNumber(1), confirmed: BeatNumber(0) };
    match store.beat(&MemberId::generate(), stranger).await.expect("the store answers") {
        Answer::Frozen(nonce) => nonce,
        other => panic!("a call from an era that the store never had got {other:?}"),
    }
}
