//! Who asks, and what they may.
//!
//! A request passes the [`gate`] before anything looks at what it says: its key is found among those that this replica
//! knows ([`known`]), the route says which role it [`needs`], and the [`identity`] that results is the only way from the
//! name of a pool to the pool of the store.
//!
//! Invariants:
//! 1. A route that is not in the table of [`needs`] is for nobody but an admin.
//! 2. Without an identity there is no pool: handlers get one from the gate, or none at all.
//! 3. Nothing here logs, counts or answers what was sent as a key.

pub(crate) mod auth;
mod gate;
mod identity;
pub(crate) mod keys;
mod known;
mod local;
mod needs;
pub(crate) mod session;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use leasehold::store::{Store, StoreError};

pub(crate) use self::gate::admit;
pub(crate) use self::identity::Identity;
use self::known::{Known, Verdict};
use crate::problem::{Answer, Problem};
use crate::settings::Limits;

/// How long an unknown key may wait for a look at the store.
const LOOK: Duration = Duration::from_secs(1);

/// Who may come in.
#[derive(Debug)]
pub(crate) struct Access {
    known: Known,
    /// How old what is known may be.
    kept: Duration,
    loopback: bool,
    /// Whether it is reached by TLS.
    tls: bool,
}

/// Whether only this machine can reach an address.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

impl Access {
    /// Reads the keys, and goes on reading them.
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        address: IpAddr,
        limits: &Limits,
        tls: bool,
    ) -> Result<Self, StoreError> {
        let known = Known::start(store, limits.call).await?;
        Ok(Self { known, kept: limits.keys, loopback: is_loopback(address), tls })
    }

    /// Whether no key is asked for: nobody ever made one, and nobody but this machine can reach the server. A key that was
    /// revoked counts: to take the last key away opens no door.
    pub(crate) fn is_open(&self) -> bool {
        self.loopback && !self.known.any_ever()
    }

    /// Whether there is any key that was not revoked.
    pub(crate) fn any_key(&self) -> bool {
        self.known.any()
    }

    /// Whether a key is still good, by its id, now.
    pub(crate) fn stands(&self, identity: &Identity) -> bool {
        match identity.key() {
            None => self.is_open(),
            Some(id) => {
                let logged_in = identity.session().is_none_or(|(session, _)| self.known.stands(session));
                logged_in && self.known.stands(id) && self.known.age() <= self.kept
            }
        }
    }

    /// Waits until the keys were read once more.
    pub(crate) async fn read_again(&self) {
        self.known.another_read().await;
    }

    /// Has the keys read by a read that begins now; `false` if the store gave no answer.
    pub(crate) async fn look(&self) -> bool {
        tokio::time::timeout(LOOK, self.known.look()).await.unwrap_or(false)
    }

    /// Who sends these headers.
    pub(crate) async fn who(&self, headers: &HeaderMap) -> Answer<Identity> {
        self.not_too_old()?;
        if self.is_open() {
            local::refuse_pages(headers)?;
            return Ok(Identity::open());
        }
        let offered = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
        if let (None, Some(cookie)) = (offered, session::cookie(headers)) {
            return self.logged_in(cookie).await;
        }
        let Some(offered) = offered else {
            return Err(refused("missing", "this needs a key: send it as Authorization: Bearer KEY"));
        };
        let scheme = offered.split_once(' ').filter(|(scheme, _)| {
            scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token")
        });
        let Some((_, offered)) = scheme else {
            let said =
                "the header Authorization is not understood: send Authorization: Bearer KEY or Token KEY";
            return Err(refused("malformed", said));
        };
        self.check(offered.trim()).await
    }

    /// Whose key this is.
    pub(crate) async fn check(&self, offered: &str) -> Answer<Identity> {
        self.not_too_old()?;
        if let Verdict::Good(identity) = self.known.verdict(offered) {
            return Ok(identity);
        }
        // It may have been made a moment ago. One look serves all who wait.
        let answered = self.look().await;
        match self.known.verdict(offered) {
            Verdict::Good(identity) => Ok(identity),
            Verdict::Wrong if !answered => Err(unknown_for_now()),
            Verdict::Wrong => Err(refused("unknown", "this key is not known, or was revoked")),
            Verdict::Expired(id) => {
                tracing::info!(key = id, "a key that has expired was refused");
                Err(refused("expired", "this key has expired; ask for a new one"))
            }
        }
    }

    fn not_too_old(&self) -> Answer<()> {
        if self.known.age() <= self.kept { Ok(()) } else { Err(unknown_for_now()) }
    }
}

fn refused(reason: &'static str, said: &'static str) -> Problem {
    metrics::counter!("leasehold_auth_failures_total", "reason" => reason).increment(1);
    tracing::debug!(reason, "a request was refused");
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", said)
}

fn unknown_for_now() -> Problem {
    metrics::counter!("leasehold_auth_failures_total", "reason" => "unavailable").increment(1);
    let said = "the store does not answer, so nobody knows which keys are good; try again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", said).retry_after(1)
}
