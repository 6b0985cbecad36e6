//! A lease that this manager holds: how it stands, when it is renewed, and whether its camera is being let go.

use std::time::Duration;

use leasehold::clock::Moment;
use leasehold_client::Lease;
use leasehold_manager::shards::grace::{OutagePolicy, Standing, Trust, trust};

/// How long the waits after renewals that nobody answered are at first and at most.
const AGAIN_MIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(4);

/// The least that a worker gets to let go of a camera.
const LET_GO_MIN: Duration = Duration::from_millis(500);

/// Why a camera is let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Another waits for it, or this manager drains or ends.
    HandedOver,
    /// It took its worker down too often.
    Quarantined,
    /// Nobody confirmed it in time.
    Lapsed,
    /// Somebody was seen with a higher token.
    Surpassed,
    /// The control plane says that it is over.
    Lost,
    /// It could not be told to its worker.
    Untold,
}

impl Why {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::HandedOver => "handed_over",
            Self::Quarantined => "quarantined",
            Self::Lapsed => "lapsed",
            Self::Surpassed => "surpassed",
            Self::Lost => "lost",
            Self::Untold => "untold",
        }
    }

    /// Whether the lease is kept up until its camera has been let go.
    fn is_kept_up(self) -> bool {
        matches!(self, Self::HandedOver | Self::Quarantined | Self::Untold)
    }
}

/// A camera that is being let go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving {
    pub(super) why: Why,
    /// When its worker is killed if it has not let go.
    by: Moment,
    /// Whether it is being released.
    pub(super) releasing: bool,
}

/// A lease that this manager holds.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) lease: Lease,
    /// Which shard its camera is on.
    pub(super) shard: usize,
    confirmed_at: Moment,
    granted_until: Moment,
    unanswered: bool,
    pub(super) surpassed: bool,
    pub(super) renew_at: Moment,
    pub(super) renewing: bool,
    again: Duration,
    pub(super) leaving: Option<Leaving>,
    /// Its camera waits until then, to be told from others.
    pub(super) wait_until: Moment,
    /// Since when it should be worked on.
    pub(super) since: Moment,
    /// Whether it was ever told to a worker.
    pub(super) told: bool,
}

impl Held {
    /// A lease that is active. `None` if it is not.
    pub(super) fn of(lease: Lease, shard: usize, now: Moment) -> Option<Self> {
        let granted_until = lease.trusted_until?;
        let mut held = Self {
            lease,
            shard,
            confirmed_at: now,
            granted_until,
            unanswered: false,
            surpassed: false,
            renew_at: now,
            renewing: false,
            again: AGAIN_MIN,
            leaving: None,
            wait_until: Moment(0),
            since: now,
            told: false,
        };
        held.confirmed();
        Some(held)
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(self.lease.ttl_seconds)
    }

    /// Counts from before the request was sent.
    fn confirmed(&mut self) {
        let ttl = self.ttl();
        self.confirmed_at = self.granted_until.before(ttl - ttl / 10);
        self.renew_at = self.confirmed_at.after(ttl / 3);
        (self.unanswered, self.renewing, self.again) = (false, false, AGAIN_MIN);
    }

    /// The control plane has confirmed it.
    pub(super) fn renewed(&mut self, lease: Lease) {
        if let Some(until) = lease.trusted_until {
            self.granted_until = self.granted_until.max(until);
            self.lease = lease;
            self.confirmed();
        }
    }

    /// Nobody has answered. It is asked again soon, and for as long as it is trusted. `false` if that is nothing new.
    pub(super) fn unanswered(&mut self, now: Moment) -> bool {
        let is_new = !self.unanswered;
        (self.unanswered, self.renewing) = (true, false);
        self.renew_at = now.after(self.again.min(self.ttl() / 6));
        self.again = (self.again * 2).min(AGAIN_MAX);
        is_new
    }

    /// How long a worker gets to let go of the camera before trust ends. By what was granted: the TTL of others may be another.
    pub(super) fn let_go(&self) -> Duration {
        (self.ttl() / 6).max(LET_GO_MIN)
    }

    pub(super) fn trust(&self, policy: OutagePolicy, now: Moment) -> Trust {
        let standing = Standing {
            confirmed_at: self.confirmed_at,
            granted_until: self.granted_until,
            unanswered: self.unanswered,
            surpassed: self.surpassed,
        };
        trust(policy, standing, now, self.let_go())
    }

    /// When the worker is killed if it has not let go for this reason.
    pub(super) fn leaves_by(
        &self,
        why: Why,
        policy: OutagePolicy,
        stop_grace: Duration,
        now: Moment,
    ) -> Moment {
        let (until, let_go) = (self.trust(policy, now).until, self.let_go());
        match why {
            Why::HandedOver | Why::Quarantined | Why::Untold => now.after(stop_grace),
            // In grace somebody has it already, and what it puts out is marked: no neighbour is killed for it.
            Why::Surpassed if policy != OutagePolicy::Strict && until <= now => now.after(let_go),
            Why::Lapsed | Why::Lost | Why::Surpassed => until.min(now.after(let_go)).max(now),
        }
    }

    /// Its camera is taken from its worker, which is killed at `by` if it does not let go. `false` if it is being let go
    /// already, and no later than that.
    pub(super) fn leave(&mut self, why: Why, by: Moment) -> bool {
        match &mut self.leaving {
            Some(leaving) if leaving.by <= by => false,
            Some(leaving) => {
                (leaving.by, leaving.why) = (by, why);
                true
            }
            None => {
                self.leaving = Some(Leaving { why, by, releasing: false });
                true
            }
        }
    }

    /// When no process may work on its camera any more.
    pub(super) fn deadline(&self, trust: Trust) -> Moment {
        match self.leaving {
            None => trust.until,
            Some(leaving) if leaving.why.is_kept_up() => leaving.by.min(trust.until),
            Some(leaving) => leaving.by,
        }
    }

    /// Whether it is still to be renewed.
    pub(super) fn is_kept_up(&self) -> bool {
        self.leaving.is_none_or(|leaving| leaving.why.is_kept_up())
    }

    /// Whether its camera is to be worked on now.
    pub(super) fn is_wanted(&self, now: Moment) -> bool {
        self.leaving.is_none() && now >= self.wait_until
    }

    /// The site it is at.
    pub(super) fn site(&self) -> (String, String) {
        (self.lease.tenant_id.clone(), self.lease.site_id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    /// A lease for a minute that was asked for at this second.
    fn lease(asked: u64) -> Lease {
        let lease = serde_json::json!({
            "lease_id": "l", "camera_uuid": "c", "runner_id": "r", "shard_id": "0", "tenant_id": "t", "site_id": "s",
            "acquired_at": "", "expires_at": "", "renewed_at": null, "status": "active", "last_heartbeat": "",
            "processing_stats": {}, "config_version": "", "zone_version": "", "fencing_token": 7, "ttl_seconds": 60,
        });
        let mut lease: Lease = serde_json::from_value(lease).expect("a lease");
        lease.trusted_until = Some(at(asked + 54));
        lease
    }

    fn held() -> Held {
        Held::of(lease(100), 0, at(103)).expect("it is active")
    }

    fn until(held: &Held, now: u64) -> Moment {
        held.deadline(held.trust(OutagePolicy::Strict, at(now)))
    }

    // proves C48
    #[test]
    fn a_lease_is_renewed_after_a_third_of_its_time_from_the_request_and_soon_again_if_nobody_answers() {
        let mut held = held();
        assert_eq!(held.renew_at, at(120));
        for (now, next) in [(122, 123), (125, 127), (129, 133), (135, 139)] {
            held.unanswered(at(now));
            assert_eq!(held.renew_at, at(next));
        }
        assert_eq!(until(&held, 139), at(154));
        held.renewed(lease(139));
        assert_eq!((held.renew_at, until(&held, 140)), (at(159), at(193)));
        held.unanswered(at(161));
        assert_eq!(held.renew_at, at(162), "it begins with a short wait again");
    }

    #[test]
    fn an_answer_that_comes_late_shortens_nothing() {
        let mut held = held();
        held.renewed(lease(90));
        assert_eq!(until(&held, 110), at(154));
    }

    // proves R187
    #[test]
    fn of_two_reasons_to_let_go_the_earlier_one_counts() {
        let mut held = held();
        assert!(held.leave(Why::HandedOver, at(140)));
        assert!(held.is_kept_up(), "its worker may take its time");
        assert_eq!(until(&held, 110), at(140));
        assert!(!held.leave(Why::Lapsed, at(150)));
        assert!(held.leave(Why::Lost, at(120)));
        assert!(!held.is_kept_up());
        held.renewed(lease(119));
        assert_eq!(until(&held, 119), at(120), "what was lost stays lost");
    }

    // proves C45
    #[test]
    fn only_in_grace_does_a_worker_get_time_beyond_what_was_granted() {
        let (mut held, grace) = (held(), Duration::from_secs(30));
        let by = |held: &Held, policy, now| held.leaves_by(Why::Surpassed, policy, grace, at(now));
        let degraded = OutagePolicy::Degraded(Duration::from_secs(300));
        held.surpassed = true;
        for policy in [OutagePolicy::Strict, degraded] {
            assert_eq!([120, 150].map(|now| by(&held, policy, now)), [130, 154].map(at));
        }
        assert_eq!(by(&held, OutagePolicy::Strict, 160), at(160));
        assert_eq!(by(&held, degraded, 160), at(170));
    }

    #[test]
    fn what_is_handed_over_is_not_worked_on_beyond_trust() {
        let mut held = held();
        held.leave(Why::HandedOver, at(500));
        assert_eq!(until(&held, 110), at(154));
        assert!(!held.is_wanted(at(110)));
    }
}
