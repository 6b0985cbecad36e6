//! The suite that every store must pass.
//!
//! A store's own test file brings a [`Harness`] and names it once:
//!
//! ```text
//! leasehold::conformance!(MyHarness);
//! ```
//!
//! Every case then is a test of its own, named by the sentence that it proves. [`machine`] runs random sequences
//! of calls against a small model of the contract. Nothing is skipped silently: what a store cannot do by its
//! nature, such as keeping anything across a restart, it says in its harness, and the case says so aloud.

pub mod claims;
pub mod eras;
pub mod hints;
pub mod leases;
pub mod machine;
pub mod member;
pub mod races;
pub mod registry;
pub mod sessions;
pub mod thaws;
pub mod tokens;
pub mod views;

use std::future::Future;
use std::sync::Arc;

use super::Store;
use crate::lease::MemberId;

pub use member::{Member, pool, resource, term, wanted};

/// How the suite gets hold of a store and puts it through what stores go through.
///
/// Each case has a harness of its own, so cases may run at the same time.
pub trait Harness: Send + Sync + Sized + 'static {
    /// Begins with an empty store whose first era is live.
    fn fresh() -> impl Future<Output = Self> + Send;

    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Another handle on the same store, as another process would open it.
    fn second_handle(&self) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Stops the store and starts it again with what it had confirmed. `false` if it keeps nothing by its nature.
    fn restart(&mut self) -> impl Future<Output = bool> + Send;

    /// Remembers everything the store knows now.
    fn snapshot(&mut self) -> impl Future<Output = ()> + Send;

    /// Puts the store back to the last snapshot, as a failover or a restored backup does.
    fn roll_back(&mut self) -> impl Future<Output = ()> + Send;

    /// Whether marks and declared resources are kept apart from what is rolled back, in an era of their own.
    fn registry_is_apart(&self) -> bool {
        false
    }

    /// Makes the store lose one session's record without a trace.
    fn lose_session(&self, session: &MemberId) -> impl Future<Output = ()> + Send;
}

/// Makes every case of the suite a test for the given [`Harness`].
#[macro_export]
macro_rules! conformance {
    ($harness:ty) => {
        $crate::conformance_cases! { $harness =>
            sessions {
                opening_a_session_answers_the_era_and_shows_it_to_listeners
                opening_a_living_session_again_changes_nothing
                a_beat_raises_the_number_that_listeners_hear
                a_beat_at_or_below_the_stored_number_changes_nothing
                a_beat_never_creates_a_session
                a_beat_never_revives_an_ended_session
                closing_is_final_and_can_be_repeated
                closing_an_absent_session_changes_nothing
                a_session_is_ended_only_on_the_beat_that_was_heard
                ending_an_absent_session_is_not_an_end
                every_call_of_an_ended_session_is_gone
                describing_replaces_the_profile_and_raises_the_beat
                grants_and_releases_raise_the_beat
                collecting_clears_leases_and_forgets_only_tombstones
                pools_do_not_see_each_other
            }
            leases {
                a_free_resource_is_granted_with_the_ttl_of_its_session
                a_held_resource_is_refused_to_everybody_and_to_its_holder
                a_release_frees_exactly_the_named_term
                a_late_release_of_an_old_term_frees_nothing
                an_offer_is_kept_until_the_next_grant
                what_a_closed_session_held_is_free
                what_a_silent_session_held_is_free
                an_absent_holder_keeps_its_lease_until_it_is_freed_as_an_orphan
                only_an_orphan_is_freed_as_an_orphan
                a_revoked_term_is_told_with_every_beat_and_can_be_freed
                a_revocation_ends_with_its_term
                only_what_is_held_can_be_revoked_and_only_what_is_revoked_freed
                a_grant_forgets_a_revocation
                outcomes_answer_items_in_order
                in_a_batch_each_is_taken_for_its_own_reason
                a_batch_at_its_limit_is_granted_whole
            }
            claims {
                a_free_resource_is_claimed_with_a_session_of_its_own
                a_claimed_session_goes_on_like_any_other
                what_is_held_is_refused_and_opens_no_session
                a_claim_that_is_repeated_changes_nothing
                what_an_ended_session_held_can_be_claimed
                whoever_retires_leaves_what_it_claimed_to_the_next
                a_session_that_retires_is_alive_to_nobody
                a_late_word_to_retire_frees_nothing_of_the_next
                what_was_claimed_and_retired_is_known_after_a_restart
                an_absent_holder_keeps_what_is_claimed
                an_ended_session_claims_nothing
                a_session_that_is_there_keeps_what_it_has_when_it_claims_in_vain
                a_frozen_store_grants_no_claim
                tokens_that_are_used_up_leave_no_session
                a_claim_gives_a_hint_and_one_in_vain_none
                of_many_claimants_one_wins
            }
            tokens {
                a_released_resource_gets_the_next_token
                a_token_survives_the_end_of_its_holder
                a_token_survives_the_tombstone_being_forgotten
                a_token_survives_deletion_and_declaration_of_the_resource
                a_token_survives_a_restart
                a_token_is_above_the_floor
                tokens_stay_below_their_bound
            }
            eras {
                who_has_not_reasserted_is_refused_under_the_new_nonce_too
                an_era_the_store_never_had_freezes_it
                a_listener_from_an_unknown_era_freezes_it_too
                a_confirmed_beat_that_is_missing_freezes_the_store
                a_store_that_was_rolled_back_is_frozen_for_writers
                a_store_that_was_rolled_back_is_frozen_for_readers
                a_store_that_was_rolled_back_again_is_frozen_again
                while_frozen_nothing_is_granted_or_ended
                a_call_of_an_old_era_is_answered_frozen_while_frozen
                a_holders_own_word_counts_while_frozen
                a_past_era_is_over
                a_newcomer_after_a_flush_gets_nothing
                the_longest_ttl_is_shown
                a_freeze_survives_a_restart
            }
            thaws {
                reasserting_brings_back_what_was_forgotten
                reasserting_again_changes_nothing
                a_term_is_lost_to_a_newer_one_or_to_another_holder
                a_term_that_the_store_knows_to_be_free_is_lost
                a_revocation_survives_a_reassertion
                reasserting_under_another_nonce_does_nothing
                a_tombstone_cannot_reassert
                thawing_ends_who_did_not_reassert
                who_reasserted_goes_on_after_the_thaw
                tokens_jump_above_everything_forgotten
                thawing_under_another_nonce_changes_nothing
            }
            views {
                a_cursor_gives_exactly_what_changed
                a_cursor_shows_ended_sessions_and_freed_leases
                the_incremental_view_equals_the_whole
                two_handles_read_the_same
            }
            registry {
                a_mark_is_set_changed_and_removed_by_its_version
                a_mark_with_another_version_is_a_conflict
                marks_are_found_by_cursor
                a_resource_is_declared_changed_and_removed_by_its_version
                a_declared_resource_keeps_its_labels_and_its_document
                declared_resources_are_found_by_cursor
                every_pool_with_a_session_a_lease_or_a_declaration_is_known
                a_listing_is_kept_while_a_living_session_publishes_it
                the_ledger_keeps_its_order_and_filters_and_limits
                rows_that_came_together_are_read_one_by_one
                a_heartbeat_takes_the_place_of_the_one_before
                the_registry_survives_a_restart
            }
            hints {
                a_change_gives_a_hint_on_the_same_handle
                a_change_gives_a_hint_on_another_handle
                a_mark_or_a_declaration_gives_a_hint
                a_freeze_and_a_thaw_give_a_hint
                what_changes_nothing_gives_no_hint
            }
            races {
                of_many_acquirers_one_wins
                every_resource_of_many_has_one_winner
                of_many_heirs_of_a_tombstone_one_wins
                tokens_rise_under_churn
                a_verdict_and_a_beat_agree
                of_many_writers_of_a_mark_one_wins
            }
        }

        #[test]
        fn random_sequences_of_calls_keep_the_contract() {
            $crate::store::conformance::machine::run::<$harness>();
        }
    };
}

/// The tests of [`conformance!`](crate::conformance!), spelled out.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($harness:ty => $($theme:ident { $($case:ident)* })*) => {
        $(mod $theme {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::store::conformance::$theme::$case::<$harness>().await;
                }
            )*
        })*
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_that_is_written_is_run() {
        let listed = include_str!("conformance.rs");
        let themes = [
            include_str!("conformance/claims.rs"),
            include_str!("conformance/eras.rs"),
            include_str!("conformance/hints.rs"),
            include_str!("conformance/leases.rs"),
            include_str!("conformance/races.rs"),
            include_str!("conformance/registry.rs"),
            include_str!("conformance/sessions.rs"),
            include_str!("conformance/thaws.rs"),
            include_str!("conformance/tokens.rs"),
            include_str!("conformance/views.rs"),
        ];
        let written = themes.iter().flat_map(|theme| theme.lines());
        let cases = written.filter_map(|line| {
            line.strip_prefix("pub async fn ")?.split_once("<H: Harness>").map(|(n, _)| n)
        });
        for case in cases {
            assert!(listed.lines().any(|line| line.trim() == case), "{case} is not listed in conformance!");
        }
    }
}
