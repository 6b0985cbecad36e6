//! What a candidate or a fence tells of itself over HTTP: to probes, load balancers, Prometheus and operators.
//!
//! Invariants: whoever is not on this machine needs the key for everything but a yes or a no. What is said of leading holds at
//! the moment it is said. Nothing that a client does takes more than its limits allow (`health/serve.rs`).

mod answer;
mod calls;
mod key;
pub(crate) mod page;
mod routes;
mod serve;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use clap::Args;
use leasehold::Token;
use leasehold::election::{Key, Seat};
use leasehold::participant::Status;
use tokio::net::TcpListener;

use self::key::ApiKey;
pub(crate) use self::page::{CONTENT_TYPE as METRICS_TYPE, Page, state_name};
pub(crate) use self::serve::Serving;
use crate::failure::{Failure, code};

/// Where health is told, and to whom.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct HealthArgs {
    /// Tell health, metrics and, of a candidate, who leads over HTTP, at this address: 127.0.0.1:8081
    #[arg(long, env = "LEASEHOLD_HEALTH", value_parser = address, value_name = "ADDR")]
    pub(crate) health: Option<SocketAddr>,
    /// A file with the key that clients of --health must send; needed where other machines can reach it
    #[arg(long, env = "LEASEHOLD_HEALTH_KEY_FILE", value_name = "PATH")]
    pub(crate) health_key_file: Option<PathBuf>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is no address; give a number and a port, as in 127.0.0.1:8081 or [::1]:8081")
    })
}

/// What is told.
#[async_trait]
pub(crate) trait Report: Send + Sync + 'static {
    /// The candidate's name, the same after a restart.
    fn name(&self) -> String;
    /// What the election is about.
    fn key(&self) -> &Key;
    /// How long others wait for a sign of life.
    fn ttl(&self) -> Duration;
    /// What the candidate knows of itself.
    fn status(&self) -> Status;
    /// The token it leads under, if it may act on that at this moment.
    fn is_leader(&self) -> Option<Token>;
    /// Who leads, as far as is known.
    fn seat(&self) -> Seat;
    /// How often this candidate was elected.
    fn leadership_changes(&self) -> u64;
    /// Gives the seat up and waits until the leader has stopped. Whoever stops waiting does not undo it. `false`: it does
    /// not lead.
    async fn resign(&self) -> bool;
    /// Tells the leader to look at everything again. `false`: it does not lead.
    fn reconcile(&self) -> bool;
}

/// An address that is taken, and the key that opens it.
#[derive(Debug)]
pub(crate) struct Health {
    listener: TcpListener,
    key: Option<ApiKey>,
}

impl Health {
    /// Checks the key and takes the address, before anything is joined. From here on calls of a
    /// [`Metered`](leasehold::store::around::Metered) store are counted. `None` if nothing is to be told.
    pub(crate) async fn open(args: &HealthArgs) -> Result<Option<Self>, Failure> {
        let Some(address) = args.health else {
            return match &args.health_key_file {
                None => Ok(None),
                Some(_) => Err(Failure::usage(
                    "--health-key-file is of no use without --health; give --health an address, or leave the key out",
                )),
            };
        };
        let key = args.health_key_file.as_deref().map(ApiKey::read).transpose()?;
        if key.is_none() && !address.ip().to_canonical().is_loopback() {
            return Err(Failure::usage(format!(
                "--health {address} can be reached from other machines and needs a key; give one with \
                 --health-key-file PATH, or an address that only this machine can reach, such as 127.0.0.1:{}",
                address.port()
            )));
        }
        let listener = TcpListener::bind(address).await.map_err(|error| refused(address, &error))?;
        calls::count();
        Ok(Some(Self { listener, key }))
    }

    /// Answers until what it returns is dropped.
    pub(crate) fn serve(self, report: Arc<dyn Report>) -> Serving {
        self.serve_routes(routes::of_election(report))
    }

    /// The same with other things to tell.
    pub(crate) fn serve_routes(self, routes: Router) -> Serving {
        serve::serve(self.listener, routes::gated(routes, self.key))
    }
}

fn refused(address: SocketAddr, error: &io::Error) -> Failure {
    let message = match error.kind() {
        io::ErrorKind::AddrInUse => format!("{address} is in use; give --health another address"),
        io::ErrorKind::AddrNotAvailable => {
            format!("{address} is no address of this machine; give --health one that is")
        }
        io::ErrorKind::PermissionDenied => {
            format!("{address} may not be used by this user; give --health a port above 1023")
        }
        _ => format!("{address} cannot be used for --health: {error}; give another address"),
    };
    Failure::new(code::SYSTEM, message)
}
