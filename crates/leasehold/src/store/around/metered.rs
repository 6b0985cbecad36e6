//! Every call is counted and timed.

use std::future::Future;
use std::sync::Arc;

use super::{Around, Manner};
use crate::clock::{Clock, SystemClock};
use crate::store::{Store, StoreError};

/// A store whose calls are told to the process's metrics: `leasehold_store_calls_total` by `call` and `outcome`
/// (`answered` or `failed`), and `leasehold_store_call_seconds` by `call`.
pub type Metered = Around<Measure>;

/// What measures.
#[derive(Debug)]
pub struct Measure {
    clock: Arc<dyn Clock>,
}

impl Metered {
    /// Measures every call of the store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::with(store, Measure { clock: Arc::new(SystemClock) })
    }
}

impl Manner for Measure {
    async fn around<T: Send>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let begun = self.clock.now();
        let answer = answer.await;
        let outcome = if answer.is_ok() { "answered" } else { "failed" };
        metrics::counter!("leasehold_store_calls_total", "call" => call, "outcome" => outcome).increment(1);
        let seconds = self.clock.now().since(begun).as_secs_f64();
        metrics::histogram!("leasehold_store_call_seconds", "call" => call).record(seconds);
        answer
    }
}

#[cfg(all(test, feature = "conformance"))]
mod tests {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;
    use crate::store::LeaseStore;
    use crate::store::around::{Fault, Faulty};
    use crate::store::memory::MemoryStore;

    #[test]
    fn calls_are_counted_by_outcome_and_timed() {
        let faulty = Faulty::new(Arc::new(MemoryStore::new()));
        let metered = Metered::new(Arc::new(faulty.clone()));
        let recorder = DebuggingRecorder::new();
        let seen = recorder.snapshotter();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        metrics::with_local_recorder(&recorder, || {
            runtime.block_on(async {
                metered.pools().await.unwrap();
                metered.pools().await.unwrap();
                faulty.break_calls(&["pools"], Fault::Fails);
                metered.pools().await.unwrap_err();
            });
        });
        let mut counts = Vec::new();
        let mut times = 0;
        for (key, _, _, value) in seen.snapshot().into_vec() {
            let labels: Vec<&str> = key.key().labels().map(metrics::Label::value).collect();
            match value {
                DebugValue::Counter(count) => counts.push((labels.join(" "), count)),
                DebugValue::Histogram(values) => times += values.len(),
                DebugValue::Gauge(_) => panic!("there are no gauges"),
            }
        }
        counts.sort();
        assert_eq!(counts, [("pools answered".to_owned(), 2), ("pools failed".to_owned(), 1)]);
        assert_eq!(times, 3);
    }
}
