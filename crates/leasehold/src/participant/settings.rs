//! How a member takes part: durations and policies, and the relations that must hold between them.

use std::time::Duration;

use crate::lease::Pool;

/// The shortest TTL.
pub const TTL_MIN: Duration = Duration::from_secs(1);
/// The longest TTL.
pub const TTL_MAX: Duration = Duration::from_secs(3600);
/// The TTL of a leader's seat, unless another is given.
const LEADER_TTL: Duration = Duration::from_secs(15);

/// What happens to work while a heartbeat goes unconfirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnUncertain {
    /// The session is kept. Work looks at [`Lease::state`](super::Lease::state) itself and rests while that is
    /// [`Uncertain`](super::State::Uncertain); `leasehold run` stops and resumes its children.
    Pause,
    /// Work goes on for at most this long, and never beyond trust.
    Continue(Duration),
    /// Work stops at the first heartbeat that goes unconfirmed.
    Stop,
}

/// Durations and policies of one member in one pool. [`Settings::for_pool`] has the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long others must hear nothing before the session may be ended.
    pub ttl: Duration,
    /// How often the beat is raised.
    pub heartbeat: Duration,
    /// How long one call to the store may take.
    pub call_timeout: Duration,
    /// What is taken off trust, for clocks that run at different rates.
    pub margin: Duration,
    /// How long work gets to stop by itself.
    pub grace: Duration,
    /// How long a lease is held before the plan may move it.
    pub hold_min: Duration,
    /// How long a newcomer waits before work is moved to it.
    pub settle: Duration,
    /// How many handoffs may be in flight in the pool.
    pub budget: usize,
    /// What happens to work while a heartbeat goes unconfirmed.
    pub on_uncertain: OnUncertain,
}

/// Settings that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

impl Settings {
    /// The defaults for a pool, by its name: `scenes`, `endpoints`, `cameras` and `leader` have their own.
    #[must_use]
    pub fn for_pool(pool: &Pool) -> Self {
        let ttl = match pool.as_str() {
            "cameras" => Duration::from_secs(60),
            "leader" => LEADER_TTL,
            _ => Duration::from_secs(30),
        };
        let mut settings = Self::with_ttl(ttl);
        settings.on_uncertain = match pool.as_str() {
            "endpoints" => OnUncertain::Pause,
            "scenes" => OnUncertain::Continue(Duration::from_secs(4)),
            _ => OnUncertain::Continue(TTL_MAX),
        };
        settings
    }

    /// The defaults for an election.
    #[must_use]
    pub fn for_election() -> Self {
        Self::with_ttl(LEADER_TTL)
    }

    /// The defaults that follow from a TTL.
    #[must_use]
    pub fn with_ttl(ttl: Duration) -> Self {
        let heartbeat = ttl / 3;
        Self {
            ttl,
            heartbeat,
            call_timeout: (heartbeat * 3 / 5).min(Duration::from_secs(3)),
            margin: (ttl / 10).max(Duration::from_millis(200)),
            grace: (ttl / 6).min(Duration::from_secs(10)),
            hold_min: (ttl / 3).min(Duration::from_secs(5)),
            settle: (ttl / 6).min(Duration::from_secs(2)),
            budget: 64,
            on_uncertain: OnUncertain::Continue(TTL_MAX),
        }
    }

    /// Checks the relations that safety and progress rest on.
    ///
    /// # Errors
    /// Says which relation does not hold and which knob to turn.
    pub fn check(&self) -> Result<(), SettingsError> {
        let Self { ttl, heartbeat, call_timeout, margin, grace, .. } = *self;
        let refuse = |said: String| Err(SettingsError(said));
        if ttl < TTL_MIN || ttl > TTL_MAX {
            return refuse(format!("the TTL is {ttl:?}; give one between {TTL_MIN:?} and {TTL_MAX:?}"));
        }
        if heartbeat.is_zero() || heartbeat > ttl / 3 {
            return refuse(format!(
                "the heartbeat of {heartbeat:?} is not within a third of the TTL of {ttl:?}; lower the heartbeat to {:?} or raise the TTL",
                ttl / 3
            ));
        }
        if call_timeout.is_zero() || call_timeout >= heartbeat {
            return refuse(format!(
                "the call timeout of {call_timeout:?} is not below the heartbeat of {heartbeat:?}; lower the call timeout"
            ));
        }
        if margin < ttl / 10 {
            return refuse(format!(
                "the margin of {margin:?} is below a tenth of the TTL of {ttl:?}; clocks may differ by that much: raise the margin"
            ));
        }
        // One heartbeat may go unanswered and be sent again before work has to stop.
        let needed = [margin, grace, heartbeat, call_timeout]
            .into_iter()
            .fold(Duration::ZERO, Duration::saturating_add);
        if needed >= ttl {
            return refuse(format!(
                "margin {margin:?}, grace {grace:?}, one heartbeat {heartbeat:?} and one call {call_timeout:?} do not fit into the TTL of {ttl:?}; lower the grace or raise the TTL"
            ));
        }
        if self.budget == 0 {
            return refuse("a budget of 0 handoffs would never move anything; give at least 1".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves C69
    #[test]
    fn the_defaults_of_every_pool_and_of_every_ttl_fit_together() {
        for pool in ["scenes", "endpoints", "cameras", "leader", "jobs"] {
            Settings::for_pool(&Pool::new(pool).unwrap()).check().unwrap();
        }
        for millis in [1000, 1500, 3000, 10_000, 600_000, 3_600_000] {
            Settings::with_ttl(Duration::from_millis(millis)).check().unwrap();
        }
    }

    // proves C69
    #[test]
    fn settings_that_do_not_fit_are_refused_with_the_knob_to_turn() {
        let refused = |change: fn(&mut Settings)| {
            let mut settings = Settings::with_ttl(Duration::from_secs(30));
            change(&mut settings);
            settings.check().unwrap_err().to_string()
        };
        assert!(refused(|s| s.ttl = Duration::ZERO).contains("the TTL is 0ns"));
        assert!(refused(|s| s.heartbeat = Duration::from_secs(11)).contains("lower the heartbeat to 10s"));
        assert!(refused(|s| s.call_timeout = Duration::from_secs(10)).contains("lower the call timeout"));
        assert!(refused(|s| s.margin = Duration::from_secs(1)).contains("raise the margin"));
        assert!(refused(|s| s.grace = Duration::from_secs(20)).contains("lower the grace"));
        assert!(refused(|s| s.budget = 0).contains("at least 1"));
    }
}
