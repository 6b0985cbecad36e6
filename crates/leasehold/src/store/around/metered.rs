//! Every call is counted and timed.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};

use metrics::{Key, Label, Level, Metadata};

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
    named: RwLock<HashMap<&'static str, Arc<Named>>>,
}

/// What is told of one call. To put the names together takes longer than to find by them what counts.
#[derive(Debug)]
struct Named {
    answered: Key,
    failed: Key,
    seconds: Key,
}

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

impl Named {
    fn of(call: &'static str) -> Self {
        let counted = |outcome| {
            let labels = vec![Label::new("call", call), Label::new("outcome", outcome)];
            Key::from_parts("leasehold_store_calls_total", labels).to_retained()
        };
        let labels = vec![Label::new("call", call)];
        let seconds = Key::from_parts("leasehold_store_call_seconds", labels).to_retained();
        Self { answered: counted("answered"), failed: counted("failed"), seconds }
    }
}

impl Measure {
    fn named(&self, call: &'static str) -> Arc<Named> {
        if let Some(named) = self.named.read().unwrap_or_else(PoisonError::into_inner).get(call) {
            return Arc::clone(named);
        }
        let mut all = self.named.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(call).or_insert_with(|| Arc::new(Named::of(call))))
    }
}

impl Metered {
    /// Measures every call of the store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::with(store, Measure { clock: Arc::new(SystemClock), named: RwLock::default() })
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
        let seconds = self.clock.now().since(begun).as_secs_f64();
        let named = self.named(call);
        let counted = if answer.is_ok() { &named.answered } else { &named.failed };
        metrics::with_recorder(|recorder| {
            recorder.register_counter(counted, &METADATA).increment(1);
            recorder.register_histogram(&named.seconds, &METADATA).record(seconds);
        });
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
