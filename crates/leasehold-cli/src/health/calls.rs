//! What the library tells to the process's metrics: the calls of the store, and how much trust was left when heartbeats were confirmed.
//!
//! Invariant: what is kept does not grow with what is told. There are at most [`SERIES_MAX`] series of a kind, and a histogram is
//! its buckets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{
    Counter, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Label, Metadata, Recorder, SharedString,
    Unit,
};

use super::page::Page;

/// How many series of a kind there may be. A store has about two dozen calls, each with two outcomes.
const SERIES_MAX: usize = 256;
/// The upper ends of a histogram's buckets, in seconds.
const BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

static CALLS: Calls = Calls::new();

/// Counts from now on.
pub(super) fn count() {
    // It fails if it was done before.
    let _ = metrics::set_global_recorder(&CALLS);
}

pub(super) fn write(page: &mut Page) {
    CALLS.write(page);
}

struct Calls {
    counters: Mutex<BTreeMap<Key, Arc<AtomicU64>>>,
    gauges: Mutex<BTreeMap<Key, Arc<Margin>>>,
    histograms: Mutex<BTreeMap<Key, Arc<Buckets>>>,
}

impl Calls {
    const fn new() -> Self {
        Self {
            counters: Mutex::new(BTreeMap::new()),
            gauges: Mutex::new(BTreeMap::new()),
            histograms: Mutex::new(BTreeMap::new()),
        }
    }

    fn write(&self, page: &mut Page) {
        let mut family = "";
        let counters = lock(&self.counters);
        for (key, count) in &*counters {
            if family != key.name() {
                family = key.name();
                page.family(family, "counter", "Calls of the store, by call and outcome.");
            }
            page.sample(family, &labels(key), count.load(Ordering::Relaxed));
        }
        let gauges = lock(&self.gauges);
        for (key, margin) in &*gauges {
            let (name, margin) = (key.name(), lock(&margin.0));
            page.family(name, "gauge", "What was left of the TTL when the last heartbeat was confirmed.");
            page.sample(name, &labels(key), margin.last);
            let least = format!("{name}_least");
            page.family(&least, "gauge", "The least that was ever left since this process began.");
            page.sample(&least, &labels(key), margin.least);
        }
        let histograms = lock(&self.histograms);
        for (key, buckets) in &*histograms {
            if family != key.name() {
                family = key.name();
                page.family(family, "histogram", "How long calls of the store took, in seconds.");
            }
            lock(&buckets.0).write(family, &labels(key), page);
        }
    }
}

fn labels(key: &Key) -> Vec<(&str, &str)> {
    key.labels().map(|label: &Label| (label.key(), label.value())).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The series of a key; `None` if there are too many already.
fn series<T: Default>(all: &Mutex<BTreeMap<Key, Arc<T>>>, key: &Key) -> Option<Arc<T>> {
    let mut all = lock(all);
    if let Some(known) = all.get(key) {
        return Some(Arc::clone(known));
    }
    (all.len() < SERIES_MAX).then(|| Arc::clone(all.entry(key.clone()).or_default()))
}

impl Recorder for Calls {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        series(&self.counters, key).map_or_else(Counter::noop, Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        series(&self.gauges, key).map_or_else(Gauge::noop, Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        series(&self.histograms, key).map_or_else(Histogram::noop, Histogram::from_arc)
    }
}

/// The last value and the least one.
struct Margin(Mutex<Margins>);

struct Margins {
    last: f64,
    least: f64,
}

impl Default for Margin {
    fn default() -> Self {
        Self(Mutex::new(Margins { last: 1.0, least: 1.0 }))
    }
}

impl GaugeFn for Margin {
    fn increment(&self, value: f64) {
        let last = lock(&self.0).last;
        self.set(last + value);
    }

    fn decrement(&self, value: f64) {
        self.increment(-value);
    }

    fn set(&self, value: f64) {
        let mut margin = lock(&self.0);
        margin.last = value;
        margin.least = margin.least.min(value);
    }
}

#[derive(Default)]
struct Buckets(Mutex<Filled>);

#[derive(Default)]
struct Filled {
    /// How many values fell into each bucket, without those below it.
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        let mut filled = lock(&self.0);
        if let Some(bucket) = BOUNDS.iter().position(|bound| value <= *bound) {
            filled.counts[bucket] += 1;
        }
        filled.count += 1;
        filled.sum += value;
    }
}

impl Filled {
    fn write(&self, family: &str, labels: &[(&str, &str)], page: &mut Page) {
        let bucket = format!("{family}_bucket");
        let mut below = 0;
        for (bound, count) in BOUNDS.iter().zip(self.counts) {
            below += count;
            page.sample(&bucket, &[labels, &[("le", bound.to_string().as_str())]].concat(), below);
        }
        page.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), self.count);
        page.sample(&format!("{family}_sum"), labels, self.sum);
        page.sample(&format!("{family}_count"), labels, self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_and_histograms_fill_their_buckets() {
        let calls = Calls::new();
        metrics::with_local_recorder(&calls, || {
            metrics::counter!("calls_total", "call" => "beat").increment(2);
            metrics::counter!("calls_total", "call" => "beat").increment(1);
            for seconds in [0.001, 0.002, 0.5, 7.0] {
                metrics::histogram!("call_seconds", "call" => "beat").record(seconds);
            }
            for left in [0.6, 0.1, 0.7] {
                metrics::gauge!("margin_ratio", "pool" => "jobs").set(left);
            }
        });
        let mut page = Page::default();
        calls.write(&mut page);
        let text = page.text();
        for line in [
            "# TYPE calls_total counter",
            "calls_total{call=\"beat\"} 3",
            "# TYPE call_seconds histogram",
            "call_seconds_bucket{call=\"beat\",le=\"0.001\"} 1",
            "call_seconds_bucket{call=\"beat\",le=\"0.0025\"} 2",
            "call_seconds_bucket{call=\"beat\",le=\"0.25\"} 2",
            "call_seconds_bucket{call=\"beat\",le=\"0.5\"} 3",
            "call_seconds_bucket{call=\"beat\",le=\"5\"} 3",
            "call_seconds_bucket{call=\"beat\",le=\"+Inf\"} 4",
            "call_seconds_sum{call=\"beat\"} 7.503",
            "call_seconds_count{call=\"beat\"} 4",
            "margin_ratio{pool=\"jobs\"} 0.7",
            "margin_ratio_least{pool=\"jobs\"} 0.1",
        ] {
            assert!(text.lines().any(|said| said == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn there_are_never_more_series_than_their_limit() {
        let calls = Calls::new();
        metrics::with_local_recorder(&calls, || {
            for number in 0..2 * SERIES_MAX {
                metrics::counter!("calls_total", "number" => number.to_string()).increment(1);
            }
        });
        assert_eq!(lock(&calls.counters).len(), SERIES_MAX);
    }
}
