//! What follows the end of a child: again after a while, not again, or not for a long while. No I/O, no clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::child::Exit;

/// The first wait before a child is started again; each further one is twice as long.
pub const WAIT_MIN: Duration = Duration::from_millis(250);
/// The longest wait before a child is started again.
pub const WAIT_MAX: Duration = Duration::from_secs(30);
/// A child that ran longer than this was well, and everything before it is forgiven.
pub const WELL_AFTER: Duration = Duration::from_secs(10);
/// So many quick failures in a row put a child into quarantine.
pub const FAILURES_MAX: u32 = 5;
/// The first quarantine; each further quick failure makes the next one twice as long.
pub const QUARANTINE_MIN: Duration = Duration::from_secs(60);
/// The longest quarantine.
pub const QUARANTINE_MAX: Duration = Duration::from_secs(600);

/// When a child that has ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Restart {
    /// Always.
    #[default]
    Always,
    /// Unless it ended by itself with code 0.
    OnFailure,
    /// Never.
    Never,
}

/// Why a string is not a [`Restart`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no restart policy; use always, on-failure or never")]
pub struct RestartError(String);

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Always => "always",
            Self::OnFailure => "on-failure",
            Self::Never => "never",
        })
    }
}

impl FromStr for Restart {
    type Err = RestartError;

    fn from_str(text: &str) -> Result<Self, RestartError> {
        [Self::Always, Self::OnFailure, Self::Never]
            .into_iter()
            .find(|restart| restart.to_string() == text)
            .ok_or_else(|| RestartError(text.to_owned()))
    }
}

/// What follows the end of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Start it again after this wait.
    Again(Duration),
    /// It is done.
    Finished,
    /// It fails whenever it is started; do not try again for so long.
    Quarantine(Duration),
}

/// The ends of one child so far, as far as they matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    restart: Restart,
    quick_ends: u32,
    quick_failures: u32,
}

impl Policy {
    /// A child without a past.
    #[must_use]
    pub fn new(restart: Restart) -> Self {
        Self { restart, quick_ends: 0, quick_failures: 0 }
    }

    /// What follows `exit`. A child that was asked to stop is done, and that is no failure.
    pub fn on_exit(&mut self, exit: Exit) -> Next {
        let done = match self.restart {
            Restart::Always => false,
            Restart::OnFailure => exit.is_success(),
            Restart::Never => true,
        };
        if done || exit.asked {
            return Next::Finished;
        }
        if exit.ran_for > WELL_AFTER {
            (self.quick_ends, self.quick_failures) = (0, 0);
            return Next::Again(WAIT_MIN);
        }
        let wait = doubled(WAIT_MIN, self.quick_ends, WAIT_MAX);
        self.quick_ends = self.quick_ends.saturating_add(1);
        self.quick_failures = if exit.is_success() { 0 } else { self.quick_failures.saturating_add(1) };
        match self.quick_failures.checked_sub(FAILURES_MAX) {
            Some(before) => Next::Quarantine(doubled(QUARANTINE_MIN, before, QUARANTINE_MAX)),
            None => Next::Again(wait),
        }
    }
}

fn doubled(first: Duration, times: u32, most: Duration) -> Duration {
    2_u32.checked_pow(times).and_then(|factor| first.checked_mul(factor)).map_or(most, |wait| wait.min(most))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::child::How;

    fn exit(how: How, ran_for_ms: u64) -> Exit {
        Exit { how, ran_for: Duration::from_millis(ran_for_ms), asked: false }
    }

    fn quick_failure() -> Exit {
        exit(How::Code(1), 10)
    }

    #[test]
    fn a_child_that_keeps_failing_waits_longer_and_then_goes_into_quarantine() {
        let mut policy = Policy::new(Restart::Always);
        let waits: Vec<_> = (0..4).map(|_| policy.on_exit(quick_failure())).collect();
        assert_eq!(waits, [250, 500, 1000, 2000].map(|ms| Next::Again(Duration::from_millis(ms))));
        let quarantines: Vec<_> = (0..6).map(|_| policy.on_exit(quick_failure())).collect();
        assert_eq!(
            quarantines,
            [60, 120, 240, 480, 600, 600].map(|s| Next::Quarantine(Duration::from_secs(s)))
        );
    }

    #[test]
    fn a_long_run_is_a_new_beginning() {
        let mut policy = Policy::new(Restart::OnFailure);
        for _ in 0..7 {
            let _ = policy.on_exit(quick_failure());
        }
        assert_eq!(policy.on_exit(exit(How::Signal(11), 10_001)), Next::Again(WAIT_MIN));
        assert_eq!(policy, Policy::new(Restart::OnFailure));
    }

    #[test]
    fn a_child_that_quickly_succeeds_waits_but_is_never_in_quarantine() {
        let mut policy = Policy::new(Restart::Always);
        let last = (0..20).map(|_| policy.on_exit(exit(How::Code(0), 1))).last();
        assert_eq!(last, Some(Next::Again(WAIT_MAX)));
    }

    #[test]
    fn success_ends_a_child_that_is_restarted_on_failure_only() {
        assert_eq!(Policy::new(Restart::OnFailure).on_exit(exit(How::Code(0), 5)), Next::Finished);
        assert_eq!(Policy::new(Restart::OnFailure).on_exit(exit(How::Signal(9), 5)), Next::Again(WAIT_MIN));
    }

    #[test]
    fn a_stop_that_was_asked_for_is_no_failure() {
        let mut policy = Policy::new(Restart::Always);
        assert_eq!(policy.on_exit(Exit { asked: true, ..exit(How::Signal(15), 5) }), Next::Finished);
        assert_eq!(policy, Policy::new(Restart::Always));
    }

    #[test]
    fn policies_are_read_as_they_are_written() {
        for restart in [Restart::Always, Restart::OnFailure, Restart::Never] {
            assert_eq!(restart.to_string().parse(), Ok(restart));
        }
        let error = "sometimes".parse::<Restart>().expect_err("no such policy");
        assert_eq!(error.to_string(), "\"sometimes\" is no restart policy; use always, on-failure or never");
    }

    fn any_exit() -> impl Strategy<Value = Exit> {
        let how = prop_oneof![(0..3).prop_map(How::Code), (1..32).prop_map(How::Signal), Just(How::Unknown)];
        (how, 0..20_000_u64, prop::bool::weighted(0.1))
            .prop_map(|(how, ran_for_ms, asked)| Exit { asked, ..exit(how, ran_for_ms) })
    }

    proptest! {
        #[test]
        fn every_wait_is_within_its_bounds(exits in prop::collection::vec(any_exit(), 0..200)) {
            let mut policy = Policy::new(Restart::Always);
            for exit in exits {
                match policy.on_exit(exit) {
                    Next::Again(wait) => prop_assert!((WAIT_MIN..=WAIT_MAX).contains(&wait)),
                    Next::Quarantine(wait) => prop_assert!((QUARANTINE_MIN..=QUARANTINE_MAX).contains(&wait)),
                    Next::Finished => prop_assert!(exit.asked),
                }
            }
        }

        #[test]
        fn a_child_that_is_never_restarted_is_done_at_once(exit in any_exit()) {
            prop_assert_eq!(Policy::new(Restart::Never).on_exit(exit), Next::Finished);
        }
    }
}
