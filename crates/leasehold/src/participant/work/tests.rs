//! A lease as its work sees it, and how work comes to its end.

use super::super::scene::{Scene, id, listing, resource};
use super::super::session::tests::{Hand, ms, opened, term};
use super::*;
use crate::clock::Sleep;

fn lease() -> (Lease, Arc<Session>, Arc<Hand>) {
    let (session, clock, _) = opened();
    let session = Arc::new(session);
    (Lease::new("p".parse().unwrap(), term("a", 7), Arc::clone(&session), clock.clone()), session, clock)
}

#[test]
fn a_lease_knows_what_it_is() {
    let (lease, ..) = lease();
    assert_eq!(
        (lease.pool().as_str(), lease.resource(), lease.member()),
        ("p", &resource("a"), &id("one-1"))
    );
    assert_eq!((lease.token(), lease.term()), (Token(7), Ok(&term("a", 7))));
    assert_eq!(format!("{lease:?}"), r#"Lease { pool: "p", term: Term { resource: "a", token: Token(7) } }"#);
}

#[test]
fn a_lease_is_held_until_trust_ends() {
    let (lease, session, clock) = lease();
    clock.show(899);
    assert_eq!((lease.remaining(), lease.state()), (Duration::from_millis(1), State::Held));
    assert_eq!((lease.trusted_until(), lease.session_trust()), (ms(900), ms(900)));
    assert_eq!(lease.common_deadline(), Some(ms(900)));
    assert_eq!(lease.uncertain_since(), None);
    session.doubt();
    assert_eq!((lease.state(), lease.is_stopping()), (State::Uncertain, false));
    assert_eq!(lease.uncertain_since(), Some(ms(899)));
    assert!(lease.term().is_ok());
    clock.show(900);
    assert_eq!((lease.term(), lease.state(), lease.is_stopping()), (Err(Lost), State::Lost, true));
}

#[test]
fn what_was_told_to_stop_is_lost_to_its_work_and_still_trusted() {
    let (lease, ..) = lease();
    lease.stop(Reason::Rebalance);
    assert_eq!((lease.state(), lease.is_stopping(), lease.term().is_ok()), (State::Lost, true, true));
}

#[test]
fn work_stops_with_its_session_and_is_trusted_unless_the_store_gave_it_away() {
    for (reason, trusted) in [(Reason::Shutdown, true), (Reason::Superseded, false)] {
        let (lease, session, _) = lease();
        session.end(reason);
        assert_eq!((lease.state(), lease.is_stopping()), (State::Lost, true));
        assert_eq!(lease.term().is_ok(), trusted);
        assert_eq!(lease.session_trust(), ms(900), "that is what the ledger says");
    }
}

#[test]
fn a_dead_term_is_not_acted_upon_and_dies_once() {
    let (lease, ..) = lease();
    assert!(lease.disown());
    assert!(!lease.disown());
    assert_eq!((lease.term(), lease.trusted_until()), (Err(Lost), Moment::default()));
}

#[tokio::test]
async fn the_first_reason_to_stop_stays() {
    let (lease, session, _) = lease();
    lease.stop(Reason::Rebalance);
    lease.stop(Reason::Shutdown);
    session.end(Reason::TtlExpiry);
    assert_eq!(lease.lost().await, Reason::Rebalance);
    let (lease, session, _) = self::lease();
    session.end(Reason::Superseded);
    assert_eq!(lease.lost().await, Reason::Superseded);
}

/// Whether something that must not wait for anything ends.
async fn ends(what: impl Future<Output = ()>) -> bool {
    tokio::select! {
        biased;
        () = what => true,
        () = tokio::task::yield_now() => false,
    }
}

#[tokio::test]
async fn changes_of_state_are_told() {
    let (lease, session, _) = lease();
    assert!(!ends(lease.changed(State::Held)).await);
    assert!(ends(lease.changed(State::Uncertain)).await);
    session.doubt();
    assert!(ends(lease.changed(State::Held)).await);
    let watching = lease.clone();
    let told = tokio::spawn(async move { watching.changed(State::Uncertain).await });
    tokio::task::yield_now().await;
    session.end(Reason::Shutdown);
    tokio::task::yield_now().await;
    assert!(told.is_finished());
    assert!(!ends(lease.changed(State::Lost)).await, "that is final");
}

/// A clock on which every sleep is over at once.
#[derive(Debug)]
struct Awake;

impl Clock for Awake {
    fn now(&self) -> Moment {
        ms(0)
    }

    fn sleep_until(&self, _: Moment) -> Sleep {
        Box::pin(async {})
    }

    fn wall_nanos(&self) -> u64 {
        0
    }
}

/// Runs this work, told to stop if a reason is given, and says what the ledger and the pass are told of its end.
async fn tended(work: Work, reason: Option<Reason>) -> (Option<String>, Option<String>, Option<Reason>) {
    let scene = Scene::new(listing(&[]));
    let (session, ..) = opened();
    let lease = Lease::new("p".parse().unwrap(), term("a", 7), Arc::new(session), Arc::new(Awake));
    if let Some(reason) = reason {
        lease.stop(reason);
    }
    let (sender, mut ended) = mpsc::unbounded_channel();
    let manner = Manner { grace: Duration::ZERO, aborts: true };
    tend(lease.clone(), work, manner, scene.member.recorder.clone(), sender).await;
    assert_eq!(lease.term(), Err(Lost), "its term is dead");
    let told = ended.recv().await.expect("its end is told");
    assert_eq!(told.term, term("a", 7));
    let [row] = scene.rows(Event::Stopped).await.try_into().expect("one row");
    assert_eq!(row.reason, Some(told.told.unwrap_or(Reason::Voluntary)));
    assert_eq!(row.trusted_until, Some(ms(900)));
    (row.error, row.detail, told.told)
}

#[tokio::test]
async fn the_end_of_work_is_told_as_it_was() {
    let returns: Work = Arc::new(|_| Box::pin(async {}));
    let panics: Work = Arc::new(|_| Box::pin(async { panic!("as planned") }));
    let stays: Work = Arc::new(|_| Box::pin(std::future::pending()));
    assert_eq!(tended(returns, None).await, (None, None, None));
    assert_eq!(tended(panics, None).await, (Some("the work panicked".to_owned()), None, None));
    let told = Some(Reason::Rebalance);
    assert_eq!(tended(stays, told).await, (None, Some("aborted".to_owned()), told));
}

#[tokio::test]
async fn work_that_ends_before_it_is_seen_to_be_told_was_told_all_the_same() {
    let gives_up: Work = Arc::new(|lease| Box::pin(async move { lease.give_up() }));
    assert_eq!(tended(gives_up, None).await.2, Some(Reason::Voluntary));
    let notices: Work =
        Arc::new(|lease| Box::pin(async move { lease.inner.session.end(Reason::Superseded) }));
    assert_eq!(tended(notices, None).await.2, Some(Reason::Superseded));
}

#[tokio::test]
async fn a_write_to_the_stores_own_server_can_depend_on_the_term() {
    let (lease, session, _) = lease();
    let directory = tempfile::tempdir().unwrap();
    let store = crate::store::sqlite::SqliteStore::open(&directory.path().join("store")).await.unwrap();
    let guard = lease.guard(&store);
    assert_eq!(guard, store.guard(session.as_opened(), &term("a", 7)));
    assert!(guard.is_some());
}
