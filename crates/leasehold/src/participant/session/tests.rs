//! Trust alone: what moves it, what bounds it, and that it never comes back.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::clock::Sleep;

const TTL: Duration = Duration::from_millis(1000);
const MARGIN: Duration = Duration::from_millis(100);
const ERA: Nonce = Nonce(1);

/// A clock that somebody else moves.
#[derive(Debug, Default)]
pub(crate) struct Hand(AtomicU64);

impl Hand {
    pub(crate) fn show(&self, millis: u64) {
        self.0.store(millis * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Moment {
        Moment(self.0.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, _: Moment) -> Sleep {
        Box::pin(std::future::pending())
    }

    fn wall_nanos(&self) -> u64 {
        0
    }
}

pub(crate) fn ms(number: u64) -> Moment {
    Moment(number * 1_000_000)
}

pub(crate) fn term(resource: &str, token: u64) -> Term {
    Term { resource: ResourceId::new(resource).unwrap(), token: Token(token) }
}

pub(crate) fn profile(flaps: u32) -> Profile {
    Profile {
        name: "one".parse().unwrap(),
        capacity: None,
        labels: BTreeMap::new(),
        ready: true,
        settled: true,
        leaving: false,
        listing: None,
        plan_version: 1,
        flaps,
        version: None,
    }
}

/// A session that was opened at the moment 0, its clock, and what is told of its trust.
pub(crate) fn opened() -> (Session, Arc<Hand>, watch::Receiver<Option<Moment>>) {
    let (clock, trust) = (Arc::new(Hand::default()), watch::Sender::new(None));
    let told = trust.subscribe();
    let id = MemberId::new("one-1").unwrap();
    let open = OpenSession { pool: "p".parse().unwrap(), id, ttl: TTL, profile: profile(0) };
    (Session::opened(open, ERA, ms(0), MARGIN, clock.clone(), trust), clock, told)
}

#[test]
fn trust_runs_from_before_the_call_for_the_ttl_less_the_margin() {
    let (session, clock, told) = opened();
    assert_eq!((session.id().as_str(), session.ttl(), session.era()), ("one-1", TTL, ERA));
    assert_eq!((session.trusted_until(), *told.borrow()), (ms(900), Some(ms(900))));
    clock.show(300);
    let sent = session.sending();
    assert_eq!((sent.at, sent.pulse.era, sent.pulse.number.0, sent.pulse.confirmed.0), (ms(300), ERA, 1, 0));
    clock.show(500);
    assert!(session.confirm_beat(sent));
    assert_eq!((session.trusted_until(), *told.borrow()), (ms(1200), Some(ms(1200))));
    let next = session.sending();
    assert_eq!((next.pulse.number.0, next.pulse.confirmed.0), (2, 1), "the store hears what was confirmed");
}

#[test]
fn an_older_answer_takes_nothing_back() {
    let (session, clock, _) = opened();
    let old = session.sending();
    clock.show(400);
    let new = session.sending();
    assert!(session.confirm_beat(new) && session.confirm_beat(old));
    assert_eq!(session.trusted_until(), ms(1300));
    assert_eq!(session.sending().pulse.confirmed, new.pulse.number);
}

#[test]
fn trust_that_has_lapsed_is_never_revived() {
    let (session, clock, _) = opened();
    let sent = session.sending();
    clock.show(899);
    assert!(session.is_trusted());
    clock.show(900);
    assert!(!session.is_trusted() && !session.is_over(), "nobody has said so yet");
    assert!(!session.confirm_beat(sent));
    assert_eq!(*session.standing().borrow(), Standing::Over(Reason::TtlExpiry));
    clock.show(0);
    assert!(!session.confirm_beat(sent) && !session.is_trusted(), "over is over, whatever the clock says");
    session.end(Reason::Superseded);
    session.doubt();
    assert_eq!(*session.standing().borrow(), Standing::Over(Reason::TtlExpiry), "the first reason stays");
}

#[test]
fn other_calls_confirm_but_do_not_extend() {
    let (session, clock, _) = opened();
    clock.show(300);
    let sent = session.sending();
    assert!(session.confirm(sent));
    assert_eq!((session.trusted_until(), session.sending().pulse.confirmed), (ms(900), sent.pulse.number));
    clock.show(900);
    assert!(!session.confirm(sent));
}

#[test]
fn an_unconfirmed_beat_leaves_doubt_from_the_first_on_until_one_is_confirmed() {
    let (session, clock, _) = opened();
    let standing = session.standing();
    clock.show(100);
    session.doubt();
    clock.show(200);
    session.doubt();
    assert_eq!(*standing.borrow(), Standing::Uncertain(ms(100)));
    assert!(session.is_trusted() && !session.is_over());
    assert!(session.confirm_beat(session.sending()));
    assert_eq!(*standing.borrow(), Standing::Sure);
}

#[test]
fn whoever_waits_for_the_standing_is_woken_by_changes_only() {
    let (session, _, _) = opened();
    let mut standing = session.standing();
    assert!(session.confirm_beat(session.sending()));
    assert!(!standing.has_changed().unwrap());
    session.doubt();
    assert!(standing.has_changed().unwrap());
    standing.mark_unchanged();
    session.doubt();
    assert!(!standing.has_changed().unwrap());
}

#[test]
fn the_store_is_believed_that_a_session_is_gone_in_its_own_era_only() {
    let (session, _, _) = opened();
    let sent = session.sending();
    assert!(session.begin_reassert(Nonce(2)).is_some());
    session.gone(sent);
    assert!(!session.is_over(), "that was about the session before it was reasserted");
    session.gone(session.sending());
    assert_eq!(*session.standing().borrow(), Standing::Over(Reason::Superseded));
}

#[test]
fn a_revoked_term_is_trusted_no_longer_than_when_that_was_learned() {
    let (session, clock, told) = opened();
    let (revoked, other) = (term("a", 4), term("b", 5));
    let both = vec![revoked.clone(), other.clone()];
    assert_eq!(session.confirm_grants(session.sending(), both.clone()), both);
    session.revoke(std::slice::from_ref(&revoked));
    clock.show(300);
    assert!(session.confirm_beat(session.sending()));
    session.revoke(std::slice::from_ref(&revoked));
    assert_eq!(session.trusted_until_of(&revoked), ms(900), "said twice is not trusted longer");
    assert_eq!((session.trusted_until_of(&other), session.trusted_until()), (ms(1200), ms(1200)));
    assert_eq!(*told.borrow(), Some(ms(900)), "work that goes on by itself has one deadline for all of it");
    session.close_term(&other);
    assert_eq!(*told.borrow(), Some(ms(900)));
    session.close_term(&revoked);
    assert_eq!(*told.borrow(), Some(ms(1200)));
}

#[test]
fn a_grant_that_was_revoked_before_its_answer_came_is_not_used() {
    let (session, _, _) = opened();
    session.revoke(&[term("a", 4)]);
    let granted = session.confirm_grants(session.sending(), vec![term("a", 4), term("b", 5), term("a", 6)]);
    assert_eq!(granted, [term("b", 5), term("a", 6)]);
}

#[test]
fn a_grant_that_came_too_late_is_not_used() {
    let (session, clock, _) = opened();
    let sent = session.sending();
    clock.show(900);
    assert_eq!(session.confirm_grants(sent, vec![term("a", 4)]), []);
    clock.show(0);
    assert!(session.begin_reassert(Nonce(2)).is_none(), "a session that is over reasserts nothing");
}

#[test]
fn what_is_held_and_nothing_else_is_reasserted() {
    let (session, _, _) = opened();
    let granted = vec![term("a", 1), term("b", 2), term("c", 3)];
    assert_eq!(session.confirm_grants(session.sending(), granted).len(), 3);
    session.forget(&term("a", 1).resource);
    session.close_term(&term("b", 2));
    session.set_profile(profile(7));
    let (open, terms) = session.begin_reassert(Nonce(2)).unwrap();
    assert_eq!((open.id.as_str(), open.profile.flaps, terms), ("one-1", 7, vec![term("c", 3)]));
    assert_eq!(session.held(), [term("c", 3).resource]);
}

#[test]
fn while_a_reassertion_is_not_answered_nothing_extends_trust() {
    let (session, clock, _) = opened();
    let (old, granted) = (session.sending(), vec![term("a", 1), term("b", 2)]);
    assert_eq!(session.confirm_grants(session.sending(), granted).len(), 2);
    assert_eq!(session.reasserting(), None);
    assert!(session.begin_reassert(Nonce(2)).is_some());
    assert_eq!((session.reasserting(), session.era()), (Some(Nonce(2)), Nonce(2)));
    clock.show(300);
    let sent = session.sending();
    assert_eq!(sent.pulse.era, Nonce(2));
    assert!(!session.confirm_beat(sent) && !session.confirm_beat(old) && !session.reasserted(old, &[]));
    assert_eq!((session.trusted_until(), session.reasserting()), (ms(900), Some(Nonce(2))));
    assert!(session.reasserted(sent, &[term("a", 1)]));
    assert_eq!((session.trusted_until(), session.reasserting()), (ms(1200), None));
    assert!(!session.confirm_beat(old), "an answer of an era that is over says nothing");
    let (_, terms) = session.begin_reassert(Nonce(3)).unwrap();
    assert_eq!(terms, [term("b", 2)], "what was lost is not said again");
}

#[test]
fn a_reassertion_that_is_answered_too_late_revives_nothing() {
    let (session, clock, _) = opened();
    assert!(session.begin_reassert(Nonce(2)).is_some());
    let sent = session.sending();
    clock.show(900);
    assert!(!session.reasserted(sent, &[]));
    assert!(session.is_over());
}

#[test]
fn without_trust_nothing_is_reasserted() {
    let (session, clock, _) = opened();
    clock.show(900);
    assert!(session.begin_reassert(Nonce(2)).is_none());
    assert_eq!(*session.standing().borrow(), Standing::Over(Reason::TtlExpiry));
}

#[tokio::test]
async fn the_heartbeat_is_hurried_once_for_each_time_it_is_asked() {
    let (session, _, _) = opened();
    let waits = async |session: &Session| {
        tokio::select! {
            biased;
            () = session.hurried() => false,
            () = tokio::task::yield_now() => true,
        }
    };
    assert!(waits(&session).await);
    session.hurry();
    assert!(!waits(&session).await);
    assert!(waits(&session).await);
}
