//! Offers that nobody takes up: a camera that a living runner was offered, and has not acquired for a while, is offered to
//! another.
//!
//! Pure, and the memory of one replica. Nothing is decided by it: whoever asks for a free camera that it may have gets it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::{MemberId, ResourceId};

/// How long a runner has to take what it is offered.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How long it is offered nothing that it did not take.
const PASSED_OVER: Duration = Duration::from_secs(600);

/// What is on offer in a tenant, and who did not want it.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    /// To whom, and since when.
    open: BTreeMap<ResourceId, (MemberId, Moment)>,
    /// By whom, and until when that counts.
    refused: BTreeMap<ResourceId, BTreeMap<MemberId, Moment>>,
}

impl Offers {
    /// The runners that are passed over for a camera.
    pub(super) fn passed_over(&self, camera: &ResourceId) -> BTreeSet<MemberId> {
        self.refused.get(camera).map(|refused| refused.keys().cloned().collect()).unwrap_or_default()
    }

    /// Ends what has been open for too long. `is_free` says of which cameras that still can be.
    pub(super) fn lapse(&mut self, now: Moment, is_free: impl Fn(&ResourceId) -> bool) {
        self.open.retain(|camera, _| is_free(camera));
        self.refused.retain(|camera, refused| {
            refused.retain(|_, until| now < *until);
            !refused.is_empty() && is_free(camera)
        });
        let late: Vec<ResourceId> = self
            .open
            .iter()
            .filter(|(_, (_, since))| now.since(*since) >= PATIENCE)
            .map(|(camera, _)| camera.clone())
            .collect();
        for camera in late {
            if let Some((runner, _)) = self.open.remove(&camera) {
                self.refused.entry(camera).or_default().insert(runner, now.after(PASSED_OVER));
            }
        }
    }

    /// Takes note of what is on offer now.
    pub(super) fn note<'a>(
        &mut self,
        now: Moment,
        offered: impl Iterator<Item = (&'a ResourceId, &'a MemberId)>,
    ) {
        let mut open = BTreeMap::new();
        for (camera, runner) in offered {
            let since = match self.open.get(camera) {
                Some((before, since)) if before == runner => *since,
                _ => now,
            };
            open.insert(camera.clone(), (runner.clone(), since));
        }
        self.open = open;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default().after(Duration::from_secs(seconds))
    }

    #[test]
    fn who_does_not_take_what_it_is_offered_is_passed_over_for_a_while() {
        let camera = ResourceId::new("cam-1").unwrap();
        let (one, two) = (MemberId::new("one").unwrap(), MemberId::new("two").unwrap());
        let mut offers = Offers::default();
        let free = |_: &ResourceId| true;
        offers.note(at(0), [(&camera, &one)].into_iter());
        offers.lapse(at(29), free);
        offers.note(at(29), [(&camera, &one)].into_iter());
        assert!(offers.passed_over(&camera).is_empty(), "it has its time");
        offers.lapse(at(30), free);
        assert_eq!(offers.passed_over(&camera), BTreeSet::from([one.clone()]));
        // The next one has as long, counted from when it was offered.
        offers.note(at(30), [(&camera, &two)].into_iter());
        offers.lapse(at(59), free);
        assert_eq!(offers.passed_over(&camera).len(), 1);
        offers.lapse(at(60), free);
        assert_eq!(offers.passed_over(&camera).len(), 2);
        offers.lapse(at(640), free);
        assert_eq!(offers.passed_over(&camera), BTreeSet::from([two]), "and is forgiven");
        // Of what somebody has nothing is remembered.
        offers.lapse(at(641), |_| false);
        assert!(offers.passed_over(&camera).is_empty());
    }
}
