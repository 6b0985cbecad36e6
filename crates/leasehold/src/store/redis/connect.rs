//! From an address to a connection with a server that can be used.
//!
//! Invariant: a connection is given out only if its server is a primary, is no cluster, takes scripts, and was not
//! written by a newer version. Nothing is written on the way.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind};

use super::address::Address;
use super::{failure, scripts};
use crate::store::{Host, StoreError};

/// How long one server may take to take a connection.
const CONNECT_MAX: Duration = Duration::from_millis(1500);
/// The version of the layout of keys that this code writes.
pub(super) const VERSION: u32 = 2;
/// The oldest server whose scripts are replicated by their effects and whose users have rights.
const OLDEST: u32 = 6;

/// Whether a handle connects for the first time, or again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    First,
    Again,
}

/// Connects with the primary and looks whether it can be used.
pub(super) async fn connect(
    address: &Address,
    attempt: Attempt,
) -> Result<MultiplexedConnection, StoreError> {
    let host = primary(address).await?;
    let mut connection = reach(&address.client(&host)?, &place(address, &host)).await?;
    check(address, &host, &mut connection, attempt).await?;
    Ok(connection)
}

/// Where the primary is: the host itself, or what the first sentinel that answers says.
pub(super) async fn primary(address: &Address) -> Result<Host, StoreError> {
    let Some(service) = &address.service else { return Ok(address.hosts[0].clone()) };
    // All can be asked in one call, with time left for the primary.
    let patience =
        super::CALL_MAX / (u32::try_from(address.hosts.len()).unwrap_or(u32::MAX).saturating_add(2));
    let mut last = None;
    for host in &address.hosts {
        let asked = tokio::time::timeout(patience, ask(address, host, service)).await;
        let silent =
            || StoreError::unavailable(format!("the sentinel at {host} did not answer within {patience:?}"));
        match asked.unwrap_or_else(|_| Err(silent())) {
            Ok(Some(primary)) => return Ok(primary),
            Ok(None) => {
                last = Some(StoreError::misconfigured(format!(
                    "the sentinel at {host} knows no service {service:?}; check the name at the end of the address"
                )));
            }
            Err(error) => last = Some(last.unwrap_or(error)),
        }
    }
    Err(last.unwrap_or_else(|| StoreError::misconfigured("no sentinel is named")))
}

async fn ask(address: &Address, sentinel: &Host, service: &str) -> Result<Option<Host>, StoreError> {
    let place = format!("the sentinel at {sentinel}");
    let mut connection = reach(&address.sentinel(sentinel)?, &place).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
    let found: Option<(String, u16)> =
        question.query_async(&mut connection).await.map_err(|error| failure::told(&place, error))?;
    Ok(found.map(|(name, port)| Host { name, port }))
}

async fn reach(client: &Client, place: &str) -> Result<MultiplexedConnection, StoreError> {
    // Every call has a limit of its own, which tells more than this one would.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    match tokio::time::timeout(CONNECT_MAX, connecting).await {
        Ok(connection) => connection.map_err(|error| failure::told(place, error)),
        Err(_) => Err(StoreError::unavailable(format!(
            "{place} did not answer within {CONNECT_MAX:?}; is it reachable, and is it a Redis?"
        ))),
    }
}

async fn check(
    address: &Address,
    host: &Host,
    connection: &mut MultiplexedConnection,
    attempt: Attempt,
) -> Result<(), StoreError> {
    let place = place(address, host);
    let told = |error| failure::told(&place, error);
    let information: String = redis::cmd("INFO").query_async(connection).await.map_err(told)?;
    if field(&information, "redis_mode") == Some("cluster") {
        return Err(StoreError::misconfigured(failure::cluster(&place)));
    }
    if field(&information, "redis_mode") == Some("sentinel") {
        return Err(StoreError::misconfigured(format!(
            "{place} is a sentinel; use redis+sentinel:// with the name of the service at the end"
        )));
    }
    let version = field(&information, "redis_version").unwrap_or("0");
    if version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0) < OLDEST {
        let said = format!("{place} is Redis {version}; Leasehold needs {OLDEST}.0 or newer");
        return Err(StoreError::misconfigured(said));
    }
    if field(&information, "master_replid").is_none_or(str::is_empty) {
        return Err(StoreError::misconfigured(format!(
            "{place} does not tell its replication id, so nobody could notice that it forgot something"
        )));
    }
    if field(&information, "loading") == Some("1") {
        return Err(StoreError::unavailable(format!(
            "{place} is still loading its data; it answers when it has"
        )));
    }
    if field(&information, "role") != Some("master") {
        return Err(is_replica(address, &place, attempt));
    }
    load(connection, &place).await?;
    let written: Option<u32> = redis::cmd("HGET")
        .arg(address.key("era"))
        .arg("version")
        .query_async(connection)
        .await
        .map_err(told)?;
    if written.is_some_and(|written| written > VERSION) {
        return Err(StoreError::misconfigured(failure::newer(&place)));
    }
    Ok(())
}

/// A replica at the very beginning was named by mistake. Later on, and behind sentinels, a failover may be under way.
fn is_replica(address: &Address, place: &str, attempt: Attempt) -> StoreError {
    if address.service.is_none() && attempt == Attempt::First {
        return StoreError::misconfigured(format!(
            "{place} is a replica, which takes no writes; name the primary, or use redis+sentinel://"
        ));
    }
    StoreError::unavailable(format!("{place} is not a primary at the moment; is a failover under way?"))
}

/// Sends every script. A server that does not take them cannot be used.
pub(super) async fn load(connection: &mut MultiplexedConnection, place: &str) -> Result<(), StoreError> {
    let mut all = redis::pipe();
    for script in scripts::all() {
        all.cmd("SCRIPT").arg("LOAD").arg(script.code).ignore();
    }
    all.cmd("EVALSHA").arg(&scripts::PROBE.hash).arg(0).ignore();
    let loaded: Result<(), _> = all.query_async(connection).await;
    loaded.map_err(|error| match error.kind() {
        ErrorKind::Server(redis::ServerErrorKind::NoPerm) => StoreError::misconfigured(format!(
            "{place} does not permit this user to run scripts; grant it +@scripting"
        ))
        .caused_by(error),
        _ => failure::told(place, error),
    })
}

/// How people are told which server it is.
pub(super) fn place(address: &Address, host: &Host) -> String {
    match &address.service {
        None => format!("redis at {host}"),
        Some(service) => format!("redis at {host} (primary of {service})"),
    }
}

/// One field of what the server says about itself.
pub(super) fn field<'a>(information: &'a str, name: &str) -> Option<&'a str> {
    information.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}
