//! A claim is opening a session and acquiring with it, unless somebody has the resource.

#[cfg(any(feature = "postgres", feature = "redis", feature = "etcd"))]
use super::{Acquired, Answer, Claimed, StoreError};
#[cfg(any(feature = "redis", feature = "etcd"))]
use super::{LeaseStore, OpenSession, Pulse, Wanted};
use crate::lease::BeatNumber;
#[cfg(any(feature = "postgres", feature = "redis", feature = "etcd"))]
use crate::lease::Nonce;

/// The beat of a session that has claimed: a claim is its first call.
pub(super) const BEAT: BeatNumber = BeatNumber(1);

/// What a claim is answered whose one resource was acquired, or not, in this era.
#[cfg(any(feature = "postgres", feature = "redis", feature = "etcd"))]
pub(super) fn answer(era: Nonce, acquired: Answer<Vec<Acquired>>) -> Result<Answer<Claimed>, StoreError> {
    Ok(match acquired {
        Answer::Done(mut outcomes) => match outcomes.pop() {
            Some(Acquired::Granted(term)) => Answer::Done(Claimed::Granted { term, era }),
            Some(Acquired::Held { by, token }) => Answer::Done(Claimed::Held { by, token }),
            None => return Err(StoreError::unavailable("a claim was not answered; try again")),
        },
        Answer::Gone => Answer::Gone,
        Answer::Frozen(nonce) => Answer::Frozen(nonce),
    })
}

/// What is found before anything is claimed.
#[cfg(any(feature = "redis", feature = "etcd"))]
#[derive(Debug)]
pub(super) struct Found {
    /// Whether the session is there already.
    pub(super) session: bool,
    /// Who has the resource.
    pub(super) held: Option<Claimed>,
}

/// Claims by several calls, for stores that cannot do it in one, from what `look` finds.
///
/// Invariant: between two calls there is at most a session that holds nothing. Whoever loses a race takes it away again;
/// if that fails too, listeners end it.
#[cfg(any(feature = "redis", feature = "etcd"))]
pub(super) async fn in_steps(
    store: &dyn LeaseStore,
    look: impl Future<Output = Result<Answer<Found>, StoreError>> + Send,
    open: &OpenSession,
    wanted: &Wanted,
) -> Result<Answer<Claimed>, StoreError> {
    let found = match look.await? {
        Answer::Done(Found { held: Some(held), .. }) => return Ok(Answer::Done(held)),
        Answer::Done(found) => found,
        Answer::Gone => return Ok(Answer::Gone),
        Answer::Frozen(nonce) => return Ok(Answer::Frozen(nonce)),
    };
    let era = match store.open(open).await? {
        Answer::Done(era) => era,
        Answer::Gone => return Ok(Answer::Gone),
        Answer::Frozen(nonce) => return Ok(Answer::Frozen(nonce)),
    };
    let pulse = Pulse { era, number: BEAT, confirmed: BeatNumber(0) };
    let acquired = store.acquire(&open.id, pulse, std::slice::from_ref(wanted)).await;
    let claimed = acquired.and_then(|acquired| answer(era, acquired));
    let granted = matches!(claimed, Ok(Answer::Done(Claimed::Granted { .. })));
    // One that was there before may hold other things.
    if !granted && !found.session {
        let taken_away = async {
            store.close(&open.id).await?;
            store.collect(&open.id).await
        };
        if let Err(error) = taken_away.await {
            tracing::debug!(%error, session = %open.id, "a session that claimed in vain is left to listeners");
        }
    }
    claimed
}
