//! Leases that are taken back: their holders are told, and nobody else has them before those had time to stop.

use leasehold::ResourceId;
use leasehold::lease::Term;
use leasehold::ledger::{Event, Reason};
use leasehold::store::{Revoked, StoreError};

use super::desk::Desk;
use super::leases::Standing;

impl Desk {
    /// Takes a lease back. Its renewals are refused from now on; it is free when its holder releases it, or when its session
    /// has been silent for its whole TTL. Says whether it was that lease that was held.
    pub(crate) async fn revoke(
        &self,
        resource: &ResourceId,
        standing: &Standing,
    ) -> Result<Revoked, StoreError> {
        let term = Term { resource: resource.clone(), token: standing.token };
        self.prove_one(resource, standing).await?;
        let revoked = self.call(self.store.revoke(&self.pool, &term)).await?;
        if revoked == Revoked::Marked && !standing.is_revoked() {
            let mut row = self.rows.row(&self.me, &self.name, Event::Revoked);
            row.resource = Some(term.resource);
            row.token = Some(term.token);
            row.reason = Some(Reason::Revoked);
            row.other = Some(standing.session.clone());
            row.detail = standing.holder.as_ref().and_then(super::Holder::detail);
            self.rows.write(&self.pool, row);
        }
        Ok(revoked)
    }
}
