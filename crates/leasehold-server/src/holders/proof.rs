//! Grants that nobody wrote down: the replica that gave them was killed before it came to that.
//!
//! Every replica looks after the sessions that it did not open itself. The ledger is read a moment after one was first seen,
//! and what has no row there gets one. Until then nothing is written about its renewals, so that any row of a session says
//! that its grant was written down, also where the ledger has forgotten its oldest rows. One that is let go sooner is looked
//! for at once, among the rows of its resource.
//!
//! Invariant: rows from before `floor` are not needed. A row is there a moment after its grant, and a session is seen within
//! seconds of it and looked for within [`SETTLED`] and the pause between two reads; `floor` is the end of the ledger at
//! least [`STEP`] before the last look that was answered.

use std::collections::HashSet;
use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::ledger::Event;
use leasehold::store::StoreError;
use leasehold::{MemberId, ResourceId};

use super::desk::Desk;
use super::leases::Standing;

/// How long whoever gave a grant has time to write it down.
pub(super) const SETTLED: Duration = Duration::from_secs(3);
/// How far the floor lies behind.
const STEP: Duration = Duration::from_secs(30);
/// How many rows one read brings.
const PAGE: usize = 1000;

/// How far the ledger of a pool was read.
#[derive(Debug, Default)]
pub(super) struct Proof {
    floor: u64,
    next: u64,
    at: Moment,
}

impl Desk {
    /// Writes down the grants of which the ledger has nothing.
    pub(super) async fn prove(&self, proof: &mut Proof) -> Result<(), StoreError> {
        let now = self.clock.now();
        let due = self.memory().unproven(now, SETTLED);
        if due.is_empty() {
            return Ok(());
        }
        let written = self.written(proof, now).await?;
        for id in due {
            // What has ended meanwhile is not written about as if it were held.
            let Some(kept) = self.memory().prove(&id) else { continue };
            if !written.contains(&id) {
                self.write_late(&kept.term.resource, &Standing::of_kept(&kept));
            }
        }
        Ok(())
    }

    /// The same for one lease, before anything is written about its end.
    pub(super) async fn prove_one(
        &self,
        resource: &ResourceId,
        standing: &Standing,
    ) -> Result<(), StoreError> {
        let id = &standing.session;
        if self.memory().kept.get(id).is_some_and(|kept| kept.unproven.is_none()) {
            return Ok(());
        }
        let (mut end, mut is_written) = (0, false);
        loop {
            let page = self.call(self.store.ledger(&self.pool, Some(resource), end, PAGE)).await?;
            let Some((last, _)) = page.last() else { break };
            end = *last;
            is_written |= page.iter().any(|(_, row)| row.member == *id);
        }
        // Who listens may have come to it meanwhile.
        let is_kept = self.memory().kept.contains_key(id);
        let is_due = !is_kept || self.memory().prove(id).is_some();
        if is_due && !is_written {
            self.write_late(resource, standing);
        }
        Ok(())
    }

    /// Who wrote a row since the floor.
    async fn written(&self, proof: &mut Proof, now: Moment) -> Result<HashSet<MemberId>, StoreError> {
        let (mut written, mut end) = (HashSet::new(), proof.floor);
        loop {
            let page = self.call(self.store.ledger(&self.pool, None, end, PAGE)).await?;
            let Some((last, _)) = page.last() else { break };
            end = *last;
            written.extend(page.into_iter().map(|(_, row)| row.member));
        }
        if now.since(proof.at) >= STEP {
            *proof = Proof { floor: proof.next, next: end, at: now };
        }
        Ok(written)
    }

    fn write_late(&self, resource: &ResourceId, standing: &Standing) {
        let Some(holder) = &standing.holder else { return };
        let mut row = self.rows.row(&standing.session, &holder.id, Event::Acquired);
        row.number = Some(1);
        row.resource = Some(resource.clone());
        row.token = Some(standing.token);
        row.ttl_ms = u64::try_from(holder.ttl.as_millis()).ok();
        let late = || "written late: whoever granted it was gone before it could".to_owned();
        row.detail = Some(holder.detail().unwrap_or_else(late));
        self.rows.write(&self.pool, row);
    }
}
