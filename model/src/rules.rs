//! The rules of the protocol, each of which can be left out to see what it is for.

/// One switch for each rule. [`Rules::as_designed`] has all of them on; a test turns one off and asks the
/// checker for the trace that breaks what is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// A holder's trust counts from before the confirmed call was sent. Off: from its answer.
    pub trust_from_before_sending: bool,
    /// Trust is the TTL less the margin. Off: the whole TTL.
    pub trust_less_margin: bool,
    /// A call that is sent again draws a new number. Off: a heartbeat is repeated with the number it had, and
    /// counted from the repetition.
    pub repeats_draw_new_numbers: bool,
    /// The holder numbers its beats. Off: the store adds one to what it has.
    pub holders_number_beats: bool,
    /// A grant raises the beat, and is confirmed by it. Off: it does neither.
    pub grants_raise_beat: bool,
    /// A grant needs a number above the stored beat. Off: an acquire that was overtaken is granted all the same,
    /// and raises nothing.
    pub grants_need_new_numbers: bool,
    /// Once a release was sent, its term is dead to the holder. Off: a term shown again is used again.
    pub release_is_final: bool,

    /// Silence counts from after the answer that first showed the beat. Off: from before the read was sent.
    pub silence_from_after_answer: bool,
    /// Silence counts only across reads that are not far apart. Off: also through deafness.
    pub deaf_listeners_start_again: bool,
    /// A listener forgets what it heard when it meets a new era. Off: it goes on counting.
    pub silence_restarts_with_era: bool,
    /// Listeners decide who is silent. Off: the store does, by its own clock.
    pub listeners_decide: bool,

    /// A verdict compares the beat. Off: it ends whoever is there.
    pub verdict_compares_beat: bool,
    /// A beat never revives a tombstone. Off: it does.
    pub tombstones_are_final: bool,
    /// A tombstone is collected only when no call of its session is on its way. Off: at any time.
    pub tombstones_outlive_calls: bool,
    /// Only a tombstone frees a lease. Off: an absent session does too.
    pub only_tombstones_free: bool,
    /// A release compares the token. Off: only the holder.
    pub release_compares_token: bool,

    /// Calls compare the era, and whoever finds that the store forgot freezes it. Off: there are no eras.
    pub era: bool,
    /// A stored beat below what was confirmed shows that the store forgot. Off: it is not looked at.
    pub confirmed_is_compared: bool,
    /// Only unbroken trust is reasserted. Off: whatever a member remembers.
    pub reassert_needs_trust: bool,
    /// Reasserting raises the beat. Off: the beat stays as the store remembers it.
    pub reassert_raises_beat: bool,
    /// A thaw waits for a whole TTL of hearing its nonce. Off: it comes at once.
    pub thaw_waits_a_ttl: bool,
    /// After a thaw, tokens continue above all that can have been given out. Off: above what is stored.
    pub token_base_after_thaw: bool,
}

impl Rules {
    /// The protocol as it is designed.
    #[must_use]
    pub const fn as_designed() -> Self {
        Self {
            trust_from_before_sending: true,
            trust_less_margin: true,
            repeats_draw_new_numbers: true,
            holders_number_beats: true,
            grants_raise_beat: true,
            grants_need_new_numbers: true,
            release_is_final: true,
            silence_from_after_answer: true,
            deaf_listeners_start_again: true,
            silence_restarts_with_era: true,
            listeners_decide: true,
            verdict_compares_beat: true,
            tombstones_are_final: true,
            tombstones_outlive_calls: true,
            only_tombstones_free: true,
            release_compares_token: true,
            era: true,
            confirmed_is_compared: true,
            reassert_needs_trust: true,
            reassert_raises_beat: true,
            thaw_waits_a_ttl: true,
            token_base_after_thaw: true,
        }
    }

    /// The same, but listeners count through their own deafness and a grant may come late. All that can happen
    /// as designed can happen here, and more, so what holds here holds there; and there is one clock less.
    #[must_use]
    pub const fn with_less_care() -> Self {
        Self { deaf_listeners_start_again: false, grants_need_new_numbers: false, ..Self::as_designed() }
    }
}
