//! How long a lease is trusted, also while the control plane is away.
//!
//! Invariant: trust counts from before the last request that was confirmed. It is stretched beyond what was granted only if
//! the policy says so, only while nobody has answered since, and never once anybody was seen with a higher token. The control
//! plane keeps what it had granted for the same while after an outage of its own, so in that case nobody else is granted it;
//! if only this machine is cut off somebody may be, and then the output is marked and fenced.

use std::time::Duration;

use leasehold::clock::Moment;

/// What happens while the control plane is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutagePolicy {
    /// Work ends when what was granted has run out.
    Strict,
    /// Work goes on for this long after the last confirmation, and what it puts out is marked.
    Degraded(Duration),
}

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Before the last request that was confirmed was sent.
    pub confirmed_at: Moment,
    /// Until when what was granted is trusted.
    pub granted_until: Moment,
    /// Whether requests since then were left without an answer.
    pub unanswered: bool,
    /// Whether somebody was seen with a higher token.
    pub surpassed: bool,
}

/// Until when there is trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trust {
    /// The end of it.
    pub until: Moment,
    /// Whether that is later than what was granted.
    pub degraded: bool,
}

/// Until when a lease is trusted at `now`, where work needs `stop` to end.
#[must_use]
pub fn trust(policy: OutagePolicy, standing: Standing, now: Moment, stop: Duration) -> Trust {
    let granted = Trust { until: standing.granted_until, degraded: false };
    let OutagePolicy::Degraded(grace) = policy else { return granted };
    // What was granted is enough for now, and what is not needed is not taken.
    if now < standing.granted_until.before(stop) || !standing.unanswered || standing.surpassed {
        return granted;
    }
    // A tenth shorter, as with every TTL, for clocks that differ.
    let until = standing.confirmed_at.after(grace - grace / 10);
    if until > granted.until { Trust { until, degraded: true } } else { granted }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: OutagePolicy = OutagePolicy::Degraded(Duration::from_secs(300));
    const STOP: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    fn standing() -> Standing {
        Standing { confirmed_at: at(100), granted_until: at(154), unanswered: true, surpassed: false }
    }

    fn granted() -> Trust {
        Trust { until: at(154), degraded: false }
    }

    // proves C45, C49, R222, R237
    #[test]
    fn trust_is_stretched_only_when_it_is_needed_and_nobody_answers() {
        assert_eq!(trust(GRACE, standing(), at(143), STOP), granted());
        assert_eq!(trust(GRACE, standing(), at(144), STOP), Trust { until: at(370), degraded: true });
        assert_eq!(trust(GRACE, standing(), at(369), STOP), Trust { until: at(370), degraded: true });
        let answered = Standing { unanswered: false, ..standing() };
        assert_eq!(trust(GRACE, answered, at(150), STOP), granted());
    }

    // proves C45
    #[test]
    fn strict_and_whoever_was_surpassed_get_no_more_than_was_granted() {
        assert_eq!(trust(OutagePolicy::Strict, standing(), at(150), STOP), granted());
        let surpassed = Standing { surpassed: true, ..standing() };
        assert_eq!(trust(GRACE, surpassed, at(150), STOP), granted());
    }

    #[test]
    fn a_grace_that_is_shorter_than_what_was_granted_takes_nothing_away() {
        let short = OutagePolicy::Degraded(Duration::from_secs(20));
        assert_eq!(trust(short, standing(), at(150), STOP), granted());
    }
}
