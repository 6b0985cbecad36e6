//! Answers that come after the time one call may take. Time is the runtime's, and stands still while anybody works.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::*;
use crate::store::around::{Around, Manner};

const HEARTBEAT: Duration = Duration::from_millis(300);
const CALL_TIMEOUT: Duration = Duration::from_millis(150);
const NEVER: u64 = 1_000_000;

/// The clock of a test: 0 at its beginning.
#[derive(Debug, Clone, Copy)]
struct Virtual(Instant);

impl Virtual {
    #[expect(clippy::disallowed_methods, reason = "this is virtual time")]
    fn begin() -> Self {
        Self(Instant::now())
    }

    async fn at(self, millis: u64) {
        tokio::time::sleep_until(self.0 + Duration::from_millis(millis)).await;
    }
}

impl Clock for Virtual {
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.0.elapsed().as_nanos()).unwrap())
    }

    fn sleep_until(&self, deadline: Moment) -> Sleep {
        Box::pin(tokio::time::sleep_until(self.0 + Duration::from_nanos(deadline.0)))
    }

    fn wall_nanos(&self) -> u64 {
        0
    }
}

/// Calls take effect at once; their answers take as long as is said here, one after the other, and then no time.
#[derive(Debug, Default)]
struct SlowAnswers {
    delays: Mutex<VecDeque<u64>>,
    calls: Mutex<Vec<&'static str>>,
}

impl Manner for SlowAnswers {
    async fn around<T: Send>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.calls.lock().unwrap().push(call);
        let delay = self.delays.lock().unwrap().pop_front().unwrap_or(0);
        let answer = answer.await;
        tokio::time::sleep(Duration::from_millis(delay)).await;
        answer
    }
}

/// A member whose heartbeats are answered after these times.
async fn slow(delays: &[u64]) -> (Scene, Virtual, Arc<Session>, Around<SlowAnswers>) {
    let clock = Virtual::begin();
    let mut scene = scene(MemoryStore::new(), Arc::new(clock)).await;
    let answers = SlowAnswers { delays: Mutex::new(delays.iter().copied().collect()), ..Default::default() };
    let store = Around::with(Arc::new(scene.store.clone()), answers);
    scene.heartbeat.store = Arc::new(store.clone());
    (scene.heartbeat.settings.heartbeat, scene.heartbeat.settings.call_timeout) = (HEARTBEAT, CALL_TIMEOUT);
    let session = Arc::clone(&scene.heartbeat.session);
    (scene, clock, session, store)
}

fn standing(session: &Session) -> Standing {
    *session.standing().borrow()
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_confirms_and_trust_counts_from_its_own_sending() {
    let (scene, clock, session, store) = slow(&[160]).await;
    tokio::spawn(scene.heartbeat.run());
    clock.at(455).await;
    assert_eq!((standing(&session), session.trusted_until()), (Standing::Uncertain(ms(450)), ms(900)));
    clock.at(461).await;
    assert_eq!((standing(&session), session.trusted_until()), (Standing::Sure, ms(1200)));
    clock.at(599).await;
    assert_eq!(*store.manner().calls.lock().unwrap(), ["beat"], "the next one waits for its turn");
    clock.at(601).await;
    assert_eq!(session.trusted_until(), ms(1500));
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_counts_while_the_next_beat_is_on_its_way() {
    let (scene, clock, session, _) = slow(&[200, NEVER]).await;
    tokio::spawn(scene.heartbeat.run());
    clock.at(499).await;
    assert_eq!((standing(&session), session.trusted_until()), (Standing::Uncertain(ms(450)), ms(900)));
    clock.at(501).await;
    assert_eq!((standing(&session), session.trusted_until()), (Standing::Sure, ms(1200)));
    clock.at(616).await;
    assert_eq!(standing(&session), Standing::Uncertain(ms(615)), "the next one is late too");
}

#[tokio::test(start_paused = true)]
async fn of_two_late_beats_only_the_newer_is_waited_for() {
    // Sent at 300, 465 and 645; the first two are answered at 700 and 710.
    let (scene, clock, session, _) = slow(&[400, 245, NEVER]).await;
    tokio::spawn(scene.heartbeat.run());
    clock.at(705).await;
    assert_eq!(session.trusted_until(), ms(900));
    clock.at(711).await;
    assert_eq!((standing(&session), session.trusted_until()), (Standing::Sure, ms(1365)));
}

#[tokio::test(start_paused = true)]
async fn in_whatever_order_answers_come_the_later_trust_stays() {
    for late_first in [true, false] {
        let (scene, clock, session, _) = slow(&[]).await;
        clock.at(100).await;
        let late = session.sending();
        clock.at(300).await;
        let newer = session.sending();
        let order = if late_first { [late, newer] } else { [newer, late] };
        assert!(order.into_iter().all(|sent| scene.heartbeat.hear_late(sent, Ok(Answer::Done(Vec::new())))));
        assert_eq!(session.trusted_until(), ms(1200));
        assert_eq!(session.sending().pulse.confirmed, newer.pulse.number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_changes_nothing_when_the_session_is_over() {
    let (mut scene, clock, session, _) = slow(&[160]).await;
    let term = scene.hold("a").await;
    let sent = session.sending();
    clock.at(100).await;
    session.end(Reason::Shutdown);
    for said in [Answer::Done(vec![term.clone()]), Answer::Gone, Answer::Frozen(Nonce(7))] {
        assert!(!scene.heartbeat.hear_late(sent, Ok(said)));
    }
    assert_eq!((standing(&session), session.trusted_until()), (Standing::Over(Reason::Shutdown), ms(900)));
    assert_eq!((session.trusted_until_of(&term), session.reasserting()), (ms(900), None));
    assert!(scene.notices.try_recv().is_err());
    assert_eq!(scene.ledger().await, []);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_late_answer_when_the_session_is_over() {
    let (scene, clock, session, store) = slow(&[NEVER]).await;
    let beats = tokio::spawn(scene.heartbeat.run());
    clock.at(455).await;
    session.end(Reason::Shutdown);
    clock.at(456).await;
    assert!(beats.is_finished());
    assert_eq!(*store.manner().calls.lock().unwrap(), ["beat"]);
}

#[tokio::test(start_paused = true)]
async fn trust_that_has_lapsed_is_not_revived_by_a_late_answer() {
    let (scene, clock, session, _) = slow(&[]).await;
    let sent = session.sending();
    clock.at(900).await;
    assert!(!scene.heartbeat.hear_late(sent, Ok(Answer::Done(Vec::new()))));
    assert_eq!(standing(&session), Standing::Over(Reason::TtlExpiry));
}

#[tokio::test(start_paused = true)]
async fn told_late_that_it_is_gone_a_session_is_over() {
    let (scene, clock, session, _) = slow(&[160]).await;
    scene.store.close(session.id()).await.unwrap();
    tokio::spawn(scene.heartbeat.run());
    clock.at(455).await;
    assert!(!session.is_over());
    clock.at(461).await;
    assert_eq!(standing(&session), Standing::Over(Reason::Superseded));
}

#[tokio::test(start_paused = true)]
async fn what_a_late_answer_does_not_list_as_revoked_stays_revoked() {
    let (mut scene, clock, session, _) = slow(&[]).await;
    let (one, two) = (scene.hold("a").await, scene.hold("b").await);
    let late = session.sending();
    clock.at(300).await;
    assert!(scene.heartbeat.hear_late(session.sending(), Ok(Answer::Done(vec![one.clone()]))));
    assert!(scene.heartbeat.hear_late(late, Ok(Answer::Done(Vec::new()))));
    assert_eq!((session.trusted_until_of(&one), session.trusted_until_of(&two)), (ms(900), ms(1200)));
    assert!(matches!(scene.notices.try_recv(), Ok(Notice::Revoked(terms)) if terms == [one]));
    assert!(scene.heartbeat.hear_late(late, Ok(Answer::Done(vec![two.clone()]))));
    assert!(
        matches!(scene.notices.try_recv(), Ok(Notice::Revoked(terms)) if terms == std::slice::from_ref(&two))
    );
    assert!(session.confirm_beat(session.sending()));
    assert_eq!(session.trusted_until_of(&two), ms(1200), "what is learned late is not extended either");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_reassertion_is_not_confused_by_late_beats() {
    let (scene, clock, session, _) = slow(&[]).await;
    let late = session.sending();
    assert!(session.begin_reassert(Nonce(7)).is_some());
    let sent = session.sending();
    clock.at(300).await;
    for said in [Answer::Done(Vec::new()), Answer::Gone, Answer::Frozen(Nonce(8))] {
        assert!(!scene.heartbeat.hear_late(late, Ok(said)));
        assert_eq!((session.reasserting(), session.era()), (Some(Nonce(7)), Nonce(7)));
        assert_eq!((standing(&session), session.trusted_until()), (Standing::Sure, ms(900)));
    }
    assert!(session.reasserted(sent, &[]));
    assert!(!scene.heartbeat.hear_late(late, Ok(Answer::Done(Vec::new()))), "its era is over");
}

#[tokio::test(start_paused = true)]
async fn a_late_beat_is_not_waited_for_once_the_store_is_known_to_be_frozen() {
    // A beat that is answered at 1100, one that learns of the freeze at 475, and a reassertion that is answered at 575.
    let (scene, clock, session, store) = slow(&[800, 10, 100]).await;
    let (memory, before) = (scene.store.clone(), session.era());
    let heartbeat = tokio::spawn(scene.heartbeat.run());
    clock.at(455).await;
    memory.restore(&memory.snapshot());
    clock.at(574).await;
    assert_eq!((session.trusted_until(), session.reasserting()), (ms(900), Some(session.era())));
    clock.at(576).await;
    assert_ne!(session.era(), before);
    assert_eq!((session.trusted_until(), session.reasserting()), (ms(1375), None));
    assert_eq!(*store.manner().calls.lock().unwrap(), ["beat", "beat", "reassert"]);
    heartbeat.abort();
}

#[tokio::test(start_paused = true)]
async fn told_late_of_a_freeze_it_asks_again_under_which_nonce() {
    let (scene, clock, session, store) = slow(&[160]).await;
    let memory = scene.store.clone();
    // What it is told is true no longer when it hears of it.
    memory.restore(&memory.snapshot());
    tokio::spawn(scene.heartbeat.run());
    clock.at(455).await;
    memory.restore(&memory.snapshot());
    clock.at(461).await;
    assert_eq!(*store.manner().calls.lock().unwrap(), ["beat", "beat", "reassert"]);
    assert_eq!((session.reasserting(), session.trusted_until()), (None, ms(1360)));
}
