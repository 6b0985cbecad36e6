//! An independent witness: what the work itself saw, not what the participant says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::clock::{self, Moment};
use leasehold::participant::Lease;

/// One stretch of work: who, on what, under which token, from when to when.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    pub(crate) name: String,
    pub(crate) resource: String,
    pub(crate) token: u64,
    pub(crate) from: Moment,
    pub(crate) to: Moment,
}

/// Collects what all workers did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<Vec<Stretch>>>);

impl Witness {
    /// Work that reports every moment it is allowed to act.
    pub(crate) fn work(
        &self,
        name: &str,
    ) -> impl Fn(Lease) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + use<> {
        let (witness, name) = (self.clone(), name.to_owned());
        move |lease| {
            let (witness, name) = (witness.clone(), name.clone());
            Box::pin(async move {
                let from = clock::now();
                let place = witness.begin(&name, &lease, from);
                while lease.term().is_ok() && !lease.is_stopping() {
                    witness.0.lock().unwrap()[place].to = clock::now();
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
        }
    }

    fn begin(&self, name: &str, lease: &Lease, from: Moment) -> usize {
        let mut all = self.0.lock().unwrap();
        all.push(Stretch {
            name: name.to_owned(),
            resource: lease.resource().to_string(),
            token: lease.token().0,
            from,
            to: from,
        });
        all.len() - 1
    }

    pub(crate) fn stretches(&self) -> Vec<Stretch> {
        self.0.lock().unwrap().clone()
    }

    /// Stretches of one resource never overlap, and their tokens rise.
    pub(crate) fn verify(&self) {
        let mut all = self.stretches();
        all.sort_by(|one, two| (&one.resource, one.from).cmp(&(&two.resource, two.from)));
        for pair in all.windows(2).filter(|pair| pair[0].resource == pair[1].resource) {
            assert!(pair[0].to <= pair[1].from, "two owners at once: {pair:?}");
            assert!(pair[0].token < pair[1].token, "a token did not rise: {pair:?}");
        }
    }
}
