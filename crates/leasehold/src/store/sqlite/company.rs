//! Whether others write to the file too, and how long they are left a chance to.
//!
//! SQLite gives its lock to whoever asks at the right moment. A writer that always has something to write would keep it for
//! itself, and the heartbeats of other processes would wait: between two batches it leaves the lock alone. Where nobody else has
//! been seen for a while that is time lost, so there it happens now and then only, for whoever comes, and not where the writer itself
//! had nothing to write for as long.

use std::time::Duration;

use crate::clock::Moment;

/// How long the lock is left alone between two batches.
const BREATH: Duration = Duration::from_micros(500);
/// The same after a batch that held it for long.
const LONG_BREATH: Duration = Duration::from_millis(3);
/// How long others are expected back: longer than any heartbeat's pause.
const EXPECTED: Duration = Duration::from_secs(600);
/// How often the lock is left alone where nobody is expected.
const NOW_AND_THEN: Duration = Duration::from_millis(20);

/// What a writer has seen of others.
#[derive(Debug, Default)]
pub(super) struct Company {
    version: Option<i64>,
    seen: Option<Moment>,
    breathed: Option<Moment>,
    /// For how long there was nothing to write since.
    idle: Duration,
}

impl Company {
    /// There was nothing to write for a while: the lock was free.
    pub(super) fn was_idle(&mut self, so_long: Duration) {
        self.idle += so_long;
    }

    /// How long to leave the lock alone after a batch. `version` is a number that others change by writing.
    pub(super) fn breath(&mut self, version: i64, long: bool, now: Moment) -> Duration {
        if self.version.replace(version).is_some_and(|before| before != version) {
            self.seen = Some(now);
        }
        let breathed = self.breathed.is_some_and(|breathed| now.since(breathed) < NOW_AND_THEN);
        if !self.is_expected(now) && breathed {
            return Duration::ZERO;
        }
        self.breathed = Some(now);
        let breath = if long { LONG_BREATH } else { BREATH };
        let idle = std::mem::take(&mut self.idle);
        if !self.is_expected(now) && idle >= breath { Duration::ZERO } else { breath }
    }

    /// Whether somebody else was here not long ago.
    pub(super) fn is_expected(&self, now: Moment) -> bool {
        self.seen.is_some_and(|seen| now.since(seen) < EXPECTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::default().after(Duration::from_millis(millis))
    }

    #[test]
    fn whoever_is_alone_leaves_the_lock_alone_now_and_then() {
        let mut company = Company::default();
        let rests = (0..=100).filter(|millis| !company.breath(7, false, at(*millis)).is_zero());
        assert_eq!(rests.collect::<Vec<_>>(), [0, 20, 40, 60, 80, 100]);
    }

    #[test]
    fn whoever_had_nothing_to_write_has_left_the_lock_alone() {
        let mut company = Company::default();
        assert!(!company.breath(7, false, at(0)).is_zero());
        company.was_idle(BREATH / 2);
        company.was_idle(BREATH / 2);
        assert!(company.breath(7, false, at(20)).is_zero(), "others had their chance");
        company.was_idle(BREATH - Duration::from_nanos(1));
        assert_eq!(company.breath(7, false, at(40)), BREATH, "what was before does not count again");
        company.was_idle(BREATH);
        assert_eq!(company.breath(7, true, at(60)), LONG_BREATH, "it held the lock for longer than that");
        company.was_idle(BREATH);
        assert_eq!(company.breath(8, false, at(80)), BREATH, "somebody is there");
    }

    #[test]
    fn where_others_write_each_batch_is_followed_by_a_rest() {
        let mut company = Company::default();
        assert!(!company.breath(7, false, at(0)).is_zero());
        assert!(company.breath(7, false, at(1)).is_zero());
        assert_eq!(company.breath(8, false, at(2)), BREATH);
        assert_eq!(company.breath(8, false, at(3)), BREATH);
        assert_eq!(company.breath(8, true, at(599_000)), LONG_BREATH);
        assert!(company.is_expected(at(600_001)) && !company.is_expected(at(600_002)), "after ten minutes");
        let later = (600_100..600_110).filter(|millis| !company.breath(8, true, at(*millis)).is_zero());
        assert_eq!(later.count(), 1, "they are gone");
    }
}
