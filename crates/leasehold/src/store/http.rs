//! The store behind a Leasehold server: members that reach the server need no database.
//!
//! Every call of the contract is one request, and the server's answer is the store's own. Nothing is kept here, nothing is
//! repeated (every call carries a number that no earlier one carried), and an answer that did not arrive is unknown.
//!
//! What crosses the line is in [`wire`], which the server uses too.

mod address;
mod events;
mod failure;
mod hints;
mod key;
mod line;
mod registry;

pub mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use self::line::Line;
use self::wire::Hex;
use self::wire::calls;
use super::{
    Acquired, Answer, Capabilities, Changed, Checkup, Claimed, Cursor, EndSilent, Finding, Freed, Guard,
    Hints, LeaseRecord, LeaseStore, OpenSession, Profile, Pulse, Reasserted, Release, Released, Revoked,
    ServerUrl, SessionRecord, StoreError, Thawed, Wanted,
};
use crate::lease::{BeatNumber, MemberId, Nonce, Pool, ResourceId, Term};

pub use key::{ApiKey, KEY_FILE_VARIABLE, KEY_VARIABLE};

/// A store behind a Leasehold server.
#[derive(Debug)]
pub struct HttpStore {
    line: Arc<Line>,
    capabilities: Capabilities,
    /// Dropped with the store, which ends its hints.
    alive: watch::Sender<()>,
}

impl HttpStore {
    /// Opens the store behind the server at `url`, with the API key that the environment gives, if it gives one.
    ///
    /// # Errors
    /// *Misconfigured* where waiting does not help: the address or the key cannot be used, or what answers there is no
    /// Leasehold server of our version. *Unavailable* where it does: nothing answers.
    pub async fn open(url: &ServerUrl) -> Result<Self, StoreError> {
        Self::open_with(url, ApiKey::from_environment()?).await
    }

    /// The same with a key that the program has from elsewhere.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(url: &ServerUrl, key: Option<ApiKey>) -> Result<Self, StoreError> {
        let line = Arc::new(Line::new(url, key)?);
        let capabilities = line.about().await?.capabilities();
        Ok(Self { line, capabilities, alive: watch::Sender::new(()) })
    }
}

fn all<T, U: From<T>>(items: Vec<T>) -> Vec<U> {
    items.into_iter().map(U::from).collect()
}

fn copied<T: Clone, U: From<T>>(items: &[T]) -> Vec<U> {
    items.iter().cloned().map(U::from).collect()
}

#[async_trait]
impl LeaseStore for HttpStore {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn show_as(&self, _: &Pool, _: &ResourceId, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn guard(&self, _: &OpenSession, _: &Term) -> Option<Guard> {
        None
    }

    async fn checkup(&self) -> Result<Checkup, StoreError> {
        let mut checkup: Checkup = self.line.call(&calls::CheckupCall {}).await?.value.into();
        checkup.server = format!("a Leasehold server on {}", checkup.server);
        checkup.findings.extend(self.line.is_open_to_others().then(|| {
            Finding::weak(
                "the connection is not encrypted, and the server is on another machine",
                "use https://",
            )
        }));
        Ok(checkup)
    }

    async fn open(&self, session: &OpenSession) -> Result<Answer<Nonce>, StoreError> {
        let call = calls::OpenCall { session: session.clone().into() };
        Ok(self.line.call(&call).await?.read(|Hex(nonce)| nonce))
    }

    async fn beat(&self, session: &MemberId, pulse: Pulse) -> Result<Answer<Vec<Term>>, StoreError> {
        let call = calls::BeatCall { session: session.clone(), pulse: pulse.into() };
        Ok(self.line.call(&call).await?.read(|revoked| revoked))
    }

    async fn describe(
        &self,
        session: &MemberId,
        pulse: Pulse,
        profile: &Profile,
    ) -> Result<Answer<()>, StoreError> {
        let (session, profile) = (session.clone(), profile.clone());
        let call = calls::DescribeCall { session, pulse: pulse.into(), profile };
        Ok(self.line.call(&call).await?.read(|_| ()))
    }

    async fn close(&self, session: &MemberId) -> Result<(), StoreError> {
        self.line.call(&calls::CloseCall { session: session.clone() }).await.map(|_| ())
    }

    async fn end_silent(
        &self,
        session: &MemberId,
        heard: BeatNumber,
        era: Nonce,
    ) -> Result<EndSilent, StoreError> {
        let call = calls::EndSilentCall { session: session.clone(), heard, era: Hex(era) };
        Ok(self.line.call(&call).await?.value.into())
    }

    async fn acquire(
        &self,
        session: &MemberId,
        pulse: Pulse,
        wanted: &[Wanted],
    ) -> Result<Answer<Vec<Acquired>>, StoreError> {
        let (session, wanted) = (session.clone(), copied(wanted));
        let call = calls::AcquireCall { session, pulse: pulse.into(), wanted };
        Ok(self.line.call(&call).await?.read(all))
    }

    async fn claim(&self, session: &OpenSession, wanted: &Wanted) -> Result<Answer<Claimed>, StoreError> {
        let call = calls::ClaimCall { session: session.clone().into(), wanted: wanted.clone().into() };
        Ok(self.line.call(&call).await?.read(Into::into))
    }

    async fn release(
        &self,
        session: &MemberId,
        pulse: Pulse,
        terms: &[Release],
    ) -> Result<Answer<Vec<Released>>, StoreError> {
        let (session, terms) = (session.clone(), copied(terms));
        let call = calls::ReleaseCall { session, pulse: pulse.into(), terms };
        Ok(self.line.call(&call).await?.read(all))
    }

    async fn revoke(&self, pool: &Pool, term: &Term) -> Result<Revoked, StoreError> {
        let call = calls::RevokeCall { pool: pool.clone(), term: term.clone() };
        Ok(self.line.call(&call).await?.value.into())
    }

    async fn free_revoked(&self, pool: &Pool, term: &Term, era: Nonce) -> Result<Freed, StoreError> {
        let call = calls::FreeRevokedCall { pool: pool.clone(), term: term.clone(), era: Hex(era) };
        Ok(self.line.call(&call).await?.value.into())
    }

    async fn free_orphan(
        &self,
        pool: &Pool,
        holder: &MemberId,
        term: &Term,
        era: Nonce,
    ) -> Result<Freed, StoreError> {
        let (pool, holder, term) = (pool.clone(), holder.clone(), term.clone());
        let call = calls::FreeOrphanCall { pool, holder, term, era: Hex(era) };
        Ok(self.line.call(&call).await?.value.into())
    }

    async fn reassert(
        &self,
        session: &OpenSession,
        pulse: Pulse,
        terms: &[Term],
    ) -> Result<Answer<Vec<Reasserted>>, StoreError> {
        let (session, terms) = (session.clone().into(), terms.to_vec());
        let call = calls::ReassertCall { session, pulse: pulse.into(), terms };
        Ok(self.line.call(&call).await?.read(all))
    }

    async fn thaw(&self, nonce: Nonce) -> Result<Thawed, StoreError> {
        Ok(self.line.call(&calls::ThawCall { nonce: Hex(nonce) }).await?.value.into())
    }

    async fn collect(&self, session: &MemberId) -> Result<(), StoreError> {
        self.line.call(&calls::CollectCall { session: session.clone() }).await.map(|_| ())
    }

    async fn sessions(&self, pool: &Pool, since: Cursor) -> Result<Changed<SessionRecord>, StoreError> {
        let call = calls::SessionsCall { pool: pool.clone(), since: wire::Position(since) };
        Ok(self.line.call(&call).await?.value.read(Into::into))
    }

    async fn leases(&self, pool: &Pool, since: Cursor) -> Result<Changed<LeaseRecord>, StoreError> {
        let call = calls::LeasesCall { pool: pool.clone(), since: wire::Position(since) };
        Ok(self.line.call(&call).await?.value.read(Into::into))
    }

    async fn pools(&self) -> Result<Vec<Pool>, StoreError> {
        Ok(self.line.call(&calls::PoolsCall {}).await?.value)
    }

    fn changes(&self, pool: &Pool) -> Hints {
        hints::listen(Arc::clone(&self.line), pool.clone(), self.alive.subscribe())
    }
}
