//! What members with a key say about others, compared with what this replica has heard itself.
//!
//! Invariant: the store is asked to end or free something only with the beat, the holder and the era that were heard here
//! for a whole TTL. What the caller named decides nothing, so that it can neither end anybody too early nor freeze the
//! store.

use leasehold::MemberId;
use leasehold::lease::{BeatNumber, Nonce, Term};
use leasehold::store::{EndSilent, Freed, StoreError};

use super::Holders;
use super::desk::Desk;
use super::listen::TTL_USUAL;

impl Desk {
    /// Ends a session if it has been silent here, too.
    pub(crate) async fn end_silent(
        &self,
        session: &MemberId,
        heard: BeatNumber,
    ) -> Result<EndSilent, StoreError> {
        let era = {
            let known = self.lately().await?;
            let Some(era) = known.view.era() else { return Ok(EndSilent::Absent) };
            if era.frozen {
                return Ok(EndSilent::Frozen(era.nonce));
            }
            let Some(found) = known.view.sessions().get(session) else { return Ok(EndSilent::Absent) };
            if found.ended {
                return Ok(EndSilent::Ended);
            }
            let silent = self.silent(&known, self.clock.now());
            if !silent.iter().any(|(id, beat)| id == session && *beat == heard) {
                return Ok(EndSilent::Alive(found.beat));
            }
            era.nonce
        };
        self.call(self.store.end_silent(session, heard, era)).await
    }

    /// Frees a lease if its holder has been absent here, too.
    pub(crate) async fn free_orphan(&self, holder: &MemberId, term: &Term) -> Result<Freed, StoreError> {
        let era = {
            let known = self.lately().await?;
            let Some(era) = known.view.era() else { return Ok(Freed::Changed) };
            if era.frozen {
                return Ok(Freed::Frozen(era.nonce));
            }
            let orphans = known.listener.orphans(self.clock.now());
            if !orphans.iter().any(|(of, orphan)| of == holder && orphan == term) {
                return Ok(Freed::Changed);
            }
            era.nonce
        };
        self.call(self.store.free_orphan(&self.pool, holder, term, era)).await
    }

    /// Frees a revoked term if it has been heard as one here, too.
    pub(crate) async fn free_revoked(&self, term: &Term) -> Result<Freed, StoreError> {
        let era = {
            let known = self.lately().await?;
            let Some(era) = known.view.era() else { return Ok(Freed::Changed) };
            if era.frozen {
                return Ok(Freed::Frozen(era.nonce));
            }
            if !self.revoked(&known, self.clock.now()).contains(term) {
                return Ok(Freed::Changed);
            }
            era.nonce
        };
        self.call(self.store.free_revoked(&self.pool, term, era)).await
    }
}

impl Holders {
    /// Whether the store has been heard frozen under this nonce for as long as this replica itself waits.
    pub(crate) async fn heard_frozen(&self, nonce: Nonce) -> Result<bool, StoreError> {
        for desk in self.desks() {
            let known = desk.lately().await?;
            if known.listener.thawable(desk.clock.now(), TTL_USUAL) == Some(nonce) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
