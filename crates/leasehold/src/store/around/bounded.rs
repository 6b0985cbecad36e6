//! Every call has a deadline, and no call is larger than the store takes.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::{Around, Manner};
use crate::store::{Capabilities, Store, StoreError};

/// A store whose calls end in time and whose batches are split.
pub type Bounded = Around<Deadline>;

/// How long a call may take. One that may have to go through a whole pool, however large, has six times as long.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(pub Duration);

const LONG: [&str; 4] = ["collect", "collect_known", "leases", "resources"];
const LONGER: u32 = 6;

impl Bounded {
    /// Gives every call of the store at most this long.
    pub fn new(store: Arc<dyn Store>, limit: Duration) -> Self {
        Self::with(store, Deadline(limit))
    }
}

impl Manner for Deadline {
    async fn around<T: Send>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let limit = if LONG.contains(&call) { self.0 * LONGER } else { self.0 };
        let late = || StoreError::unavailable(format!("the store gave no answer to {call} within {limit:?}"));
        tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(late()))
    }

    fn batch_max(&self, inner: &Capabilities) -> Option<usize> {
        Some(inner.batch_max)
    }
}

#[cfg(all(test, feature = "conformance"))]
mod tests {
    use super::*;
    use crate::lease::{BeatNumber, Token};
    use crate::store::around::{Fault, Faulty};
    use crate::store::conformance::{Member, pool, wanted};
    use crate::store::memory::MemoryStore;
    use crate::store::{Acquired, Answer, Cursor, LeaseStore, Pulse, StoreErrorKind};

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_is_unknown_when_its_time_is_up() {
        let faulty = Faulty::new(Arc::new(MemoryStore::new()));
        faulty.break_calls(&["sessions"], Fault::Hangs);
        let bounded = Bounded::new(Arc::new(faulty.clone()), Duration::from_secs(3));
        let error = bounded.sessions(&pool("work"), Cursor::START).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        assert_eq!(error.to_string(), "the store gave no answer to sessions within 3s");
        faulty.break_calls(&["leases"], Fault::Hangs);
        let error = bounded.leases(&pool("work"), Cursor::START).await.unwrap_err();
        assert_eq!(error.to_string(), "the store gave no answer to leases within 18s", "there may be many");
        faulty.mend();
        bounded.sessions(&pool("work"), Cursor::START).await.expect("it answers again");
    }

    #[tokio::test]
    async fn a_batch_that_is_too_large_is_sent_in_parts_and_answered_whole() {
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let faulty = Faulty::new(Arc::clone(&memory));
        let bounded = Bounded::new(Arc::new(faulty.clone()), Duration::from_secs(3));
        let member = Member::join(&memory, "one").await;
        let most = memory.capabilities().batch_max;
        let names: Vec<String> = (0..=most).map(|number| format!("r{number}")).collect();
        let many: Vec<_> = names.iter().map(|name| wanted(name)).collect();
        let pulse = Pulse { era: member.era, number: BeatNumber(1), confirmed: BeatNumber(0) };
        let Answer::Done(granted) = bounded.acquire(member.id(), pulse, &many).await.unwrap() else {
            panic!("not granted")
        };
        assert_eq!(faulty.calls("acquire"), 2, "two parts");
        let terms = granted.into_iter().map(|outcome| match outcome {
            Acquired::Granted(term) => (term.resource.as_str().to_owned(), term.token),
            Acquired::Held { .. } => panic!("nobody else is here"),
        });
        let expected: Vec<_> = names.into_iter().map(|name| (name, Token(1))).collect();
        assert_eq!(terms.collect::<Vec<_>>(), expected);
        let Answer::Done(none) = bounded.acquire(member.id(), pulse, &[]).await.unwrap() else {
            panic!("not answered")
        };
        assert_eq!((none.len(), faulty.calls("acquire")), (0, 3), "an empty batch is a call too");
    }
}
