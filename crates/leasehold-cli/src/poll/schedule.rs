//! When an endpoint is asked next. Pure: the moments and the dice are given.

use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::plan::rendezvous::mix;

/// The times at which one endpoint is asked.
#[derive(Debug)]
pub(super) struct Schedule {
    /// By how much an interval may differ, as a part of it.
    jitter: f64,
    dice: u64,
    last: Option<Moment>,
}

impl Schedule {
    /// `seed` makes the times of one endpoint differ from those of another.
    pub(super) fn new(jitter: f64, seed: u64) -> Self {
        Self { jitter, dice: seed, last: None }
    }

    /// The next time: at once at first, then an interval after the last one began. What was missed is not made up for.
    pub(super) fn next(&self, now: Moment, interval: Duration) -> Moment {
        // Between -1 and 1.
        let roll = f64::from(u32::try_from(mix(self.dice) >> 33).unwrap_or(0)) / f64::from(1_u32 << 30) - 1.0;
        let wait = interval.mul_f64((1.0 + self.jitter * roll).max(0.0));
        self.last.map_or(now, |last| last.after(wait).max(now))
    }

    /// The endpoint is being asked.
    pub(super) fn began(&mut self, at: Moment) {
        self.last = Some(at);
        self.dice = mix(self.dice.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_begins_at_once_and_goes_on_around_its_interval_without_making_up_for_what_was_missed() {
        let mut schedule = Schedule::new(0.1, 7);
        let mut now = Moment(1_000_000_000);
        assert_eq!(schedule.next(now, SECOND), now);
        let (mut least, mut most, mut sum) = (Duration::MAX, Duration::ZERO, Duration::ZERO);
        for _ in 0..1000 {
            schedule.began(now);
            let next = schedule.next(now, SECOND);
            assert_eq!(schedule.next(now, SECOND), next, "asking twice changes nothing");
            let wait = next.since(now);
            (least, most, sum) = (least.min(wait), most.max(wait), sum + wait);
            now = next;
        }
        assert!(least >= Duration::from_millis(900) && least < Duration::from_millis(910), "{least:?}");
        assert!(most <= Duration::from_millis(1100) && most > Duration::from_millis(1090), "{most:?}");
        assert!(sum.abs_diff(1000 * SECOND) < 5 * SECOND, "{sum:?}");
        let late = now.after(100 * SECOND);
        assert_eq!(schedule.next(late, SECOND), late);
    }

    #[test]
    fn without_jitter_the_interval_is_exact() {
        let mut schedule = Schedule::new(0.0, 1);
        schedule.began(Moment(5));
        assert_eq!(schedule.next(Moment(6), SECOND), Moment(5).after(SECOND));
    }
}
