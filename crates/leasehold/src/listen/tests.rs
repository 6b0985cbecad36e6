//! What a listener hears, on a clock that stands still.

use std::sync::Arc;

use super::*;
use crate::clock::{Clock, Sleep};
use crate::lease::Pool;
use crate::store::memory::MemoryStore;
use crate::store::{Acquired, Answer, Freed, LeaseStore, OpenSession, Profile, Pulse, Release, Wanted};

const TTL: Duration = Duration::from_secs(3);

/// A clock that stands still.
#[derive(Debug)]
struct At(Moment);

impl Clock for At {
    fn now(&self) -> Moment {
        self.0
    }

    fn sleep_until(&self, _: Moment) -> Sleep {
        Box::pin(std::future::pending())
    }

    fn wall_nanos(&self) -> u64 {
        0
    }
}

struct Scene {
    store: MemoryStore,
    view: View,
    listener: Listener,
    session: OpenSession,
    era: Nonce,
}

async fn scene() -> Scene {
    let (store, pool) = (MemoryStore::new(), Pool::new("p").unwrap());
    let profile = Profile {
        name: "other".parse().unwrap(),
        capacity: None,
        labels: Default::default(),
        ready: true,
        settled: true,
        leaving: false,
        listing: None,
        plan_version: 1,
        flaps: 0,
        version: None,
    };
    let session = OpenSession { pool: pool.clone(), id: MemberId::generate(), ttl: TTL, profile };
    let crate::store::Answer::Done(era) = store.open(&session).await.unwrap() else { panic!("not opened") };
    Scene { store, view: View::new(pool), listener: Listener::default(), session, era }
}

impl Scene {
    async fn read_at(&mut self, millis: u64) {
        let at = Moment(1_000_000_000_000).after(Duration::from_millis(millis));
        let store: Arc<dyn crate::store::Store> = Arc::new(self.store.clone());
        let refreshed = self.view.refresh(&*store, &At(at)).await.unwrap();
        self.listener.hear(&self.view, refreshed.at, &refreshed.news);
    }

    fn silent_at(&self, millis: u64) -> bool {
        let at = Moment(1_000_000_000_000).after(Duration::from_millis(millis));
        !self.listener.silent(at).is_empty()
    }
}

#[tokio::test]
async fn what_another_listener_heard_counts_while_the_beat_is_the_same() {
    let mut first = scene().await;
    for millis in (0..=2000).step_by(100) {
        first.read_at(millis).await;
    }
    let told = first.listener.silences(4);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].millis, 2000);

    // On another clock, a listener that was told needs only the rest, and at least a third of the TTL.
    first.listener = Listener::default();
    first.listener.resume(told.clone());
    for millis in (9000..=9950).step_by(50) {
        first.read_at(millis).await;
    }
    assert!(!first.silent_at(9999));
    assert!(first.silent_at(10_000));

    // A newer beat, or another era, makes it worthless.
    let pulse = Pulse { era: first.era, number: BeatNumber(1), confirmed: BeatNumber(0) };
    let _ = first.store.beat(&first.session.id, pulse).await.unwrap();
    let other_era = Silence { beat: BeatNumber(1), era: Nonce(7), ..told[0].clone() };
    for told in [told, vec![other_era]] {
        first.listener = Listener::default();
        first.listener.resume(told);
        for millis in (20_000..=22_900).step_by(100) {
            first.read_at(millis).await;
        }
        assert!(!first.silent_at(22_999));
    }
}

// proves C27 and the design's silence
#[tokio::test]
async fn a_whole_ttl_without_a_new_beat_is_silence_and_a_beat_breaks_it() {
    let mut scene = scene().await;
    for millis in (0..=2900).step_by(100) {
        scene.read_at(millis).await;
    }
    assert!(!scene.silent_at(2999));
    assert!(scene.silent_at(3000));
    let pulse = Pulse { era: scene.era, number: BeatNumber(1), confirmed: BeatNumber(0) };
    let _ = scene.store.beat(&scene.session.id, pulse).await.unwrap();
    scene.read_at(2950).await;
    assert!(!scene.silent_at(3000));
    assert!(!scene.silent_at(5949));
}

#[tokio::test]
async fn who_was_deaf_gives_the_others_a_third_of_their_ttl_more() {
    let mut scene = scene().await;
    scene.read_at(0).await;
    scene.read_at(2500).await;
    assert!(!scene.silent_at(3001), "the reads were too far apart");
    assert_eq!(scene.listener.next_due(TTL, None), Some(at(3500)));
    scene.read_at(3400).await;
    assert!(!scene.silent_at(3499));
    assert!(scene.silent_at(3500));
    assert!(!scene.silent_at(9000), "a verdict needs a recent read");
}

#[tokio::test]
async fn a_short_break_costs_nothing_beyond_the_ttl() {
    let mut scene = scene().await;
    scene.read_at(0).await;
    scene.read_at(1600).await;
    scene.read_at(2900).await;
    assert!(!scene.silent_at(2999));
    assert!(scene.silent_at(3000));
}

#[tokio::test]
async fn a_new_era_starts_every_count_again() {
    let mut scene = scene().await;
    let before = scene.store.snapshot();
    for millis in (0..=2900).step_by(100) {
        scene.read_at(millis).await;
    }
    scene.store.restore(&before);
    scene.read_at(3000).await;
    assert!(!scene.silent_at(3001));
    let frozen_until = Moment(1_000_000_000_000).after(Duration::from_millis(6000));
    for millis in (3000..=6000).step_by(500) {
        scene.read_at(millis).await;
    }
    assert!(scene.listener.thawable(frozen_until.before(Duration::from_millis(1)), TTL).is_none());
    assert!(scene.listener.thawable(frozen_until, TTL).is_some());
}

#[test]
fn reads_a_third_of_the_ttl_and_a_little_apart_are_near_enough() {
    let near = Duration::from_millis(1500);
    assert!(!is_deaf(near, TTL));
    assert!(is_deaf(near + Duration::from_nanos(1), TTL));
}

fn at(millis: u64) -> Moment {
    Moment(1_000_000_000_000).after(Duration::from_millis(millis))
}

impl Scene {
    async fn read_from(&mut self, from: u64, to: u64) {
        for millis in (from..=to).step_by(100) {
            self.read_at(millis).await;
        }
    }

    /// The session takes the resource, and all that is known of the session is forgotten.
    async fn orphan(&mut self, token: u64) -> Term {
        let term = Term { resource: ResourceId::new("r").unwrap(), token: Token(token) };
        let pulse = |number| Pulse { era: self.era, number: BeatNumber(number), confirmed: BeatNumber(0) };
        let wanted = [Wanted { resource: term.resource.clone(), floor: Token(0) }];
        let id = &self.session.id;
        let before = Term { resource: term.resource.clone(), token: Token(token - 1) };
        let _ = self.store.release(id, pulse(1), &[Release { term: before, offer: None }]).await.unwrap();
        let acquired = self.store.acquire(id, pulse(2), &wanted).await.unwrap();
        assert_eq!(acquired, Answer::Done(vec![Acquired::Granted(term.clone())]));
        self.store.lose_session(id);
        self.view.lose_session(id);
        term
    }

    fn orphans_at(&self, millis: u64) -> Vec<(MemberId, Term)> {
        self.listener.orphans(at(millis))
    }
}

#[tokio::test]
async fn a_lease_whose_holder_is_unknown_for_a_whole_ttl_is_an_orphan() {
    let mut scene = scene().await;
    let term = scene.orphan(1).await;
    scene.read_from(0, 2900).await;
    assert_eq!(scene.orphans_at(2999), []);
    assert_eq!(scene.listener.next_due(TTL, None), Some(at(3000)));
    assert_eq!(scene.orphans_at(3000), [(scene.session.id.clone(), term)]);
    assert_eq!(scene.orphans_at(9000), [], "a verdict needs a recent read");
    scene.read_at(6000).await;
    assert_eq!(scene.orphans_at(6000), [], "who was deaf starts again");
    scene.read_from(6100, 9000).await;
    assert_eq!(scene.orphans_at(9000).len(), 1);
}

#[tokio::test]
async fn a_revoked_term_is_over_a_whole_ttl_after_that_was_read_however_lively_its_holder_is() {
    let mut scene = scene().await;
    let id = scene.session.id.clone();
    let term = Term { resource: ResourceId::new("r").unwrap(), token: Token(1) };
    let era = scene.era;
    let pulse = |number| Pulse { era, number: BeatNumber(number), confirmed: BeatNumber(0) };
    let wanted = [Wanted { resource: term.resource.clone(), floor: Token(0) }];
    let _ = scene.store.acquire(&id, pulse(1), &wanted).await.unwrap();
    scene.read_from(0, 900).await;
    let _ = scene.store.revoke(&scene.session.pool, &term).await.unwrap();
    for millis in (1000..=3900).step_by(100) {
        let _ = scene.store.beat(&id, pulse(millis)).await.unwrap();
        scene.read_at(millis).await;
    }
    assert_eq!(scene.listener.revoked(at(3999)), []);
    assert_eq!(scene.listener.next_due(TTL, Some(&id)), None, "our own is ours to give back");
    assert_eq!(scene.listener.next_due(TTL, None), Some(at(4000)));
    assert_eq!(scene.listener.revoked(at(4000)), [(id.clone(), term, at(4000))]);
    assert_eq!(scene.listener.revoked(at(9000)), [], "a verdict needs a recent read");
    // In a new era its holder may have trusted it again.
    scene.store.restore(&scene.store.snapshot());
    scene.read_at(4100).await;
    assert_eq!(scene.listener.revoked(at(4100)), []);
}

/// Nothing that is read says so: whoever learned it tells the view.
#[tokio::test]
async fn a_lease_is_an_orphan_from_when_its_holder_is_known_to_be_gone() {
    let mut scene = scene().await;
    let wanted = [Wanted { resource: ResourceId::new("r").unwrap(), floor: Token(0) }];
    let pulse = Pulse { era: scene.era, number: BeatNumber(1), confirmed: BeatNumber(0) };
    let _ = scene.store.acquire(&scene.session.id, pulse, &wanted).await.unwrap();
    scene.read_from(0, 1000).await;
    scene.store.lose_session(&scene.session.id);
    scene.view.lose_session(&scene.session.id);
    scene.read_from(1100, 4100).await;
    assert_eq!(scene.orphans_at(4099), []);
    assert_eq!(scene.orphans_at(4100).len(), 1);
}

/// Who dies while a store is frozen is missed a TTL later, and not a TTL after the thaw.
#[tokio::test]
async fn silence_that_began_in_a_frozen_store_goes_on_after_the_thaw() {
    let mut scene = scene().await;
    let unheard_of = scene.store.end_silent(&scene.session.id, BeatNumber(0), Nonce::generate()).await;
    let Ok(crate::store::EndSilent::Frozen(nonce)) = unheard_of else { panic!("not frozen") };
    scene.read_at(0).await;
    let pulse = Pulse { era: nonce, number: BeatNumber(7), confirmed: BeatNumber(0) };
    let Answer::Done(_) = scene.store.reassert(&scene.session, pulse, &[]).await.unwrap() else {
        panic!("it was there before")
    };
    for millis in (1000..=3000).step_by(1000) {
        scene.read_at(millis).await;
    }
    assert_eq!(scene.store.thaw(nonce).await.unwrap(), crate::store::Thawed::Thawed);
    scene.read_at(3500).await;
    assert!(!scene.silent_at(3999));
    assert!(scene.silent_at(4000), "it was last heard at 1000");
}

/// A thaw that ends nobody changes nothing else that is read.
#[tokio::test]
async fn an_orphan_is_heard_as_one_after_a_thaw() {
    let mut scene = scene().await;
    scene.orphan(1).await;
    scene.read_at(0).await;
    let unheard_of = scene.store.end_silent(&scene.session.id, BeatNumber(0), Nonce::generate()).await;
    let Ok(crate::store::EndSilent::Frozen(nonce)) = unheard_of else { panic!("not frozen") };
    scene.read_at(100).await;
    assert_eq!(scene.store.thaw(nonce).await.unwrap(), crate::store::Thawed::Thawed);
    scene.read_at(200).await;
    scene.read_at(1600).await;
    scene.read_at(3000).await;
    assert_eq!(scene.orphans_at(3199), [], "counted from the thaw");
    assert_eq!(scene.orphans_at(3200).len(), 1);
}

#[tokio::test]
async fn a_lease_that_changed_hands_is_an_orphan_from_then_on() {
    let mut scene = scene().await;
    scene.orphan(1).await;
    scene.read_from(0, 2000).await;
    let _ = scene.store.open(&scene.session).await.unwrap();
    let again = scene.orphan(2).await;
    scene.read_from(2100, 3200).await;
    assert_eq!(scene.orphans_at(3200), [], "the same holder under another token");
    let pool = scene.session.pool.clone();
    let freed = scene.store.free_orphan(&pool, &scene.session.id, &again, scene.era).await.unwrap();
    assert_eq!(freed, Freed::Freed);
    scene.session.id = MemberId::generate();
    let _ = scene.store.open(&scene.session).await.unwrap();
    scene.orphan(3).await;
    scene.read_from(3300, 6200).await;
    assert_eq!(scene.orphans_at(6299), [], "another holder");
    assert_eq!(scene.orphans_at(6300).len(), 1);
}

#[tokio::test]
async fn an_ended_session_is_not_silent_and_is_counted_from_its_end() {
    let mut scene = scene().await;
    scene.read_from(0, 1000).await;
    let ended = |scene: &Scene, now, long| -> Vec<MemberId> {
        scene.view.ended_for(now, long).map(|session| session.id.clone()).collect()
    };
    assert_eq!(ended(&scene, at(1000), Duration::ZERO), []);
    scene.store.close(&scene.session.id).await.unwrap();
    scene.read_from(1100, 4200).await;
    assert!(!scene.silent_at(4200));
    assert_eq!(scene.listener.next_due(TTL, None), None);
    let long = Duration::from_millis(3000);
    assert_eq!(ended(&scene, at(4099), long), []);
    assert_eq!(ended(&scene, at(4100), long), [scene.session.id.clone()]);
    // Everything is read again meanwhile, which is not its end.
    scene.read_from(200_000, 200_100).await;
    assert_eq!(ended(&scene, at(200_100), Duration::from_millis(199_000)), [scene.session.id.clone()]);
    let lost = scene.session.id.clone();
    scene.view.lose_session(&lost);
    assert_eq!(ended(&scene, at(200_100), Duration::ZERO), []);
}

#[tokio::test]
async fn the_margin_is_what_the_one_nearest_to_its_end_has_left() {
    let mut scene = scene().await;
    assert_eq!(scene.listener.margin(at(0)), None, "nobody was heard");
    scene.read_at(0).await;
    let left = |scene: &Scene| [0, 750, 3000, 9000].map(|millis| scene.listener.margin(at(millis)));
    assert_eq!(left(&scene), [1.0, 0.75, 0.0, 0.0].map(Some));
    let slower = OpenSession { id: MemberId::generate(), ttl: TTL * 2, ..scene.session.clone() };
    assert!(matches!(scene.store.open(&slower).await, Ok(Answer::Done(_))));
    scene.read_at(0).await;
    assert_eq!(left(&scene), [1.0, 0.75, 0.0, 0.0].map(Some));
    scene.store.close(&scene.session.id).await.unwrap();
    scene.read_at(0).await;
    assert_eq!(left(&scene), [1.0, 0.875, 0.5, 0.0].map(Some));
    scene.store.close(&slower.id).await.unwrap();
    scene.read_at(0).await;
    assert_eq!(left(&scene), [None; 4], "whoever has ended has nothing left to lose");
}

#[tokio::test]
async fn who_was_heard_within_half_of_its_ttl_was_heard_lately() {
    let mut scene = scene().await;
    scene.read_at(100).await;
    let lately = |scene: &Scene| {
        [100, 1599, 1600].map(|millis| scene.listener.lately(at(millis)).cloned().collect::<Vec<_>>())
    };
    let id = scene.session.id.clone();
    assert_eq!(lately(&scene), [vec![id.clone()], vec![id.clone()], vec![]]);
    scene.store.close(&id).await.unwrap();
    scene.read_at(100).await;
    assert_eq!(lately(&scene), [vec![], vec![], vec![]], "whoever has ended is not there");
}

#[tokio::test]
async fn the_next_silence_is_somebody_elses() {
    let mut scene = scene().await;
    scene.read_at(0).await;
    let id = scene.session.id.clone();
    assert_eq!(scene.listener.next_due(TTL, None), Some(at(3000)));
    assert_eq!(scene.listener.next_due(TTL, Some(&id)), None);
    assert_eq!(scene.listener.next_due(TTL, Some(&MemberId::generate())), Some(at(3000)));
}

#[tokio::test]
async fn only_a_frozen_store_that_was_heard_all_the_time_is_thawed() {
    let mut scene = scene().await;
    scene.read_from(0, 4000).await;
    assert_eq!(scene.listener.thawable(at(4000), TTL), None, "it is not frozen");
    let before = scene.store.snapshot();
    scene.store.restore(&before);
    scene.read_from(4100, 7000).await;
    assert_eq!(scene.listener.next_due(TTL, None), Some(at(7100)));
    assert_eq!(
        scene.listener.next_due(TTL * 2, None),
        Some(at(10_100)),
        "whoever thaws may be slower itself"
    );
    assert!(scene.listener.thawable(at(7100), TTL).is_some());
    assert_eq!(scene.listener.thawable(at(7100), TTL * 2), None);
    assert_eq!(scene.listener.thawable(at(12_000), TTL), None, "a verdict needs a recent read");
    scene.read_at(12_000).await;
    assert_eq!(scene.listener.thawable(at(14_999), TTL), None, "who was deaf starts again");
    scene.read_from(12_100, 15_000).await;
    assert!(scene.listener.thawable(at(15_000), TTL).is_some());
}
