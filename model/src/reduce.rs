//! What makes no difference is made equal, so that the checker has less to visit.
//!
//! Every reduction here replaces a state by one that can do exactly the same from now on, as far as the
//! properties can tell. Each has its reason beside it; none depends on what is being proved.

use crate::member::{Ears, Member};
use crate::memory::Memory;
use crate::protocol::Protocol;
use crate::state::State;
use crate::world::Forgetting;

impl Protocol {
    /// Makes equal what makes no difference.
    pub(crate) fn reduce(&self, state: &mut State) {
        // Whoever calls or reads first after a rollback freezes the store and does nothing else (a release
        // and a close do the same in a frozen store as in any other).
        self.desk(&mut state.store, &mut state.witness).look();
        let State { store, members, network, .. } = state;
        let mut memories = vec![&store.memory];
        memories.extend(store.snapshot.as_deref());
        for member in members.iter_mut() {
            self.reduce_member(member, &memories);
            self.reduce_ears(&mut member.ears, &memories);
        }
        network.forget_spent(&memories, &self.rules, |request| {
            members.iter().any(|member| member.awaits(request))
        });
    }

    fn reduce_member(&self, member: &mut Member, memories: &[&Memory]) {
        // An answer that comes when the trust it gives is over is like one that never came.
        if self.rules.trust_from_before_sending && self.rules.repeats_draw_new_numbers {
            let limit = Member::trust_max(&self.rules, &self.world);
            for slot in [&mut member.beating, &mut member.asking] {
                *slot = slot.filter(|waiting| waiting.age < limit);
            }
        }
        // Who has no term and asks for none gets trust only from a call that is yet to be sent, and more of it.
        if member.term.is_none() && member.asking.is_none() && self.rules.grants_raise_beat {
            member.trust = 0;
            member.trust_is_fresh = false;
        }
        // Whose session has ended and whose trust is over is told nothing else any more.
        let is_answered = [member.beating, member.asking].iter().flatten().any(|it| it.answer.is_some());
        if let Some(session) = member.session
            && self.rules.tombstones_are_final
            && self.rules.reassert_needs_trust
            && !self.world.collects
            && member.trust == 0
            && !is_answered
            && memories.iter().all(|memory| memory.sessions[usize::from(session)].standing.is_ended())
        {
            member.leave();
        }
        // What is remembered against a store that forgets is of no use where none does, or where each call
        // finds out by itself.
        if self.world.forgetting != Forgetting::Unseen && !self.world.collects && self.rules.era {
            member.confirmed = 0;
            if self.rules.token_base_after_thaw {
                member.floor = 0;
            }
        }
    }

    fn reduce_ears(&self, ears: &mut Ears, memories: &[&Memory]) {
        // A beat that the store is past is never found again: the verdict on it fails and the next read
        // replaces it.
        if self.rules.verdict_compares_beat && self.rules.holders_number_beats {
            for (id, ear) in ears.beats.iter_mut().enumerate() {
                *ear = ear.filter(|heard| {
                    memories.iter().any(|memory| {
                        let record = &memory.sessions[id];
                        !record.standing.is_ended() && record.beat <= heard.value
                    })
                });
            }
        }
        // The next read in another era begins anew, and until then nothing that is said counts.
        let is_past = |era| memories.iter().all(|memory| memory.has_had(era) && memory.nonce != era);
        let is_empty =
            ears.beats.iter().all(Option::is_none) && ears.orphan.is_none() && ears.frozen.is_none();
        if self.rules.era && self.rules.silence_restarts_with_era && is_past(ears.era) || is_empty {
            *ears = Ears { reading: ears.reading.take(), ..Ears::default() };
        }
    }
}
