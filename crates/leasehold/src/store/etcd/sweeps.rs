//! Calls that touch more than one transaction can hold: they go forward in bounded transactions, each of which is right
//! by itself, and whoever repeats them goes on where they stopped.

use std::future::poll_fn;
use std::task::Poll;

use super::draft::Stop;
use super::era::Step;
use super::keys::Key;
use super::record::{LeaseValue, SessionValue, decode};
use super::transact::Engine;
use super::{leases, sessions, within};
use crate::clock;
use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term};
use crate::store::{Answer, Cursor, OpenSession, Pulse, Reasserted, StoreError, Thawed};

/// How many records one transaction changes: leases and the sessions of those who hold them fit into it.
pub(super) const CHUNK: usize = 60;

impl Engine {
    /// Carries out a session's call on some items: in one transaction if they fit, otherwise in several at once.
    ///
    /// Invariant: the beat is raised with the items or after all of them. A cluster that forgets any has forgotten the beat too.
    pub(super) async fn in_parts<I: Sync, T: Send>(
        &self,
        known: &[Key],
        id: &MemberId,
        pulse: Pulse,
        items: &[I],
        decide: impl Fn(&mut Step<'_>, Pulse, &[I]) -> Result<Answer<Vec<T>>, Stop> + Send + Sync,
    ) -> Result<Answer<Vec<T>>, StoreError> {
        if items.len() <= CHUNK {
            return self.transact(known, |step| decide(step, pulse, items)).await;
        }
        let (decide, unraised) = (&decide, Pulse { number: BeatNumber(0), ..pulse });
        let part = |part| self.transact(known, move |step| decide(step, unraised, part));
        let mut outcomes = Vec::with_capacity(items.len());
        for answer in all(items.chunks(CHUNK).map(part)).await {
            match answer? {
                Answer::Done(mut some) => outcomes.append(&mut some),
                refused => return Ok(refused),
            }
        }
        Ok(match self.transact(known, |step| sessions::rise(step, id, pulse)).await? {
            Answer::Done(()) => Answer::Done(outcomes),
            Answer::Gone => Answer::Gone,
            Answer::Frozen(nonce) => Answer::Frozen(nonce),
        })
    }

    /// Says again what a session holds.
    pub(super) async fn reassert(
        &self,
        open: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
        let mut outcomes = Vec::with_capacity(terms.len());
        let mut rest = terms;
        loop {
            let (chunk, left) = rest.split_at(rest.len().min(CHUNK));
            let last = left.is_empty();
            let said = self.transact(&[], |step| leases::reassert(step, open, pulse, chunk, last)).await?;
            match said {
                Answer::Done(mut some) => outcomes.append(&mut some),
                refused => return Ok(refused),
            }
            if last {
                return Ok(Answer::Done(outcomes));
            }
            rest = left;
        }
    }

    /// Ends a freeze. Whoever did not reassert is ended first, while the store is still frozen: nobody can join it then, and
    /// who reasserts late changes a record that is compared.
    pub(super) async fn thaw(&self, nonce: Nonce) -> Result<Thawed, StoreError> {
        let prefix = self.keys.all_sessions();
        let seen = self.scan(&prefix, Cursor::START, |_, kv| {
            let session: SessionValue = decode(&kv.key, &kv.value)?;
            let is_silent = !session.ended && session.reasserted != Some(nonce);
            Ok(is_silent.then(|| kv.key.clone()))
        });
        let seen = seen.await?;
        if !seen.era.frozen || seen.era.nonce != nonce {
            return Ok(Thawed::Changed);
        }
        let silent: Vec<Key> = seen.items.into_iter().flatten().collect();
        for keys in silent.chunks(CHUNK) {
            if !self.transact(&[], |step| end_unheard(step, nonce, keys)).await? {
                return Ok(Thawed::Changed);
            }
        }
        let base = clock::token_base(clock::unix_nanos());
        let thawed = self.transact(&[], |step| {
            if !step.era.frozen || step.era.nonce != nonce {
                return Ok(Thawed::Changed);
            }
            step.thaw(base);
            Ok(Thawed::Thawed)
        });
        thawed.await
    }

    /// Clears what an ended session held and forgets it. Nothing can be given to it any more, so what one reading after its
    /// end shows is everything: `held`, if the caller has read the pool, or else the whole pool is read here.
    pub(super) async fn collect(&self, id: &MemberId, held: Option<&[ResourceId]>) -> Result<(), StoreError> {
        let ended = self.transact(&[], |step| {
            let Some(pool) = step.pool_of(id)? else { return Ok(None) };
            let ended = step.session(&pool, id)?.is_some_and(|session| session.ended);
            Ok((ended && !step.era.frozen).then_some(pool))
        });
        let Some(pool) = within(ended).await? else { return Ok(()) };
        let held = match held {
            Some(held) => held.iter().map(|resource| self.keys.lease(&pool, resource)).collect(),
            None => self.leases_of(&pool, id).await?,
        };
        for keys in held.chunks(CHUNK) {
            if !within(self.transact(&[], |step| clear(step, &pool, id, keys))).await? {
                return Ok(());
            }
        }
        within(self.transact(&[], |step| {
            if !step.era.frozen && step.session(&pool, id)?.is_some_and(|session| session.ended) {
                step.draft.delete(step.keys.session(&pool, id));
                step.draft.delete(step.keys.pool_of(id));
            }
            Ok(())
        }))
        .await
    }

    async fn leases_of(&self, pool: &Pool, holder: &MemberId) -> Result<Vec<Key>, StoreError> {
        let prefix = self.keys.leases(pool);
        let seen = self.scan(&prefix, Cursor::START, |_, kv| {
            let lease: LeaseValue = decode(&kv.key, &kv.value)?;
            Ok((lease.holder.as_ref() == Some(holder)).then(|| kv.key.clone()))
        });
        Ok(seen.await?.items.into_iter().flatten().collect())
    }
}

/// Waits for all of them at once.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        for (future, output) in waiting.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(context) {
                *output = Some(ready);
            }
        }
        let ended = waiting.iter().all(|(_, output)| output.is_some());
        if ended { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, output)| output).collect()
}

/// Ends sessions that did not reassert; false if the store is no longer frozen under `nonce`.
fn end_unheard(step: &mut Step<'_>, nonce: Nonce, keys: &[Key]) -> Result<bool, Stop> {
    if !step.era.frozen || step.era.nonce != nonce {
        return Ok(false);
    }
    step.draft.need(keys.iter().cloned())?;
    for key in keys {
        let session: Option<SessionValue> = step.draft.read(key)?;
        if let Some(session) = session.filter(|session| !session.ended && session.reasserted != Some(nonce)) {
            step.draft.put(key.clone(), &SessionValue { ended: true, quiet: false, ..session })?;
        }
    }
    Ok(true)
}

/// Clears leases of an ended session; false if the store was frozen, which keeps tombstones.
fn clear(step: &mut Step<'_>, pool: &Pool, holder: &MemberId, keys: &[Key]) -> Result<bool, Stop> {
    step.draft.need(keys.iter().cloned().chain([step.keys.session(pool, holder)]))?;
    if step.era.frozen || !step.session(pool, holder)?.is_some_and(|session| session.ended) {
        return Ok(false);
    }
    for key in keys {
        if let Some(lease) = step.lease(key)?.filter(|lease| lease.holder.as_ref() == Some(holder)) {
            let offer = lease.offer.clone();
            step.draft.put(key.clone(), &lease.free(offer))?;
        }
    }
    Ok(true)
}
