//! Calls that can be made to fail or to hang, one by one, and that are counted.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Around, Manner};
use crate::store::{Store, StoreError};

/// A store with faults, for tests. Clones share it.
pub type Faulty = Around<Faults>;

/// What is wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails at once, and does nothing.
    Fails,
    /// It is never answered, and does nothing.
    Hangs,
}

/// The faults that are in place.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    faults: HashMap<&'static str, Fault>,
    on_every_call: Option<Fault>,
    calls: HashMap<&'static str, usize>,
}

impl Faults {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faulty {
    /// A store without any fault yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::with(store, Faults::default())
    }

    /// From now on these calls are answered so.
    pub fn break_calls(&self, calls: &[&'static str], fault: Fault) {
        self.manner().state().faults.extend(calls.iter().map(|call| (*call, fault)));
    }

    /// From now on every call is answered so.
    pub fn break_everything(&self, fault: Fault) {
        self.manner().state().on_every_call = Some(fault);
    }

    /// From now on every call is answered.
    pub fn mend(&self) {
        let mut state = self.manner().state();
        state.faults.clear();
        state.on_every_call = None;
    }

    /// How often this call was made.
    #[must_use]
    pub fn calls(&self, call: &str) -> usize {
        self.manner().state().calls.get(call).copied().unwrap_or(0)
    }
}

impl Manner for Faults {
    async fn around<T: Send>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let fault = {
            let mut state = self.state();
            *state.calls.entry(call).or_default() += 1;
            state.faults.get(call).copied().or(state.on_every_call)
        };
        match fault {
            None => answer.await,
            Some(Fault::Fails) => Err(StoreError::unavailable("this call was made to fail")),
            Some(Fault::Hangs) => std::future::pending().await,
        }
    }
}
