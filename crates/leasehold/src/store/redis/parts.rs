//! Calls of which one script could take too long, in parts of which none does.
//!
//! Invariant: whoever looks between two parts finds nothing that the whole would not have allowed.

use super::args::{Args, millis, of_profile};
use super::reply::Fields;
use super::{ITEMS_MAX, MANY_MAX, RedisStore, call, scripts};
use crate::lease::{MemberId, Term};
use crate::store::{Answer, OpenSession, Pulse, Reasserted, StoreError};

impl RedisStore {
    /// Many terms are said part by part under one pulse. The session has reasserted with the last part: if the store is
    /// thawed before that, the session is over, and nothing of what it holds is trusted by anybody.
    pub(super) async fn reassert_in_parts(
        &self,
        session: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
        let said = async {
            let parts: Vec<&[Term]> =
                if terms.is_empty() { vec![terms] } else { terms.chunks(ITEMS_MAX).collect() };
            let mut outcomes = Vec::with_capacity(terms.len());
            for (number, part) in parts.iter().enumerate() {
                let last = if number + 1 == parts.len() { "1" } else { "0" };
                let args = Args::of([session.id.as_str(), session.pool.as_str()]).number(millis(session.ttl));
                let args = of_profile(args, &session.profile)?;
                let mut args = args.nonce(pulse.era).beat(pulse.number).text(last);
                for term in *part {
                    args = args.text(term.resource.as_str()).number(term.token.0);
                }
                let kept = |outcome: &mut Fields| {
                    Ok(if outcome.flag()? { Reasserted::Kept } else { Reasserted::Lost })
                };
                let reply = self.write(&scripts::REASSERT, args).await?;
                match reply.answer(|fields| fields.list(kept))? {
                    Answer::Done(part) => outcomes.extend(part),
                    other => return Ok(other),
                }
            }
            Ok(Answer::Done(outcomes))
        };
        call::within(MANY_MAX, &self.shared.address.place, said).await
    }

    /// The tombstone goes with the last part. What time did not suffice for is left to the next call.
    pub(super) async fn collect_in_parts(&self, session: &MemberId) -> Result<(), StoreError> {
        self.bounded(async {
            loop {
                let args = Args::of([session.as_str()]).number(ITEMS_MAX as u64);
                let reply = self.write(&scripts::COLLECT, args).await?;
                match reply.word.as_str() {
                    "more" => {}
                    "done" => return Ok(()),
                    _ => return Err(reply.strange()),
                }
            }
        })
        .await
    }
}
