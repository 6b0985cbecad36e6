//! Listening: who was heard, who has been silent for a whole TTL, and how long the store has been frozen.
//!
//! Invariant: silence is counted on this machine's clock, from *after* the answer that first showed a beat. After reads
//! that were far apart a session has a third of its TTL more to be heard: we were deaf, or the store was gone, and it may
//! not have been able to speak. Orphans and freezes, which cannot speak, are counted anew then.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Moment;
use crate::lease::{BeatNumber, MemberId, Nonce, ResourceId, Term, Token};
use crate::mistakes::{Mistake, made};
use crate::view::View;

/// How far apart reads may be, beyond a third of the TTL.
const DEAF_SLACK: Duration = Duration::from_millis(500);

/// What one listener has heard of a pool.
#[derive(Debug, Default)]
pub struct Listener {
    heard: BTreeMap<MemberId, Heard>,
    orphans: BTreeMap<ResourceId, Orphan>,
    era: Option<(Nonce, bool)>,
    era_since: Moment,
    last_read: Moment,
    /// What others heard before, until it was compared with what is heard here.
    told: Vec<Silence>,
    /// The longest TTL of any session this store ever told of, whatever it has forgotten since.
    ttl_max: Duration,
}

/// How long a session had been silent when a listener last read, for whoever listens after it.
///
/// It is a duration that was measured on one clock. Whoever reads this afterwards and still finds the same beat knows
/// that the session was silent for at least that long before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// Whose.
    pub session: MemberId,
    /// The beat last heard.
    pub beat: BeatNumber,
    /// The era it was heard in.
    pub era: Nonce,
    /// For how long nothing newer was heard.
    pub millis: u64,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    beat: BeatNumber,
    ended: bool,
    since: Moment,
    /// Since when it has been heard without a long break.
    again: Moment,
    ttl: Duration,
}

impl Heard {
    /// When its silence is complete.
    fn due(&self) -> Moment {
        self.since.after(self.ttl).max(self.again.after(self.ttl / 3))
    }
}

#[derive(Debug, Clone)]
struct Orphan {
    holder: MemberId,
    token: Token,
    since: Moment,
    ttl: Duration,
}

impl Listener {
    /// Goes on with what another listener heard. `told` was read from the store before the next view is.
    pub fn resume(&mut self, told: Vec<Silence>) {
        self.told = told;
    }

    /// Who has been silent for at least this part of its TTL, for [`resume`](Self::resume).
    #[must_use]
    pub fn silences(&self, divisor: u32) -> Vec<Silence> {
        let Some((era, false)) = self.era else { return Vec::new() };
        let living = self.heard.iter().filter(|(_, heard)| !heard.ended);
        let silent = living.map(|(id, heard)| (id, heard, self.last_read.since(heard.since)));
        silent
            .filter(|(_, heard, silent)| *silent >= heard.ttl / divisor.max(1))
            .map(|(id, heard, silent)| Silence {
                session: id.clone(),
                beat: heard.beat,
                era,
                millis: u64::try_from(silent.as_millis()).unwrap_or(u64::MAX),
            })
            .collect()
    }

    /// Takes in a view whose last answer arrived at `at`. `changed` says whether anything but beats is new in it.
    pub fn hear(&mut self, view: &View, at: Moment, changed: bool) {
        let gap = at.since(self.last_read);
        self.last_read = at;
        let Some(era) = view.era() else { return };
        self.ttl_max = self.ttl_max.max(era.ttl_max);
        let is_new_era = self.era != Some((era.nonce, era.frozen));
        if is_new_era {
            // A new era, or a thaw: nothing that was heard before counts.
            self.era = Some((era.nonce, era.frozen));
            self.era_since = at;
            self.heard.clear();
            self.orphans.clear();
        } else if is_deaf(gap, era.ttl_max) {
            self.era_since = at;
        }
        self.hear_sessions(view, at, gap);
        self.hear_told(view, at, era.nonce);
        // Where nothing is an orphan, nothing becomes one without a change. A new era has forgotten which were.
        if changed || is_new_era || !self.orphans.is_empty() {
            self.hear_orphans(view, at, gap);
        }
    }

    fn hear_sessions(&mut self, view: &View, at: Moment, gap: Duration) {
        self.heard.retain(|id, _| view.sessions().contains_key(id));
        for (id, session) in view.sessions() {
            let new =
                Heard { beat: session.beat, ended: session.ended, since: at, again: at, ttl: session.ttl };
            match self.heard.get_mut(id) {
                Some(old) if old.beat == new.beat && old.ended == new.ended => {
                    if is_deaf(gap, session.ttl) {
                        old.again = at;
                    }
                }
                Some(old) => *old = new,
                None => {
                    self.heard.insert(id.clone(), new);
                }
            }
        }
    }

    /// Adds what was told of sessions whose beat has not changed since.
    fn hear_told(&mut self, view: &View, at: Moment, era: Nonce) {
        for told in std::mem::take(&mut self.told) {
            let same = view.sessions().get(&told.session).is_some_and(|session| session.beat == told.beat);
            if let Some(heard) = self.heard.get_mut(&told.session).filter(|_| same && told.era == era) {
                heard.since = heard.since.min(at.before(Duration::from_millis(told.millis)));
            }
        }
    }

    /// Leases whose holder has no session at all, not even an ended one.
    fn hear_orphans(&mut self, view: &View, at: Moment, gap: Duration) {
        let mut orphans = BTreeMap::new();
        for (resource, lease) in view.leases() {
            let Some(holder) = &lease.holder else { continue };
            if view.sessions().contains_key(holder) {
                continue;
            }
            let since = match self.orphans.get(resource) {
                Some(old)
                    if old.holder == *holder && old.token == lease.token && !is_deaf(gap, lease.ttl) =>
                {
                    old.since
                }
                _ => at,
            };
            let orphan = Orphan { holder: holder.clone(), token: lease.token, since, ttl: lease.ttl };
            orphans.insert(resource.clone(), orphan);
        }
        self.orphans = orphans;
    }

    /// Living sessions that have been silent for their whole TTL, with the beat last heard and the moment at
    /// which the silence was complete.
    #[must_use]
    pub fn silent(&self, now: Moment) -> Vec<(MemberId, BeatNumber, Moment)> {
        let living = self.heard.iter().filter(|(_, heard)| !heard.ended);
        let hearing = living.filter(|(_, heard)| !is_deaf(now.since(self.last_read), heard.ttl));
        let due = hearing.map(|(id, heard)| (id.clone(), heard.beat, heard.due()));
        due.filter(|(.., due)| *due <= now).collect()
    }

    /// Leases to free because their holder has been absent for a whole TTL.
    #[must_use]
    pub fn orphans(&self, now: Moment) -> Vec<(MemberId, Term)> {
        let gap = now.since(self.last_read);
        let due = self
            .orphans
            .iter()
            .filter(|(_, orphan)| orphan.since.after(orphan.ttl) <= now && !is_deaf(gap, orphan.ttl));
        due.map(|(resource, orphan)| {
            (orphan.holder.clone(), Term { resource: resource.clone(), token: orphan.token })
        })
        .collect()
    }

    /// Sessions that ended at least this long ago.
    #[must_use]
    pub fn ended_for(&self, now: Moment, at_least: Duration) -> Vec<MemberId> {
        let ended = self.heard.iter().filter(|(_, heard)| heard.ended && now.since(heard.since) >= at_least);
        ended.map(|(id, _)| id.clone()).collect()
    }

    /// How long a frozen store must be heard before it is thawed, by a member whose own TTL is `ttl`.
    fn thaw_after(&self, ttl: Duration) -> Duration {
        if made(Mistake::ThawedAtOnce) { Duration::ZERO } else { self.ttl_max.max(ttl) }
    }

    /// The nonce to thaw, if the store has been heard frozen under it for a whole TTL of whoever may hold
    /// something in it.
    #[must_use]
    pub fn thawable(&self, now: Moment, ttl: Duration) -> Option<Nonce> {
        let wait = self.thaw_after(ttl);
        let heard = now.since(self.era_since) >= wait && !is_deaf(now.since(self.last_read), wait);
        self.era.filter(|(_, frozen)| *frozen && heard).map(|(nonce, _)| nonce)
    }

    /// When the next silence falls due, for a member whose own TTL is `ttl`. One's own does not count.
    #[must_use]
    pub fn next_due(&self, ttl: Duration, me: Option<&MemberId>) -> Option<Moment> {
        if let Some((_, true)) = self.era {
            return Some(self.era_since.after(self.thaw_after(ttl)));
        }
        let others = self.heard.iter().filter(|(id, heard)| !heard.ended && Some(*id) != me);
        let silences = others.map(|(_, heard)| heard.due());
        let orphans = self.orphans.values().map(|orphan| orphan.since.after(orphan.ttl));
        silences.chain(orphans).min()
    }
}

fn is_deaf(gap: Duration, ttl: Duration) -> bool {
    gap > ttl / 3 + DEAF_SLACK
}

#[cfg(test)]
mod tests {
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
        };
        let session = OpenSession { pool: pool.clone(), id: MemberId::generate(), ttl: TTL, profile };
        let crate::store::Answer::Done(era) = store.open(&session).await.unwrap() else {
            panic!("not opened")
        };
        Scene { store, view: View::new(pool), listener: Listener::default(), session, era }
    }

    impl Scene {
        async fn read_at(&mut self, millis: u64) {
            let at = Moment(1_000_000_000_000).after(Duration::from_millis(millis));
            let store: Arc<dyn crate::store::Store> = Arc::new(self.store.clone());
            let refreshed = self.view.refresh(&*store, &At(at)).await.unwrap();
            self.listener.hear(&self.view, refreshed.at, refreshed.changed);
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
            let pulse =
                |number| Pulse { era: self.era, number: BeatNumber(number), confirmed: BeatNumber(0) };
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
        assert_eq!(scene.listener.ended_for(at(1000), Duration::ZERO), []);
        scene.store.close(&scene.session.id).await.unwrap();
        scene.read_from(1100, 4200).await;
        assert!(!scene.silent_at(4200));
        assert_eq!(scene.listener.next_due(TTL, None), None);
        let long = Duration::from_millis(3000);
        assert_eq!(scene.listener.ended_for(at(4099), long), []);
        assert_eq!(scene.listener.ended_for(at(4100), long), [scene.session.id.clone()]);
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
}
