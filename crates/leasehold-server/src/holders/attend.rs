//! Sessions of those who hold nothing themselves but are listened to: runners.
//!
//! A sign of life raises the beat above one that was read after the request had come, as a renewal does, so that any replica
//! can take it.

use std::time::Duration;

use leasehold::MemberId;
use leasehold::lease::BeatNumber;
use leasehold::store::{Answer, OpenSession, Profile, Pulse, StoreError};

use super::desk::Desk;

impl Desk {
    /// Opens a session that is silent when nothing was heard of it for this long.
    pub(crate) async fn enlist(
        &self,
        id: &MemberId,
        ttl: Duration,
        profile: Profile,
    ) -> Result<Answer<()>, StoreError> {
        let session = OpenSession { pool: self.pool.clone(), id: id.clone(), ttl, profile };
        Ok(match self.call(self.store.open(&session)).await? {
            Answer::Done(_) => Answer::Done(()),
            Answer::Gone => Answer::Gone,
            Answer::Frozen(nonce) => Answer::Frozen(nonce),
        })
    }

    /// A sign of life, with what the session says about itself from now on.
    pub(crate) async fn attend(&self, id: &MemberId, profile: &Profile) -> Result<Answer<()>, StoreError> {
        let (era, beat) = {
            let known = self.fresh().await?;
            let Some(era) = known.view.era() else { return Ok(Answer::Gone) };
            let Some(session) = known.view.sessions().get(id).filter(|session| !session.ended) else {
                return Ok(if era.frozen { Answer::Frozen(era.nonce) } else { Answer::Gone });
            };
            (era.nonce, session.beat)
        };
        let pulse = Pulse { era, number: BeatNumber(beat.0 + 1), confirmed: beat };
        self.call(self.store.describe(id, pulse, profile)).await
    }

    /// Ends a session at its own word.
    pub(crate) async fn dismiss(&self, id: &MemberId) -> Result<(), StoreError> {
        self.call(self.store.close(id)).await
    }
}
