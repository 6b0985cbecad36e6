//! The heartbeat and the guardian alone, on a store that answers at once.

mod late;

use std::sync::Mutex;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::super::scene::Log;
use super::super::session::tests::{Hand, ms, opened, profile, term};
use super::*;
use crate::clock::Sleep;
use crate::lease::{MemberId, Pool, Token};
use crate::store::memory::{MemoryStore, Snapshot};
use crate::store::{LeaseStore, OpenSession, Registry, Wanted};

fn settings(on_uncertain: OnUncertain) -> Settings {
    let pool = "p".parse().unwrap();
    Settings { grace: Duration::from_millis(100), on_uncertain, ..Settings::for_pool(&pool) }
}

#[test]
fn attempts_follow_ever_more_slowly_up_to_an_eighth_of_the_heartbeat() {
    let delay = |failures| retry_delay(failures, Duration::from_secs(8)).as_millis();
    assert_eq!([0, 1, 2, 3, 9, u32::MAX].map(delay), [400, 800, 1000, 1000, 1000, 1000]);
}

#[test]
fn work_stops_a_grace_before_trust_ends_or_when_patience_does() {
    let (session, ..) = opened();
    let patience = |policy, since| patience(ms(since), &session, &settings(policy));
    let (expiry, uncertain) = (Reason::TtlExpiry, Reason::Uncertain);
    let up_to = |millis| OnUncertain::Continue(Duration::from_millis(millis));
    assert_eq!(patience(OnUncertain::Pause, 100), (ms(800), expiry));
    assert_eq!(patience(OnUncertain::Stop, 100), (ms(100), uncertain));
    assert_eq!(patience(up_to(200), 100), (ms(300), uncertain));
    assert_eq!(patience(up_to(700), 100), (ms(800), expiry), "both at once is the end of trust");
    assert_eq!(patience(up_to(900), 100), (ms(800), expiry), "never beyond trust");
}

#[tokio::test]
async fn the_guardian_ends_the_session_at_its_moment_and_not_before() {
    let (session, clock, _) = opened();
    let session = Arc::new(session);
    clock.show(799);
    let guard = || guard(Arc::clone(&session), clock.clone(), settings(OnUncertain::Pause));
    tokio::select! {
        biased;
        () = guard() => panic!("it ended"),
        () = tokio::task::yield_now() => assert!(!session.is_over()),
    }
    clock.show(800);
    guard().await;
    assert_eq!(*session.standing().borrow(), Standing::Over(Reason::TtlExpiry));
}

/// A member that beats in a store, what it learns, and when its ledger is written.
struct Scene {
    store: MemoryStore,
    heartbeat: Heartbeat,
    notices: mpsc::UnboundedReceiver<Notice>,
    written: JoinHandle<()>,
}

fn pool() -> Pool {
    Pool::new("p").unwrap()
}

fn open_session(id: &str) -> OpenSession {
    let (id, ttl) = (MemberId::new(id).unwrap(), Duration::from_secs(1));
    OpenSession { pool: pool(), id, ttl, profile: profile(0) }
}

async fn scene(store: MemoryStore, clock: Arc<dyn Clock>) -> Scene {
    scene_in(pool(), store, clock).await
}

async fn scene_in(pool: Pool, store: MemoryStore, clock: Arc<dyn Clock>) -> Scene {
    let open = OpenSession { pool: pool.clone(), ..open_session("one-1") };
    let Answer::Done(era) = store.open(&open).await.unwrap() else { panic!("not opened") };
    let margin = Duration::from_millis(100);
    let trust = watch::Sender::new(None);
    let session = Arc::new(Session::opened(open, era, ms(0), margin, clock.clone(), trust));
    let (recorder, written) =
        Recorder::new(pool, "one".parse().unwrap(), clock.clone(), Arc::new(store.clone()));
    let (sender, notices) = mpsc::unbounded_channel();
    let settings = settings(OnUncertain::Pause);
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let heartbeat = Heartbeat { session, store: shared, clock, settings, recorder, notices: sender };
    Scene { store, heartbeat, notices, written }
}

impl Scene {
    /// Takes the resource for the session.
    async fn hold(&self, resource: &str) -> Term {
        let session = &self.heartbeat.session;
        let wanted = [Wanted { resource: resource.parse().unwrap(), floor: Token(0) }];
        let sent = session.sending();
        let answer = self.store.acquire(session.id(), sent.pulse, &wanted).await.unwrap();
        let granted = term(resource, 1);
        assert_eq!(answer, Answer::Done(vec![crate::store::Acquired::Granted(granted.clone())]));
        assert_eq!(session.confirm_grants(sent, vec![granted.clone()]).len(), 1);
        granted
    }

    /// What the member wrote: events, and what else they say.
    async fn ledger(self) -> Vec<(Event, Option<String>)> {
        drop(self.heartbeat);
        self.written.await.unwrap();
        let rows = self.store.ledger(&pool(), None, 0, 100).await.unwrap();
        rows.into_iter().map(|(_, row)| (row.event, row.detail)).collect()
    }
}

#[tokio::test]
async fn a_beat_that_is_answered_moves_trust_and_is_written_down() {
    let clock = Arc::new(Hand::default());
    let scene = scene(MemoryStore::new(), clock.clone()).await;
    clock.show(300);
    let (sent, confirmed) = scene.heartbeat.beat(&mut Late::default()).await;
    assert!(confirmed);
    assert_eq!((sent.at, scene.heartbeat.session.trusted_until()), (ms(300), ms(1200)));
    clock.show(1200);
    assert!(!scene.heartbeat.beat(&mut Late::default()).await.1, "the answer came too late");
    assert_eq!(scene.ledger().await, [(Event::Renewed, None)]);
}

#[tokio::test]
async fn a_beat_that_is_not_answered_leaves_doubt() {
    let scene = scene(MemoryStore::new(), Arc::new(Hand::default())).await;
    scene.heartbeat.unconfirmed(&StoreError::unavailable("no answer"));
    assert_eq!(*scene.heartbeat.session.standing().borrow(), Standing::Uncertain(ms(0)));
    assert_eq!(scene.ledger().await, [(Event::RenewFailed, None)]);
}

#[tokio::test]
async fn the_first_of_several_failures_names_the_endpoints_in_the_log_and_other_work_is_not_named() {
    for (pool, lines) in [("endpoints", 1), ("p", 0)] {
        let (log, _reads) = Log::begin();
        let pool = Pool::new(pool).unwrap();
        let scene = scene_in(pool, MemoryStore::new(), Arc::new(Hand::default())).await;
        scene.hold("a").await;
        for _ in 0..2 {
            scene.heartbeat.unconfirmed(&StoreError::unavailable("no answer"));
        }
        assert_eq!(log.lines_with("Lease renewal failed: instance=one-1 endpoint=a"), lines);
    }
}

#[tokio::test]
async fn the_beat_that_learns_of_a_revocation_tells_of_it_and_does_not_extend_it() {
    let clock = Arc::new(Hand::default());
    let mut scene = scene(MemoryStore::new(), clock.clone()).await;
    let term = scene.hold("a").await;
    assert!(scene.heartbeat.beat(&mut Late::default()).await.1);
    assert!(scene.notices.try_recv().is_err(), "nothing was revoked");
    let _ = scene.store.revoke(&pool(), &term).await.unwrap();
    clock.show(300);
    assert!(scene.heartbeat.beat(&mut Late::default()).await.1);
    assert_eq!(scene.heartbeat.session.trusted_until_of(&term), ms(900));
    assert!(matches!(scene.notices.try_recv(), Ok(Notice::Revoked(terms)) if terms == [term]));
}

#[tokio::test]
async fn what_a_store_that_forgot_has_given_to_another_is_told_as_lost() {
    let clock = Arc::new(Hand::default());
    let mut scene = scene(MemoryStore::new(), clock.clone()).await;
    let (kept, lost) = (scene.hold("a").await, scene.hold("b").await);
    scene.store.restore(&scene.store.snapshot());
    assert!(scene.heartbeat.beat(&mut Late::default()).await.1);
    assert!(scene.notices.try_recv().is_err(), "nothing was lost");
    scene.store.restore(&taken_by_another(&scene, &lost).await);
    assert!(scene.heartbeat.beat(&mut Late::default()).await.1);
    assert!(matches!(scene.notices.try_recv(), Ok(Notice::Lost(terms)) if terms == [lost]));
    let terms = scene.heartbeat.session.begin_reassert(Nonce(7)).unwrap().1;
    assert_eq!(terms, [kept]);
    let said = |text: &str| Some((Event::Reasserted, Some(text.to_owned())));
    let rows = scene.ledger().await;
    let mut reasserted = rows.into_iter().filter(|(event, _)| *event == Event::Reasserted);
    assert_eq!(reasserted.next(), said("2 of 2 terms kept"));
    assert_eq!(reasserted.next(), said("1 of 2 terms kept"));
}

/// A store in which another member reasserted the same resource under a higher token.
async fn taken_by_another(scene: &Scene, lost: &Term) -> Snapshot {
    let other = open_session("two-1");
    let era = scene.heartbeat.session.era();
    let pulse = scene.heartbeat.session.sending().pulse;
    assert_eq!(pulse.era, era);
    let higher = Term { token: Token(lost.token.0 + 1), ..lost.clone() };
    let answer = scene.store.reassert(&other, pulse, &[higher]).await.unwrap();
    assert_eq!(answer, Answer::Done(vec![Reasserted::Kept]));
    scene.store.snapshot()
}

/// A clock that stands still and lets nobody sleep, but remembers how long they would have.
struct Restless {
    naps: Arc<Mutex<Vec<Duration>>>,
    meanwhile: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Restless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Restless")
    }
}

impl Clock for Restless {
    fn now(&self) -> Moment {
        ms(0)
    }

    fn sleep_until(&self, deadline: Moment) -> Sleep {
        let (naps, meanwhile) = (Arc::clone(&self.naps), Arc::clone(&self.meanwhile));
        let nap = deadline.since(self.now());
        Box::pin(async move {
            naps.lock().unwrap().push(nap);
            meanwhile();
        })
    }

    fn wall_nanos(&self) -> u64 {
        0
    }
}

#[tokio::test]
async fn after_each_failure_the_next_attempt_waits_longer_and_after_a_success_its_turn() {
    let (store, naps) = (MemoryStore::new(), Arc::new(Mutex::new(Vec::new())));
    let (forgetful, counted, ends) = (store.clone(), Arc::clone(&naps), Arc::new(Mutex::new(None)));
    let end: Arc<Mutex<Option<Arc<Session>>>> = Arc::clone(&ends);
    let meanwhile = move || match counted.lock().unwrap().len() {
        // Each time the store has forgotten once more, and what is reasserted is of an era before.
        1..=4 => forgetful.restore(&forgetful.snapshot()),
        5 | 6 => {}
        _ => end.lock().unwrap().as_ref().expect("a session").end(Reason::Shutdown),
    };
    let clock = Restless { naps: Arc::clone(&naps), meanwhile: Arc::new(meanwhile) };
    let mut scene = scene(store, Arc::new(clock)).await;
    scene.heartbeat.settings.heartbeat = Duration::from_millis(8000);
    *ends.lock().unwrap() = Some(Arc::clone(&scene.heartbeat.session));
    assert!(scene.heartbeat.session.begin_reassert(Nonce(7)).is_some());
    scene.heartbeat.run().await;
    let waited: Vec<u128> = naps.lock().unwrap().iter().map(Duration::as_millis).collect();
    assert_eq!(waited, [8000, 400, 800, 1000, 1000, 8000, 8000]);
}
