//! The one place that reads a clock.
//!
//! Trust and silence are measured on a clock that keeps counting while the machine sleeps and that nobody can
//! set (`CLOCK_BOOTTIME` on Linux). Wall time appears only in names, logs and the ledger; nothing is decided
//! by it.
//!
//! Invariant: no moment ever leaves the machine it was read on as something to compare with. Durations do.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A reading of this machine's clock: nanoseconds since it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// This moment and a while.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(nanos(wait)))
    }

    /// This moment less a while.
    #[must_use]
    pub fn before(self, wait: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(wait)))
    }

    /// How long ago `earlier` was, seen from this moment; nothing if it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)
}

/// What `sleep_until` gives back.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the participant knows of time. Real programs use [`SystemClock`]; simulations bring their own.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Moment;

    /// Ends at `deadline` or, after a suspend that hid it, at most half a second of wakefulness later.
    fn sleep_until(&self, deadline: Moment) -> Sleep;

    /// Wall time in nanoseconds since 1970, for people.
    fn wall_nanos(&self) -> u64;

    /// Names the boot of the machine whose clock this is: moments compare only where theirs are equal.
    fn boot(&self) -> String {
        boot_id()
    }

    /// Ends after `wait`.
    fn sleep(&self, wait: Duration) -> Sleep {
        self.sleep_until(self.now().after(wait))
    }
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        now()
    }

    fn sleep_until(&self, deadline: Moment) -> Sleep {
        Box::pin(async move {
            // The runtime's timers stand still while the machine sleeps, so no nap is long.
            while let Some(left) = Some(deadline.since(now())).filter(|left| !left.is_zero()) {
                tokio::time::sleep(left.min(Duration::from_millis(500))).await;
            }
        })
    }

    fn wall_nanos(&self) -> u64 {
        unix_nanos()
    }
}

/// The present moment on the machine's own clock.
#[must_use]
pub fn now() -> Moment {
    #[cfg(unix)]
    {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let id = nix::time::ClockId::CLOCK_BOOTTIME;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let id = nix::time::ClockId::CLOCK_MONOTONIC;
        if let Ok(time) = nix::time::clock_gettime(id) {
            return Moment(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64);
        }
    }
    instant_nanos()
}

/// Where the system has no such clock (or refuses it), the standard library's, which may stop in a suspend.
fn instant_nanos() -> Moment {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    let (start, now) = (START.get_or_init(std::time::Instant::now), std::time::Instant::now());
    Moment(nanos(now.duration_since(*start)))
}

/// Wall time in nanoseconds since 1970.
#[must_use]
pub fn unix_nanos() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).map_or(0, nanos)
}

/// A number above every token that a store can have given out before this wall time: seconds since 2020, shifted
/// so that a million grants a second fit between two of them.
#[must_use]
pub fn token_base(wall_nanos: u64) -> u64 {
    const START_OF_2020: u64 = 1_577_836_800;
    (wall_nanos / 1_000_000_000).saturating_sub(START_OF_2020) << 20
}

/// Names this boot of this machine: moments of two processes compare only if theirs are equal.
#[must_use]
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| String::new(), |id| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_never_runs_under_or_over() {
        assert_eq!(Moment(5).before(Duration::from_secs(1)), Moment(0));
        assert_eq!(Moment(u64::MAX - 1).after(Duration::from_secs(1)), Moment(u64::MAX));
        assert_eq!(Moment(5).since(Moment(9)), Duration::ZERO);
    }

    #[tokio::test]
    async fn sleeping_ends_after_the_deadline() {
        let clock = SystemClock;
        let deadline = clock.now().after(Duration::from_millis(20));
        clock.sleep_until(deadline).await;
        assert!(clock.now() >= deadline);
    }
}
