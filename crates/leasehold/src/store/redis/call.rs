//! One call: a script, its arguments, one answer within a bounded time.
//!
//! Invariant: no call takes longer than [`CALL_MAX`](super::CALL_MAX), whatever the server does. An answer that did not
//! come is unknown, and the connection it was awaited on is not used again.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};

use super::address::Address;
use super::args::Args;
use super::connect::{self, Attempt};
use super::foreign::Foreign;
use super::pages::Shelf;
use super::reply::{Remembered, Reply};
use super::scripts::Script;
use super::{CALL_MAX, failure};
use crate::clock::{self, Moment};
use crate::lease::{Nonce, ResourceId};
use crate::store::{LeaseRecord, StoreError, TTL_UNKNOWN};

/// How long replicas may take to confirm a write, where the address asks for it.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How long a new connection is put off after one that failed, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What a call does to the server. What decides nothing among members is not waited for on replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

/// What a handle and its hints share.
pub(super) struct Shared {
    pub(super) address: Address,
    slot: tokio::sync::Mutex<Slot>,
    remembered: Mutex<Option<Remembered>>,
    pub(super) foreign: Foreign,
    /// Readings of leases that were given up on.
    pub(super) begun: Shelf<ResourceId, LeaseRecord>,
}

/// The one connection that calls share, and what became of the last attempt to have one.
#[derive(Default)]
struct Slot {
    line: Option<Line>,
    made: u64,
    failed: u32,
    not_before: Moment,
}

#[derive(Clone)]
struct Line {
    connection: MultiplexedConnection,
    number: u64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            slot: tokio::sync::Mutex::default(),
            remembered: Mutex::default(),
            foreign: Foreign::default(),
            begun: Shelf::default(),
        }
    }

    /// Makes sure that there is a connection.
    pub(super) async fn open(&self) -> Result<(), StoreError> {
        self.bounded(self.line(Attempt::First)).await.map(drop)
    }

    /// Runs a script and remembers what its answer says of the server.
    pub(super) async fn run(&self, kind: Kind, script: &Script, args: Args) -> Result<Reply, StoreError> {
        let command = self.command(script, &args);
        let value = self.send(|line| self.ask(line, kind, command.clone())).await?;
        let (value, confirmed_by) = value;
        let reply = Reply::read(&self.address.place, value)?;
        self.remember(reply.remembered(), reply.era.frozen);
        if confirmed_by < i64::from(self.address.wait) && kind == Kind::Write {
            return Err(StoreError::unavailable(format!(
                "{} wrote it, but only {confirmed_by} of {} replicas have it; it may be lost in a failover",
                self.address.place, self.address.wait
            )));
        }
        Ok(reply)
    }

    /// Runs a script that answers a word and does not judge the era.
    pub(super) async fn short(&self, script: &Script, args: &Args) -> Result<Vec<String>, StoreError> {
        let value = self.query(self.command(script, args)).await?;
        redis::from_redis_value(value).map_err(|_| failure::unreadable(&self.address.place, "an answer"))
    }

    /// Asks the server something about itself.
    pub(super) async fn query(&self, command: Cmd) -> Result<Value, StoreError> {
        self.send(|mut line| {
            let command = command.clone();
            async move { command.query_async::<Value>(&mut line.connection).await }
        })
        .await
    }

    /// Sends many commands together. Each has an answer or an error of its own.
    pub(super) async fn query_each(
        &self,
        mut commands: Pipeline,
    ) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
        commands.ignore_errors();
        self.send(|mut line| {
            let commands = commands.clone();
            async move { commands.query_async(&mut line.connection).await }
        })
        .await
    }

    /// Sends something on the shared connection, made anew if need be.
    async fn send<T, F>(&self, ask: impl Fn(Line) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let mut used = None;
        let sending = async {
            let line = self.line(Attempt::Again).await?;
            used = Some(line.number);
            Ok::<_, StoreError>(match ask(line.clone()).await {
                // The server was told to forget its scripts.
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    connect::load(&mut line.connection.clone(), &self.address.place).await?;
                    ask(line).await
                }
                other => other,
            })
        };
        let outcome = self.bounded(sending).await;
        let broken = match &outcome {
            Ok(Ok(_)) => false,
            Ok(Err(error)) => failure::breaks_connection(error),
            Err(_) => true,
        };
        if broken {
            self.hang_up(used).await;
        }
        outcome?.map_err(|error| failure::told(&self.address.place, error))
    }

    async fn bounded<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        bounded(&self.address.place, call).await
    }

    async fn ask(&self, mut line: Line, kind: Kind, command: Cmd) -> Result<(Value, i64), RedisError> {
        if kind == Kind::Read || self.address.wait == 0 {
            return Ok((command.query_async(&mut line.connection).await?, 0));
        }
        let mut both = redis::pipe();
        let patience = u64::try_from(WAIT_MAX.as_millis()).unwrap_or(u64::MAX);
        both.add_command(command).cmd("WAIT").arg(self.address.wait).arg(patience);
        both.query_async(&mut line.connection).await
    }

    fn command(&self, script: &Script, args: &Args) -> Cmd {
        let address = &self.address;
        let mut command = redis::cmd("EVALSHA");
        command.arg(&script.hash).arg(3);
        command.arg(address.key("era")).arg(address.key("past")).arg(address.key("pools"));
        command.arg(&address.prefix).arg(address.database);
        command.arg(address.mirrored.as_str()).arg(&address.poll);
        match self.remembered() {
            None => command.arg("").arg("").arg(""),
            Some(mine) => command.arg(mine.nonce.to_string()).arg(mine.seq).arg(mine.ttl_max_ms),
        };
        let unknown = u64::try_from(TTL_UNKNOWN.as_millis()).unwrap_or(u64::MAX);
        command.arg(Nonce::generate().to_string()).arg(unknown);
        for arg in args.texts() {
            command.arg(arg);
        }
        command
    }

    fn remembered(&self) -> Option<Remembered> {
        *self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what was just read; what is older in the same era says nothing new.
    fn remember(&self, new: Remembered, frozen: bool) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if frozen && !remembered.is_some_and(|old| old.nonce == new.nonce) {
            tracing::warn!(nonce = %new.nonce, "the store may have forgotten something; it is frozen");
        }
        if !remembered.is_some_and(|old| old.nonce == new.nonce && old.seq > new.seq) {
            *remembered = Some(new);
        }
    }

    async fn line(&self, attempt: Attempt) -> Result<Line, StoreError> {
        let mut slot = self.slot.lock().await;
        if let Some(line) = &slot.line {
            return Ok(line.clone());
        }
        tokio::time::sleep(slot.not_before.since(clock::now())).await;
        match connect::connect(&self.address, attempt).await {
            Ok(connection) => {
                slot.made += 1;
                slot.failed = 0;
                let line = Line { connection, number: slot.made };
                slot.line = Some(line.clone());
                Ok(line)
            }
            Err(error) => {
                slot.not_before = clock::now().after(pause(slot.failed));
                slot.failed = slot.failed.saturating_add(1);
                Err(error)
            }
        }
    }

    /// Gives up the connection with this number, if it is still the one in use.
    async fn hang_up(&self, number: Option<u64>) {
        let mut slot = self.slot.lock().await;
        if slot.line.as_ref().is_some_and(|line| Some(line.number) == number) {
            slot.line = None;
        }
    }
}

/// Ends a call that takes too long.
pub(super) async fn bounded<T>(
    place: &str,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    within(CALL_MAX, place, call).await
}

/// Ends something of many parts that takes too long.
pub(super) async fn within<T>(
    limit: Duration,
    place: &str,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, call).await {
        Ok(outcome) => outcome,
        Err(_) => Err(StoreError::unavailable(format!(
            "{place} did not answer within {limit:?}; what was asked may still take effect"
        ))),
    }
}

/// How long to wait before the next attempt after so many that failed.
pub(super) fn pause(failed: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << failed.min(10)).min(PAUSE_MAX)
}
