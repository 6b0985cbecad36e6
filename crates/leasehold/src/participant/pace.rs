//! How fast a member goes.
//!
//! Where passes take long, many members are busy with the same news, or the store is. Who then passes at every hint and
//! does at once what others have not done yet only adds to that: it rests for as long as it passed, and the others have
//! longer to do their part.

use std::time::Duration;

use crate::clock::Moment;

/// How often the others' beats are read when nothing else wakes the pass, at most.
pub(super) const PERIOD: Duration = Duration::from_millis(250);
/// What each member adds to that: of many, somebody always has just read, and all together ask the store no more often.
const PERIOD_EACH: Duration = Duration::from_millis(20);
/// How often they are read at least, as a part of the TTL.
const PERIOD_DIVISOR: u32 = 15;
/// How much longer each rank waits, at least, before it does what the one before it should have done.
const STEP: Duration = Duration::from_millis(100);
/// How long anybody rests or waits for the rank before it at most, as a part of the TTL: whoever rests hears nobody.
const REST_DIVISOR: u32 = 12;
/// From which rank on all wait the same. Of a hundred members, few should ever ask for the same thing.
const RANK_MAX: usize = 20;
/// The rank of who has none, and of everybody else where one was named.
const RANK_OTHER: usize = 5;

/// How often a member reads what the others said, where so many share a quiet pool.
#[must_use]
pub fn reads_every(members: usize, ttl: Duration) -> Duration {
    let each = PERIOD_EACH.saturating_mul(u32::try_from(members).unwrap_or(u32::MAX));
    each.min(ttl / PERIOD_DIVISOR).max(PERIOD)
}

/// What this member's passes tell of how busy everybody is.
#[derive(Debug, Default)]
pub(super) struct Pace {
    took: Duration,
    ended: Moment,
}

impl Pace {
    /// A pass that took unusually long is remembered for a few more, by a member with this TTL. One that slept through a night
    /// is not slow.
    pub(super) fn passed(&mut self, began: Moment, ended: Moment, ttl: Duration) {
        self.took = ended.since(began).min(ttl / REST_DIVISOR).max(self.took / 2);
        self.ended = ended;
    }

    /// Until when nothing that others did wakes this member.
    pub(super) fn rests_until(&self) -> Moment {
        self.ended.after(self.took)
    }

    /// How long one rank waits for the one before it.
    pub(super) fn step(&self) -> Duration {
        self.took.max(STEP)
    }

    /// How long this rank waits for all that come before it.
    pub(super) fn patience(&self, rank: usize) -> Duration {
        self.step() * u32::try_from(rank.min(RANK_MAX)).unwrap_or_default()
    }

    /// How long whoever has no rank waits for those that have one.
    pub(super) fn patience_of_others(&self) -> Duration {
        self.patience(RANK_OTHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn after(passes: &[u64]) -> Pace {
        let mut pace = Pace::default();
        for millis in passes {
            let began = pace.ended;
            pace.passed(began, began.after(Duration::from_millis(*millis)), TTL);
        }
        pace
    }

    fn patience(pace: &Pace) -> [u128; 5] {
        [0, 1, 6, 20, usize::MAX].map(|rank| pace.patience(rank).as_millis())
    }

    #[test]
    fn many_read_less_often_but_often_enough_for_their_ttl() {
        let period = |members, ttl| reads_every(members, Duration::from_secs(ttl)).as_millis();
        assert_eq!(
            [1, 12, 50, 100, 100_000].map(|members| period(members, 30)),
            [250, 250, 1000, 2000, 2000]
        );
        assert_eq!([2, 6, 15, 60, 600].map(|ttl| period(1000, ttl)), [250, 400, 1000, 4000, 20_000]);
    }

    #[test]
    fn every_rank_waits_a_little_longer_up_to_a_limit() {
        assert_eq!(patience(&Pace::default()), [0, 100, 600, 2000, 2000]);
        assert_eq!(patience(&after(&[20])), [0, 100, 600, 2000, 2000]);
        assert_eq!(Pace::default().patience_of_others(), Duration::from_millis(500));
    }

    #[test]
    fn who_is_busy_waits_longer_for_the_others() {
        assert_eq!(patience(&after(&[300])), [0, 300, 1800, 6000, 6000]);
        assert_eq!(patience(&after(&[9000])), [0, 2500, 15_000, 50_000, 50_000]);
        assert_eq!(after(&[9000, 1, 1]).step(), Duration::from_millis(625), "it is remembered");
        assert_eq!(after(&[3_600_000, 1, 1, 1, 1, 1]).step(), STEP, "not for long");
    }

    #[test]
    fn who_passed_for_long_rests_as_long_but_hears_the_others_in_time() {
        let rested = |pace: &Pace| pace.rests_until().since(pace.ended).as_millis();
        assert_eq!([&[2][..], &[2000], &[9000]].map(|passes| rested(&after(passes))), [2, 2000, 2500]);
    }
}
