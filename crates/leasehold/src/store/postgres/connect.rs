//! One connection to the server that may write.

use std::future::{Future, poll_fn};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_postgres::{AsyncMessage, Client, Notification};

use super::address::{Address, Place};
use super::failure::Failure;

/// The longest that looking for a server that may write takes.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long the server is given to end a call that nobody waits for any more.
const CANCEL_MAX: Duration = Duration::from_secs(1);
/// The oldest server whose transactions have numbers that do not wrap.
const VERSION_MIN: i32 = 130_000;

/// What every connection is judged by before it is used.
const LOOK: &str = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean, \
     current_setting('server_version_num')::int4, current_setting('server_encoding'), \
     current_setting('transaction_isolation')";

/// A connection to the server.
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) place: Place,
    driver: AbortHandle,
    proven: bool,
}

impl Drop for Link {
    fn drop(&mut self) {
        // One that is in use says good-bye. One that never answered would wait to be answered first.
        if !self.proven {
            self.driver.abort();
        }
    }
}

impl Link {
    /// Connects to the first place whose server may write. What it sends unasked goes to `heard`.
    pub(super) async fn open(
        address: &Address,
        heard: Option<mpsc::Sender<Notification>>,
    ) -> Result<Self, Failure> {
        let share = CONNECT_MAX / u32::try_from(address.places.len()).unwrap_or(1).max(1);
        let mut failures = Vec::new();
        for place in &address.places {
            let opening = Self::open_at(address, place, heard.clone());
            match within(share, place, opening).await {
                Ok(link) => return Ok(link),
                Err(failure) => failures.push(failure),
            }
        }
        Err(verdict(address, failures))
    }

    async fn open_at(
        address: &Address,
        place: &Place,
        heard: Option<mpsc::Sender<Notification>>,
    ) -> Result<Self, Failure> {
        let config = address.config(place).map_err(|error| Failure::lasting(error.to_string()))?;
        let of = |error| Failure::of(place, error);
        let (client, mut connection) = config.connect(address.tls()).await.map_err(of)?;
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let (AsyncMessage::Notification(notification), Some(heard)) = (message, &heard) {
                    // One that finds no room is merged with those that are waiting.
                    let _ = heard.try_send(notification);
                }
            }
        });
        let driver = driver.abort_handle();
        let mut link = Self { client, place: place.clone(), driver, proven: false };
        link.look().await?;
        link.proven = true;
        Ok(link)
    }

    /// Whether the server can be used at all.
    async fn look(&self) -> Result<(), Failure> {
        let of = |error| Failure::of(&self.place, error);
        let row = self.client.query_typed_one(LOOK, &[]).await.map_err(of)?;
        let place = &self.place;
        if row.try_get(0).map_err(of)? {
            return Err(Failure::replica(place));
        }
        let version: i32 = row.try_get(1).map_err(of)?;
        if version < VERSION_MIN {
            let said =
                format!("PostgreSQL at {place} is version {}; at least 13 is needed", version / 10_000);
            return Err(Failure::lasting(said));
        }
        let encoding: String = row.try_get(2).map_err(of)?;
        if encoding != "UTF8" {
            let said = format!(
                "the database at {place} has the encoding {encoding}; create one with ENCODING 'UTF8' TEMPLATE template0"
            );
            return Err(Failure::lasting(said));
        }
        let isolation: String = row.try_get(3).map_err(of)?;
        if isolation != "read committed" {
            let said = format!(
                "transactions at {place} are {isolation}; ALTER ROLE … SET default_transaction_isolation = 'read committed'"
            );
            return Err(Failure::lasting(said));
        }
        Ok(())
    }

    /// Gives up what the server is doing on this connection, and the connection. A commit that waits for a standby is
    /// let go, so that it holds neither a connection nor a lock.
    pub(super) fn give_up(&self, address: &Address) {
        let (token, tls, driver) = (self.client.cancel_token(), address.tls(), self.driver.clone());
        tokio::spawn(async move {
            let _ = tokio::time::timeout(CANCEL_MAX, token.cancel_query(tls)).await;
            driver.abort();
        });
    }
}

/// Bounds what may never be answered.
pub(super) async fn within<T>(
    limit: Duration,
    place: &(impl std::fmt::Display + Sync),
    call: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        let seconds = limit.as_secs_f64();
        Err(Failure::timeout(format!("PostgreSQL at {place} did not answer within {seconds:.1} s")))
    })
}

/// What to say when no place would do. Among several a replica is nothing wrong, but then one must be the primary.
fn verdict(address: &Address, mut failures: Vec<Failure>) -> Failure {
    if failures.len() > 1 && failures.iter().all(Failure::is_replica) {
        return Failure::passing(format!(
            "none of the servers of {address} is a primary that can be written to; promote one"
        ));
    }
    let telling = failures.iter().position(|failure| !failure.is_replica()).unwrap_or(0);
    if failures.is_empty() {
        return Failure::lasting(format!("{address} names no server"));
    }
    failures.swap_remove(telling)
}
