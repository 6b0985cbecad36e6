//! Time in the simulation: the true one, which nobody in it can read, and the clocks of its machines.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use leasehold::clock::{Clock, Moment, Sleep};
use tokio::time::Instant;

use crate::gate::Gate;

/// Two clocks of the simulation run at rates that differ by at most twice this many millionths, which is less than
/// the tenth that the margin covers.
pub(crate) const DRIFT_MAX_PPM: i64 = 45_000;
const MILLION: i128 = 1_000_000;
/// The wall time at which every run begins.
const WALL_START: u64 = 1_800_000_000_000_000_000;

/// The true time since the run began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrueTime(Instant);

impl TrueTime {
    pub(crate) fn begin() -> Self {
        Self(present())
    }

    pub(crate) fn now(self) -> Duration {
        present() - self.0
    }

    pub(crate) async fn sleep(self, wait: Duration) {
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    async fn sleep_until(self, at: Duration) {
        tokio::time::sleep_until(self.0 + at).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "this is virtual time")]
fn present() -> Instant {
    Instant::now()
}

/// The clock of one machine: it starts somewhere, runs at its own rate, and its wall time may be set. Whoever sleeps
/// on it wakes when its process runs.
#[derive(Debug)]
pub(crate) struct MachineClock {
    time: TrueTime,
    offset: i128,
    rate_ppm: i64,
    wall_jump_ms: Arc<AtomicI64>,
    gate: Gate,
}

impl MachineClock {
    pub(crate) fn new(
        time: TrueTime,
        offset: Duration,
        rate_ppm: i64,
        wall_jump_ms: Arc<AtomicI64>,
        gate: Gate,
    ) -> Self {
        Self { time, offset: offset.as_nanos() as i128, rate_ppm, wall_jump_ms, gate }
    }

    fn reading(&self, at: Duration) -> Moment {
        let elapsed = at.as_nanos() as i128 * (MILLION + i128::from(self.rate_ppm)) / MILLION;
        Moment(u64::try_from(self.offset + elapsed).unwrap_or(u64::MAX))
    }

    /// The true time at which this clock shows `moment`; the end of time for one that is out of reach.
    pub(crate) fn true_time(&self, moment: Moment) -> Duration {
        let elapsed = (i128::from(moment.0) - self.offset).max(0);
        let rate = MILLION + i128::from(self.rate_ppm);
        let nanos = (elapsed * MILLION + rate - 1) / rate;
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }

    async fn wake_at(time: TrueTime, gate: Gate, at: Duration) {
        if at == Duration::MAX {
            std::future::pending::<()>().await;
        }
        loop {
            gate.open().await;
            if time.now() >= at {
                return;
            }
            time.sleep_until(at).await;
        }
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Moment {
        self.reading(self.time.now())
    }

    fn sleep_until(&self, deadline: Moment) -> Sleep {
        Box::pin(Self::wake_at(self.time, self.gate.clone(), self.true_time(deadline)))
    }

    fn wall_nanos(&self) -> u64 {
        let jump = i128::from(self.wall_jump_ms.load(Ordering::Relaxed)) * MILLION;
        let wall = i128::from(WALL_START) + self.time.now().as_nanos() as i128 + jump;
        u64::try_from(wall).unwrap_or(0)
    }
}
