//! Known mistakes that can be put back, so that the simulation can show that it would find them.
//!
//! Without the feature `mistakes` every question here is answered "no" when the crate is compiled.

/// A mistake of the kind that designs like this one have been built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// Trust runs from the answer, not from before the call was sent.
    TrustFromTheAnswer,
    /// Trust runs for the whole TTL: nothing is taken off for clocks that run at different rates.
    NoMargin,
    /// Trust that has lapsed is taken up again when a confirmation arrives, and reasserted.
    LapsedTrustRevives,
    /// Silence counts from before the read that showed the beat.
    SilenceFromBeforeTheRead,
    /// A term is used again after its release was sent, because the store still shows it as ours.
    TermUsedAfterItsRelease,
    /// A term goes back before its work has stopped.
    ReleasedBeforeTheWorkStopped,
    /// Whoever watches over children is never told when trust ends.
    ChildrenOutliveTrust,
    /// Heartbeats extend trust in terms that were revoked.
    RevokedTermsAreExtended,
    /// A revoked term is freed as soon as others hear of it.
    RevokedFreedAtOnce,
    /// A frozen store is thawed at once.
    ThawedAtOnce,
    /// The store: a beat revives a session that was ended.
    BeatsRevive,
    /// The store: a release frees the resource whatever its token.
    ReleaseWithoutToken,
    /// The store: a verdict does not compare the beat.
    VerdictWithoutCompare,
    /// The store: a lease whose holder's session is absent is free.
    AbsentMeansFree,
    /// The store: what was forgotten is not noticed.
    NoEra,
    /// The store: after it forgot, tokens go on where it remembers.
    TokensGoOn,
}

#[cfg(feature = "mistakes")]
mod present {
    use std::cell::Cell;

    use super::Mistake;

    impl Mistake {
        /// Every one of them.
        pub const ALL: [Self; 16] = [
            Self::TrustFromTheAnswer,
            Self::NoMargin,
            Self::LapsedTrustRevives,
            Self::SilenceFromBeforeTheRead,
            Self::TermUsedAfterItsRelease,
            Self::ReleasedBeforeTheWorkStopped,
            Self::ChildrenOutliveTrust,
            Self::RevokedTermsAreExtended,
            Self::RevokedFreedAtOnce,
            Self::ThawedAtOnce,
            Self::BeatsRevive,
            Self::ReleaseWithoutToken,
            Self::VerdictWithoutCompare,
            Self::AbsentMeansFree,
            Self::NoEra,
            Self::TokensGoOn,
        ];
    }

    thread_local! {
        static PRESENT: Cell<Option<Mistake>> = const { Cell::new(None) };
    }

    /// Puts one mistake back into everything that runs on this thread, or none.
    pub fn put_back(mistake: Option<Mistake>) {
        PRESENT.set(mistake);
    }

    pub(crate) fn made(mistake: Mistake) -> bool {
        PRESENT.get() == Some(mistake)
    }
}

#[cfg(feature = "mistakes")]
pub(crate) use present::made;
#[cfg(feature = "mistakes")]
pub use present::put_back;

#[cfg(not(feature = "mistakes"))]
pub(crate) const fn made(_: Mistake) -> bool {
    false
}
