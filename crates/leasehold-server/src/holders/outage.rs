//! The control plane's own absences, and who is owed patience after one.
//!
//! A runner whose control plane does not answer may go on with what it has for a while: the *grace*. So a lease of a camera that
//! stood when the control plane went away is not ended before the grace has passed since then, however silent its holder is:
//! until it is heard again, or until then, nobody else is granted the camera.
//!
//! Replicas keep a *sign of life* in the store, one for all of them. Whoever starts finds in it how long nobody was there, if that
//! was measured on this very machine since it was booted; else the absence may have begun just now, and the whole grace is
//! owed. A store that did not answer is an absence as well: nobody could renew.
//!
//! Invariant: after an absence of more than [`BRIEF`] nothing that stood before it is ended within the grace from the last moment
//! at which a replica is known to have been there. A shorter one costs nobody its lease: silence counts only while it is
//! listened to, and a runner has two thirds of its TTL to try again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::MemberId;
use leasehold::clock::{Clock, Moment};
use leasehold::store::{Cursor, Mark, MarkKind, Marked, SERVER_POOL, Store, StoreError, Version};
use serde::{Deserialize, Serialize};

use super::kept::Kept;
use crate::own::server_pool;

/// How often a sign of life is given.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// What is no more than a restart.
const BRIEF: Duration = Duration::from_secs(10);

/// A sign of life as the store has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Sign {
    /// Which replica gave it.
    by: MemberId,
    boot: String,
    at: Moment,
    /// For how long leases were still kept then, in milliseconds.
    keeps_ms: u64,
}

/// What one replica knows of absences.
#[derive(Debug)]
pub(super) struct Outage {
    grace: Duration,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// When somebody was last known to be there; `None` before the first look.
    alive: Option<Moment>,
    /// When an absence was noticed, and until when leases are kept because of it.
    kept: Option<(Moment, Moment)>,
    /// The version of the sign that was given or read last.
    version: Version,
}

impl Known {
    /// The first look. Says for how long nobody was there, as far as that is known.
    fn begin(&mut self, sign: Option<&Sign>, now: Moment, boot: &str, grace: Duration) -> Option<Duration> {
        let same = sign.filter(|sign| sign.boot == boot && sign.at <= now);
        let Some(sign) = same else {
            self.kept = Some((now, now.after(grace)));
            return sign.map(|_| Duration::ZERO);
        };
        let absent = now.since(sign.at);
        let still = Duration::from_millis(sign.keeps_ms);
        let owed = if absent > BRIEF { grace.max(still) } else { still };
        self.kept = Some((now, sign.at.after(owed)));
        (absent > BRIEF).then_some(absent)
    }

    /// A later look, with what another replica said since the one before.
    fn go_on(&mut self, other: Option<&Sign>, now: Moment, grace: Duration) -> Option<Duration> {
        let alive = self.alive.unwrap_or(now);
        let absent = now.since(alive);
        let until = self.kept.map_or(now, |(_, until)| until);
        if absent > BRIEF {
            self.kept = Some((now, until.max(alive.after(grace))));
            return Some(absent);
        }
        // Whoever gave a sign between two looks of ours was there, and knows how much patience is owed.
        if let (Some(other), Some((_, until))) = (other, &mut self.kept) {
            *until = (*until).min(now.after(Duration::from_millis(other.keeps_ms)));
        }
        None
    }
}

impl Outage {
    pub(super) fn new(grace: Duration) -> Self {
        Self { grace, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a lease that is silent is kept all the same.
    pub(super) fn keeps(&self, kept: Option<&Kept>, now: Moment) -> bool {
        if self.grace.is_zero() {
            return false;
        }
        let known = self.known();
        if known.alive.is_none_or(|alive| now.since(alive) > BRIEF) {
            return true;
        }
        // Who was heard since is not in grace any more.
        let heard_since = |noticed| kept.and_then(|kept| kept.since).is_some_and(|since| since > noticed);
        known.kept.is_some_and(|(noticed, until)| now < until && !heard_since(noticed))
    }

    /// There is no camera yet, and nothing to keep.
    pub(super) fn rest(&self, now: Moment) {
        self.known().alive = Some(now);
    }

    /// Gives a sign of life, and looks for those of others. Says how long nobody was there, if that is noticed now.
    pub(super) async fn attend(
        &self,
        store: &dyn Store,
        clock: &dyn Clock,
        me: &MemberId,
    ) -> Result<Option<Duration>, StoreError> {
        let began = clock.now();
        let is_first = self.known().alive.is_none();
        let mut noticed = None;
        if is_first {
            let (sign, version) = read(store).await?;
            let mut known = self.known();
            known.version = version;
            noticed = known.begin(sign.as_ref(), began, &clock.boot(), self.grace);
        } else if self.known().alive.is_some_and(|alive| began.since(alive) > BRIEF) {
            noticed = self.known().go_on(None, began, self.grace);
        }
        let (sign, version) = {
            let known = self.known();
            let keeps = known.kept.map_or(Duration::ZERO, |(_, until)| until.since(began));
            let keeps_ms = u64::try_from(keeps.as_millis()).unwrap_or(u64::MAX);
            (Sign { by: me.clone(), boot: clock.boot(), at: began, keeps_ms }, known.version)
        };
        let value = serde_json::to_string(&sign).unwrap_or_default();
        let pool = server_pool();
        let set = store.set_mark(&pool, MarkKind::Silence, SERVER_POOL, Some(&value), version);
        let (other, version) = match set.await? {
            Marked::Set(version) => (None, version),
            // Another replica was faster, and its sign will do.
            Marked::Conflict(_) => read(store).await?,
        };
        let mut known = self.known();
        known.version = version;
        if !is_first && noticed.is_none() {
            noticed = known.go_on(other.as_ref().filter(|other| other.by != *me), began, self.grace);
        }
        known.alive = Some(began);
        Ok(noticed)
    }
}

/// The sign of life that the store has.
async fn read(store: &dyn Store) -> Result<(Option<Sign>, Version), StoreError> {
    let marks = store.marks(&server_pool(), Cursor::START).await?.items;
    let is_sign = |mark: &&Mark| mark.kind == MarkKind::Silence && mark.subject == SERVER_POOL;
    let Some(mark) = marks.iter().find(is_sign) else { return Ok((None, Version(0))) };
    Ok((mark.value.as_deref().and_then(|value| serde_json::from_str(value).ok()), mark.version))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(300);

    fn at(seconds: u64) -> Moment {
        Moment::default().after(Duration::from_secs(seconds))
    }

    fn sign(boot: &str, seconds: u64, keeps_ms: u64) -> Sign {
        Sign { by: MemberId::new("other-1").unwrap(), boot: boot.to_owned(), at: at(seconds), keeps_ms }
    }

    fn until(known: &Known) -> Option<Moment> {
        known.kept.map(|(_, until)| until)
    }

    // proves C45
    #[test]
    fn after_an_absence_the_grace_counts_from_its_beginning_and_after_a_restart_nothing_is_owed() {
        let begun = |sign: Option<&Sign>, now| {
            let mut known = Known::default();
            let absent = known.begin(sign, at(now), "here", GRACE);
            (absent, until(&known))
        };
        let life = sign("here", 1000, 0);
        assert_eq!(begun(Some(&life), 1100), (Some(Duration::from_secs(100)), Some(at(1300))));
        assert_eq!(begun(Some(&life), 1004), (None, Some(at(1000))), "a restart");
        // What was owed before a restart still is.
        assert_eq!(begun(Some(&sign("here", 1000, 90_000)), 1004), (None, Some(at(1090))));
        // Measured elsewhere, or never: the absence may have begun just now.
        assert_eq!(begun(Some(&sign("elsewhere", 1000, 0)), 1004).1, Some(at(1304)));
        assert_eq!(
            begun(Some(&sign("here", 2000, 0)), 1004).1,
            Some(at(1304)),
            "a moment that is not here yet"
        );
        assert_eq!(begun(None, 1004), (None, Some(at(1304))));
    }

    // proves C45
    #[test]
    fn a_replica_that_was_there_all_the_time_knows_better_than_one_that_has_just_come() {
        let mut known = Known::default();
        known.begin(Some(&sign("elsewhere", 7, 0)), at(1000), "here", GRACE);
        known.alive = Some(at(1000));
        assert_eq!(known.go_on(Some(&sign("elsewhere", 9, 40_000)), at(1001), GRACE), None);
        assert_eq!(until(&known), Some(at(1041)));
        // A sign that was found only after a long while says nothing about that while.
        known.alive = Some(at(1001));
        let noticed = known.go_on(Some(&sign("elsewhere", 10, 0)), at(1061), GRACE);
        assert_eq!((noticed, until(&known)), (Some(Duration::from_secs(60)), Some(at(1301))));
    }

    #[test]
    fn while_nobody_knows_whether_the_control_plane_was_there_nothing_is_ended() {
        let outage = Outage::new(GRACE);
        assert!(outage.keeps(None, at(9)));
        *outage.known() = Known { alive: Some(at(100)), kept: None, version: Version(0) };
        assert!(!outage.keeps(None, at(101)) && outage.keeps(None, at(160)));
        assert!(!Outage::new(Duration::ZERO).keeps(None, at(160)), "a strict control plane owes nothing");
    }
}
