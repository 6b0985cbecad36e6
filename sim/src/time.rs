//! Time in the simulation: the true one, which nobody in it can read, and the clocks of its machines.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use leasehold::clock::{Clock, Moment, Sleep};
use tokio::time::Instant;

use crate::gate::Gate;

/// Two clocks of the simulation run at rates that differ by at most twice this many millionths, which is less than
/// the tenth that the margin covers.
pub(crate) const DRIFT_MAX_PPM: i64 = 45_000;
const MILLION: u64 = 1_000_000;
/// The wall time at which every run begins.
const WALL_START: u64 = 1_800_000_000_000_000_000;

thread_local! {
    /// What the true time is, if it has been asked for since it last went on.
    static PRESENT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// The true time since the run began, of which there is one on each thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrueTime(Instant);

impl TrueTime {
    pub(crate) fn begin() -> Self {
        Self::goes_on();
        Self(present())
    }

    /// It may be later than before: virtual time goes on only while nothing runs.
    pub(crate) fn goes_on() {
        PRESENT.set(None);
    }

    /// Everything reads a clock again and again at one moment, so the runtime is asked once for each.
    pub(crate) fn now(self) -> Duration {
        PRESENT.get().unwrap_or_else(|| {
            let now = present() - self.0;
            PRESENT.set(Some(now));
            now
        })
    }

    pub(crate) async fn sleep(self, wait: Duration) {
        if !wait.is_zero() {
            self.sleep_until(self.now() + wait).await;
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

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The product of what is too long for 64 bits, as the end of time is.
fn wide(nanos: u64, times: u64) -> u128 {
    u128::from(nanos) * u128::from(times)
}

fn narrow(nanos: u128) -> Option<u64> {
    u64::try_from(nanos).ok()
}

/// The clock of one machine: it starts somewhere, runs at its own rate, and its wall time may be set. Whoever sleeps
/// on it wakes when its process runs.
#[derive(Debug)]
pub(crate) struct MachineClock {
    time: TrueTime,
    /// In nanoseconds.
    offset: u64,
    /// How many millionths of a second it counts in one.
    rate: u64,
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
        let rate = MILLION.saturating_add_signed(rate_ppm);
        Self { time, offset: nanos(offset), rate, wall_jump_ms, gate }
    }

    fn reading(&self, at: Duration) -> Moment {
        let at = nanos(at);
        let elapsed = match at.checked_mul(self.rate) {
            Some(product) => product / MILLION,
            None => narrow(wide(at, self.rate) / u128::from(MILLION)).unwrap_or(u64::MAX),
        };
        Moment(self.offset.saturating_add(elapsed))
    }

    /// The true time at which this clock shows `moment`; the end of time for one that is out of reach.
    pub(crate) fn true_time(&self, moment: Moment) -> Duration {
        let elapsed = moment.0.saturating_sub(self.offset);
        let nanos = match elapsed.checked_mul(MILLION) {
            Some(product) => Some(product.div_ceil(self.rate)),
            None => narrow(wide(elapsed, MILLION).div_ceil(u128::from(self.rate))),
        };
        nanos.map_or(Duration::MAX, Duration::from_nanos)
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
        let jump = self.wall_jump_ms.load(Ordering::Relaxed).saturating_mul(MILLION.cast_signed());
        WALL_START.saturating_add(nanos(self.time.now())).saturating_add_signed(jump)
    }

    /// The moments in the ledger are of one clock, the true one.
    fn boot(&self) -> String {
        "simulated".to_owned()
    }
}
