//! A connection of its own to a store's server, for what is no lease: what others keep there, and what they are told.
//!
//! It shares no queue with the store's heartbeats, and reads from the same primary.

use std::fmt;
use std::sync::Arc;

use redis::aio::PubSub;
use redis::{Cmd, Pipeline, RedisError, Value};

use super::address::Address;
use super::args::Args;
use super::call::{self, Kind, Shared};
use super::{connect, failure, scripts};
use crate::lease::{MemberId, Pool, Term};
use crate::store::{StoreError, StoreUrl};

/// How much is told at once at most.
pub const EMISSIONS_MAX: usize = 64;
/// How often a server that was not seen like this before is judged before anything is told.
const JUDGED_MAX: usize = 3;

/// Where something is told to whoever listens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outlet {
    /// Whoever subscribes to the channel at this moment hears it.
    Channel(String),
    /// The stream keeps about so many of the newest.
    Stream {
        /// The key of the stream.
        key: String,
        /// How many entries it keeps.
        keep: u64,
    },
}

/// Something that a holder found out under a term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emission {
    /// Who found it out.
    pub holder: MemberId,
    /// The term under which it was found out.
    pub term: Term,
    /// Where it is told.
    pub outlet: Outlet,
    /// What is told.
    pub what: String,
}

/// What became of something that was to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Emitted {
    /// It was told.
    Told,
    /// The term under which it was found out no longer stands, so nobody was told.
    Stale,
}

/// A line to the server of a store.
#[derive(Clone)]
pub struct RedisLine {
    shared: Arc<Shared>,
}

impl fmt::Debug for RedisLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisLine({})", self.place())
    }
}

impl RedisLine {
    /// Connects with the server of the store at `url`.
    ///
    /// # Errors
    /// The store is on no Redis server, or the server cannot be reached or used.
    pub async fn open(url: &StoreUrl) -> Result<Self, StoreError> {
        let StoreUrl::Redis(url) = url else {
            return Err(StoreError::misconfigured(format!(
                "{url} is no Redis; this needs a store such as redis://localhost"
            )));
        };
        let shared = Shared::new(Address::new(url)?);
        shared.open().await?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Tells what holders found out, each under its term, if that still stands: the server compares in the same step. At most
    /// [`EMISSIONS_MAX`] at once.
    ///
    /// # Errors
    /// The server did not answer, so they may or may not have been told, or refuses.
    pub async fn emit(&self, pool: &Pool, emissions: &[Emission]) -> Result<Vec<Emitted>, StoreError> {
        if emissions.len() > EMISSIONS_MAX {
            let count = emissions.len();
            return Err(StoreError::misconfigured(format!(
                "{count} things are to be told at once; at most {EMISSIONS_MAX} are allowed"
            )));
        }
        let args = emissions.iter().fold(Args::of([pool.as_str()]), |args, emission| {
            let (kind, name, keep) = match &emission.outlet {
                Outlet::Channel(name) => ("channel", name, 0),
                Outlet::Stream { key, keep } => ("stream", key, *keep),
            };
            let Term { resource, token } = &emission.term;
            let args = args.text(resource.as_str()).number(token.0).text(emission.holder.as_str());
            args.text(kind).text(name).number(keep).text(&emission.what)
        });
        for _ in 0..JUDGED_MAX {
            let said = self.shared.short(&scripts::EMIT, &args).await?;
            if said == ["unseen"] {
                // Every other script judges what this one has not seen.
                self.shared.run(Kind::Read, &scripts::POOLS, Args::default()).await.map(drop)?;
                continue;
            }
            let emitted = said.iter().map(|word| match word.as_str() {
                "told" => Some(Emitted::Told),
                "stale" => Some(Emitted::Stale),
                _ => None,
            });
            let emitted = emitted.collect::<Option<Vec<_>>>().filter(|all| all.len() == emissions.len());
            return emitted.ok_or_else(|| failure::unreadable(self.place(), "an answer"));
        }
        Err(StoreError::unavailable(format!("{} keeps changing; is it restarting?", self.place())))
    }

    /// How people are told which server it is.
    pub(crate) fn place(&self) -> &str {
        &self.shared.address.place
    }

    /// A key of the store's own.
    pub(crate) fn key(&self, name: &str) -> String {
        self.shared.address.key(name)
    }

    /// Where the server tells what happens to the keys that fit a pattern.
    pub(crate) fn events_of(&self, pattern: &str) -> String {
        format!("__keyspace@{}__:{pattern}", self.shared.address.database)
    }

    pub(crate) async fn query(&self, command: Cmd) -> Result<Value, StoreError> {
        self.shared.query(command).await
    }

    /// Sends many commands together; each has an answer or an error of its own.
    pub(crate) async fn each(
        &self,
        commands: Pipeline,
    ) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
        self.shared.query_each(commands).await
    }

    /// An error of the server in answer to one of several commands.
    pub(crate) fn told(&self, error: RedisError) -> StoreError {
        failure::told(self.place(), error)
    }

    /// Listens to everything that is published where these patterns fit.
    pub(crate) async fn listen(&self, patterns: &[String]) -> Result<PubSub, StoreError> {
        let address = &self.shared.address;
        call::bounded(&address.place, async {
            let host = connect::primary(address).await?;
            let told = |error| failure::told(&address.place, error);
            let mut subscription = address.client(&host)?.get_async_pubsub().await.map_err(told)?;
            subscription.psubscribe(patterns).await.map_err(told)?;
            Ok(subscription)
        })
        .await
    }
}
