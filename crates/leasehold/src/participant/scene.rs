//! A member alone, for tests: its passes are called by hand, on a store in memory and by a clock that the test moves.
//! Its TTL is 30 seconds, and its heartbeat does not beat by itself.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;

use super::member::Member;
use super::session::Session;
use super::session::tests::{Hand, profile};
use super::work::Work;
use super::{Participant, Settings};
use crate::lease::{MemberId, Nonce, Pool, ResourceId, Term, Token};
use crate::ledger::{Entry, Event};
use crate::plan::{Facts, Planner};
use crate::store::memory::MemoryStore;
use crate::store::{Answer, LeaseStore, Listing, OpenSession, Profile, Pulse, Registry, Wanted};

pub(super) const TTL: Duration = Duration::from_secs(30);

pub(super) fn pool() -> Pool {
    Pool::new("p").unwrap()
}

pub(super) fn resource(id: &str) -> ResourceId {
    ResourceId::new(id).unwrap()
}

pub(super) fn id(id: &str) -> MemberId {
    MemberId::new(id).unwrap()
}

pub(super) fn listing(ids: &[&str]) -> Listing {
    Listing::new(ids.iter().map(|id| resource(id)).collect()).unwrap()
}

pub(super) struct Scene {
    pub(super) member: Member,
    pub(super) store: MemoryStore,
    pub(super) clock: Arc<Hand>,
}

impl Scene {
    /// A member whose source lists these, and who has not joined. Its work does nothing and never ends.
    pub(super) fn new(listed: Listing) -> Self {
        let (store, clock) = (MemoryStore::new(), Arc::new(Hand::default()));
        let participant = Participant::join(Arc::new(store.clone()), pool())
            .name("one")
            .unwrap()
            .settings(Settings::with_ttl(TTL))
            .clock(clock.clone())
            .ids(|| id("one-1"));
        let work: Work = Arc::new(|_| Box::pin(std::future::pending()));
        let listing = watch::channel(Arc::new(listed)).1;
        let (member, _) = Member::new(participant, work, Some(listing));
        Self { member, store, clock }
    }

    /// The same, after the pass in which it joined.
    pub(super) async fn joined(listed: &[&str]) -> Self {
        let mut scene = Self::new(listing(listed));
        assert!(scene.pass().await, "who has joined passes again at once");
        scene
    }

    /// The same, with everything that it lists.
    pub(super) async fn holding(listed: &[&str]) -> Self {
        let mut scene = Self::joined(listed).await;
        assert!(!scene.pass().await);
        assert_eq!(scene.held(), listed);
        // What it holds is in the view from here on.
        scene.refresh().await;
        scene
    }

    /// One pass. Says whether there is more to do at once.
    pub(super) async fn pass(&mut self) -> bool {
        self.member.pass().await.expect("the store answers")
    }

    pub(super) async fn refresh(&mut self) {
        let refreshed = self.member.view.refresh(&self.store, &*self.clock).await.expect("the store answers");
        self.member.learn(&refreshed.news);
    }

    pub(super) fn session(&self) -> Arc<Session> {
        self.member.session.clone().expect("a session")
    }

    /// A heartbeat, so that trust goes on.
    pub(super) async fn beat(&self) {
        let (session, sent) = (self.session(), self.session().sending());
        let answer = self.store.beat(session.id(), sent.pulse).await.unwrap();
        assert!(matches!(answer, Answer::Done(_)) && session.confirm_beat(sent), "{answer:?}");
    }

    /// Another member comes, who lists the same and can be given work.
    pub(super) async fn other(&self, id: &str, change: impl FnOnce(&mut Profile)) -> Other {
        let listed = self.member.listing.as_ref().map(|listing| listing.borrow().id());
        let name = id.split('-').next().unwrap_or(id).parse().unwrap();
        let mut profile = Profile { name, listing: listed, ..profile(0) };
        change(&mut profile);
        let open = OpenSession { pool: pool(), id: id.parse().unwrap(), ttl: TTL, profile };
        let Answer::Done(era) = self.store.open(&open).await.unwrap() else { panic!("not opened") };
        Other { store: self.store.clone(), open, era }
    }

    /// What is held, by resource.
    pub(super) fn held(&self) -> Vec<&str> {
        self.member.tenures.keys().map(ResourceId::as_str).collect()
    }

    /// The term under which a resource is held.
    pub(super) fn term(&self, of: &str) -> Term {
        Term { resource: resource(of), token: self.member.tenures[of].lease.token() }
    }

    /// Plans by the facts of the view, with a change.
    pub(super) fn plan(&mut self, change: impl FnOnce(&mut Facts)) {
        let mut facts = self.member.view.facts(self.member.settings.budget);
        change(&mut facts);
        self.member.planner = Planner::new(facts);
        self.member.planned = Some(self.member.planner.plan());
    }

    /// The rows of the ledger about one event, once all that was written has arrived.
    pub(super) async fn rows(&self, event: Event) -> Vec<Entry> {
        let read = || async { self.store.ledger(&pool(), None, 0, usize::MAX).await.unwrap() };
        let marks = |rows: &[(u64, Entry)]| rows.iter().filter(|(_, row)| row.member == id("mark")).count();
        let before = marks(&read().await);
        self.member.recorder.note(&id("mark"), Event::Accepted).write();
        loop {
            let rows = read().await;
            if marks(&rows) > before {
                return rows.into_iter().map(|(_, row)| row).filter(|row| row.event == event).collect();
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Another member, as the store knows it.
pub(super) struct Other {
    store: MemoryStore,
    pub(super) open: OpenSession,
    era: Nonce,
}

impl Other {
    fn pulse(&self) -> Pulse {
        Pulse { number: crate::lease::BeatNumber(1), confirmed: crate::lease::BeatNumber(0), era: self.era }
    }

    /// A heartbeat of it, the first of which is number 1.
    pub(super) async fn beats(&self, number: u64) {
        let pulse = Pulse { number: crate::lease::BeatNumber(number), ..self.pulse() };
        let answer = self.store.beat(&self.open.id, pulse).await.unwrap();
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    }

    pub(super) async fn acquires(&self, of: &str) {
        let wanted = [Wanted { resource: resource(of), floor: Token(0) }];
        let answer = self.store.acquire(&self.open.id, self.pulse(), &wanted).await.unwrap();
        assert!(
            matches!(&answer, Answer::Done(outcomes) if matches!(outcomes[0], crate::store::Acquired::Granted(_))),
            "{answer:?}"
        );
    }
}

/// What is logged on this thread.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Reads along for as long as the guard lives.
    pub(super) fn begin() -> (Self, tracing::subscriber::DefaultGuard) {
        // Where there is one subscriber only, the first thread that comes to a line decides for all whether it is heard.
        static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&ANOTHER);
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// How many lines have this in them.
    pub(super) fn lines_with(&self, words: &str) -> usize {
        let bytes = self.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().filter(|line| line.contains(words)).count()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
