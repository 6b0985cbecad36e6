//! The store on a Redis server, alone or behind sentinels.
//!
//! Every call is one script, which the server runs alone and whole. It judges the era first: it compares the record of
//! the server's identity with what the server really is (its replication id), and the server's position with the highest
//! that this handle has seen. What does not fit freezes the store in the same step. A flush, a restart, a promoted
//! replica and a restored dump all show there.
//!
//! # What is where
//!
//! ```text
//! leasehold:era                        identity, nonce, frozen, token base, longest TTL, position
//! leasehold:past, leasehold:pools      nonces of eras that are over; names of pools
//! leasehold:session:<id>               pool, TTL, beat, tombstone, profile
//! leasehold:<pool>:rows:leases         of each lease in one text: token (kept for ever), holder, TTL, revocation, offer
//! leasehold:<pool>:seq:<kind>          what changed, by position: sessions, leases, marks, declared
//! leasehold:<pool>:held:<id>           what a session holds; revoked:<id>: of that, what was revoked
//! leasehold:<pool>:ledger:…            lines, bounded
//! ```
//!
//! Leases that were given for the first time in one call are one entry of `seq` and of `held`: a group. What the mirrored pool and a
//! store of version 1 have instead of rows is in `lua/record.lua`, and how the one becomes the other in `migrate.rs`.
//!
//! Nothing here expires by itself, and the server's clock decides nothing among members. One pool, `endpoints`, is
//! shown to clients that know nothing of Leasehold, by keys that do expire: see `lua/lease.lua` and `foreign.rs`.

mod address;
mod args;
mod call;
mod checkup;
mod connect;
mod failure;
mod foreign;
mod hints;
mod line;
mod migrate;
mod mirror;
mod pages;
mod parts;
mod registry;
mod reply;
mod scripts;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use self::address::Address;
use self::args::{Args, millis, of_profile, of_session, of_term};
use self::call::{Kind, Shared};
pub use self::line::{EMISSIONS_MAX, Emission, Emitted, Outlet, RedisLine};
use self::reply::{Fields, Reply};
use super::{
    Acquired, Answer, Begin, Capabilities, Changed, Checkup, Claimed, Cursor, EndSilent, Freed, Grade, Guard,
    Hints, LeaseRecord, LeaseStore, Migrated, OpenSession, Others, Profile, Pulse, Reasserted, Release,
    Released, Revoked, ServerUrl, SessionRecord, StoreError, Thawed, Wanted, claim,
};
use crate::clock;
use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, TOKEN_MAX, Term};
use crate::store::claim::Found;

/// The longest that one call takes, whatever the server does.
const CALL_MAX: Duration = Duration::from_secs(3);
/// The longest that a call of many parts takes: each part has the time of a call.
const MANY_MAX: Duration = Duration::from_secs(30);
/// The most items one call may carry: the server serves nobody else while a script runs.
const ITEMS_MAX: usize = 128;

/// A store on a Redis server.
#[derive(Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
    grade: Grade,
    /// Dropped with the store, which ends its hints.
    alive: watch::Sender<()>,
}

impl RedisStore {
    /// Opens the store at `url`. Nothing is written.
    ///
    /// # Errors
    /// *Misconfigured* where waiting does not help: the password is wrong, the server is a replica or a cluster, is too
    /// old, or does not run scripts. *Unavailable* where it does: nothing answers, or the server is loading.
    pub async fn open(url: &ServerUrl) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::new(Address::new(url)?));
        shared.open().await?;
        let grade = checkup::look_over(&shared).await?.grade;
        Ok(Self { shared, grade, alive: watch::Sender::new(()) })
    }

    /// Writes the first era of the store at `url`, if it has none. One that is there stays as it is, and members of before
    /// go on with it.
    ///
    /// # Errors
    /// The server cannot be reached or used, or was written by a newer version.
    pub async fn prepare(url: &ServerUrl, begin: Begin) -> Result<Migrated, StoreError> {
        Ok(migrate::prepare(url, begin).await?.migrated)
    }

    /// Writes the first era of the store at `url`, or brings what is there to the newest version. Members of before that are still
    /// there can do nothing from then on.
    ///
    /// # Errors
    /// The server cannot be reached or used, or was written by a newer version. What was not finished is by the next call.
    pub async fn migrate(url: &ServerUrl, begin: Begin) -> Result<Migrated, StoreError> {
        migrate::prepare(url, begin).await?.upgrade().await
    }

    async fn write(&self, script: &scripts::Script, args: Args) -> Result<Reply, StoreError> {
        self.shared.run(Kind::Write, script, args).await
    }

    async fn read(&self, script: &scripts::Script, args: Args) -> Result<Reply, StoreError> {
        self.shared.run(Kind::Read, script, args).await
    }

    async fn bounded<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        call::bounded(&self.shared.address.place, call).await
    }

    /// What a session that would claim something finds.
    async fn find(&self, open: &OpenSession, wanted: &Wanted) -> Result<Answer<Found>, StoreError> {
        let args = Args::of([open.id.as_str(), open.pool.as_str(), wanted.resource.as_str()]);
        self.read(&scripts::HOLDER, args).await?.answer(|fields| {
            let (session, by) = (fields.flag()?, fields.optional_id()?);
            let token = fields.token()?;
            Ok(Found { session, held: by.map(|by| Claimed::Held { by, token }) })
        })
    }

    async fn free(&self, pool: &Pool, term: &Term, era: Nonce, holder: &str) -> Result<Freed, StoreError> {
        let args = of_term(pool, term).nonce(era).text(holder);
        let reply = self.write(&scripts::FREE, args).await?;
        match reply.word.as_str() {
            "freed" => Ok(Freed::Freed),
            "changed" => Ok(Freed::Changed),
            "frozen" => Ok(Freed::Frozen(reply.era.nonce)),
            _ => Err(reply.strange()),
        }
    }
}

fn within_limit(items: usize) -> Result<(), StoreError> {
    if items <= ITEMS_MAX {
        return Ok(());
    }
    Err(StoreError::misconfigured(format!("a call carries {items} items; at most {ITEMS_MAX} are allowed")))
}

#[async_trait]
impl LeaseStore for RedisStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { batch_max: ITEMS_MAX, pushes_changes: true, grade: self.grade }
    }

    fn show_as(&self, _: &Pool, _: &ResourceId, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn guard(&self, _: &OpenSession, _: &Term) -> Option<Guard> {
        None
    }

    async fn checkup(&self) -> Result<Checkup, StoreError> {
        checkup::look_over(&self.shared).await
    }

    async fn open(&self, session: &OpenSession) -> Result<Answer<Nonce>, StoreError> {
        let args = Args::of([session.id.as_str(), session.pool.as_str()]).number(millis(session.ttl));
        let reply = self.write(&scripts::OPEN, of_profile(args, &session.profile)?).await?;
        let nonce = reply.era.nonce;
        reply.answer(|_| Ok(nonce))
    }

    /// Where the pool is mirrored, the mirror is part of the beat: what is not known to be mirrored is not confirmed, as
    /// a foreigner could take it while it is trusted.
    async fn beat(&self, session: &MemberId, pulse: Pulse) -> Result<Answer<Vec<Term>>, StoreError> {
        self.bounded(async {
            let reply = self.write(&scripts::BEAT, of_session(session, pulse)).await?;
            let answer = reply.answer(|fields| Ok((fields.flag()?, fields.terms()?)))?;
            let (mirrored, mut revoked) = match answer {
                Answer::Done(done) => done,
                Answer::Gone => return Ok(Answer::Gone),
                Answer::Frozen(nonce) => return Ok(Answer::Frozen(nonce)),
            };
            if mirrored {
                match self.refresh(session).await? {
                    Answer::Done(lost) => revoked.extend(lost),
                    other => return Ok(other),
                }
                revoked.sort_unstable();
                revoked.dedup();
            }
            Ok(Answer::Done(revoked))
        })
        .await
    }

    async fn describe(
        &self,
        session: &MemberId,
        pulse: Pulse,
        profile: &Profile,
    ) -> Result<Answer<()>, StoreError> {
        let args = of_profile(of_session(session, pulse), profile)?;
        self.write(&scripts::DESCRIBE, args).await?.answer(|_| Ok(()))
    }

    async fn close(&self, session: &MemberId) -> Result<(), StoreError> {
        let reply = self.write(&scripts::CLOSE, Args::of([session.as_str()])).await?;
        let Answer::Done(mirrored) = reply.answer(Fields::flag)? else { return Ok(()) };
        if mirrored {
            // The session is over whatever becomes of its mirror, which runs out by itself.
            if let Err(error) = self.bounded(self.refresh(session)).await {
                tracing::debug!(%error, "the mirror of a closed session was not taken away");
            }
        }
        Ok(())
    }

    async fn end_silent(
        &self,
        session: &MemberId,
        heard: BeatNumber,
        era: Nonce,
    ) -> Result<EndSilent, StoreError> {
        let args = Args::of([session.as_str()]).beat(heard).nonce(era);
        let mut reply = self.write(&scripts::END_SILENT, args).await?;
        match reply.word.as_str() {
            "ended" => Ok(EndSilent::Ended),
            "alive" => Ok(EndSilent::Alive(reply.rest.beat()?)),
            "absent" => Ok(EndSilent::Absent),
            "frozen" => Ok(EndSilent::Frozen(reply.era.nonce)),
            _ => Err(reply.strange()),
        }
    }

    async fn acquire(
        &self,
        session: &MemberId,
        pulse: Pulse,
        wanted: &[Wanted],
    ) -> Result<Answer<Vec<Acquired>>, StoreError> {
        within_limit(wanted.len())?;
        let foreign: Vec<Option<Acquired>> =
            wanted.iter().map(|wanted| self.shared.foreign.holds(&wanted.resource)).collect();
        let asked =
            || wanted.iter().zip(&foreign).filter(|(_, held)| held.is_none()).map(|(wanted, _)| wanted);
        let mut args = of_session(session, pulse).number(TOKEN_MAX).number(asked().count() as u64);
        for wanted in asked() {
            args = args.text(wanted.resource.as_str());
        }
        for (place, wanted) in (1..).zip(asked()).filter(|(_, wanted)| wanted.floor.0 > 0) {
            args = args.number(place).number(wanted.floor.0.min(TOKEN_MAX));
        }
        let sent = clock::now();
        let reply = self.write(&scripts::ACQUIRE, args).await?;
        let mut asked = asked();
        let answer = reply.answer(|fields| {
            fields.list(|outcome| match asked.next() {
                Some(wanted) => self.outcome(wanted, outcome, sent),
                None => Err(failure::unreadable(&self.shared.address.place, "an answer")),
            })
        })?;
        Ok(match answer {
            Answer::Done(outcomes) => {
                let mut outcomes = outcomes.into_iter();
                Answer::Done(
                    foreign.into_iter().filter_map(|held| held.or_else(|| outcomes.next())).collect(),
                )
            }
            other => other,
        })
    }

    async fn claim(&self, session: &OpenSession, wanted: &Wanted) -> Result<Answer<Claimed>, StoreError> {
        claim::in_steps(self, self.find(session, wanted), session, wanted).await
    }

    async fn release(
        &self,
        session: &MemberId,
        pulse: Pulse,
        terms: &[Release],
    ) -> Result<Answer<Vec<Released>>, StoreError> {
        within_limit(terms.len())?;
        let mut args = of_session(session, pulse);
        for release in terms {
            let (to, load) = match &release.offer {
                Some(offer) => (offer.to.as_str(), offer.load.to_string()),
                None => ("", String::new()),
            };
            let Term { resource, token } = &release.term;
            args = args.text(resource.as_str()).number(token.0).text(to).text(load);
        }
        let freed =
            |outcome: &mut Fields| Ok(if outcome.flag()? { Released::Freed } else { Released::NotHeld });
        self.write(&scripts::RELEASE, args).await?.answer(|fields| fields.list(freed))
    }

    async fn revoke(&self, pool: &Pool, term: &Term) -> Result<Revoked, StoreError> {
        let reply = self.write(&scripts::REVOKE, of_term(pool, term)).await?;
        match reply.word.as_str() {
            "marked" => Ok(Revoked::Marked),
            "not held" => Ok(Revoked::NotHeld),
            "frozen" => Ok(Revoked::Frozen(reply.era.nonce)),
            _ => Err(reply.strange()),
        }
    }

    async fn free_revoked(&self, pool: &Pool, term: &Term, era: Nonce) -> Result<Freed, StoreError> {
        self.free(pool, term, era, "").await
    }

    async fn free_orphan(
        &self,
        pool: &Pool,
        holder: &MemberId,
        term: &Term,
        era: Nonce,
    ) -> Result<Freed, StoreError> {
        self.free(pool, term, era, holder.as_str()).await
    }

    async fn reassert(
        &self,
        session: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
        self.reassert_in_parts(session, pulse, terms).await
    }

    async fn thaw(&self, nonce: Nonce) -> Result<Thawed, StoreError> {
        let args = Args::default().nonce(nonce).number(clock::token_base(clock::unix_nanos()));
        let reply = self.write(&scripts::THAW, args).await?;
        match reply.word.as_str() {
            "thawed" => Ok(Thawed::Thawed),
            "changed" => Ok(Thawed::Changed),
            _ => Err(reply.strange()),
        }
    }

    async fn collect(&self, session: &MemberId) -> Result<(), StoreError> {
        self.collect_in_parts(session).await
    }

    async fn sessions(&self, pool: &Pool, since: Cursor) -> Result<Changed<SessionRecord>, StoreError> {
        pages::sessions(&self.shared, pool, since).await
    }

    async fn sessions_if_quiet(
        &self,
        pool: &Pool,
        since: Cursor,
        others: Others,
    ) -> Result<Option<Changed<SessionRecord>>, StoreError> {
        if *pool == self.shared.address.mirrored {
            self.look_at_foreigners().await?;
        }
        pages::sessions_if_quiet(&self.shared, pool, since, others).await
    }

    async fn leases(&self, pool: &Pool, since: Cursor) -> Result<Changed<LeaseRecord>, StoreError> {
        if *pool == self.shared.address.mirrored {
            self.look_at_foreigners().await?;
        }
        pages::leases(&self.shared, pool, since).await
    }

    async fn pools(&self) -> Result<Vec<Pool>, StoreError> {
        let mut reply = self.read(&scripts::POOLS, Args::default()).await?;
        let mut pools: Vec<Pool> = reply.rest.list(Fields::id)?;
        pools.sort_unstable();
        Ok(pools)
    }

    fn changes(&self, pool: &Pool) -> Hints {
        hints::listen(Arc::clone(&self.shared), pool.clone(), self.alive.subscribe())
    }
}
