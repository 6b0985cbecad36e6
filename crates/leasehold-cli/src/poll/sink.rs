//! Where answers go.
//!
//! Invariant: nothing is passed on under a term that no longer stands. Redis compares that itself, in the step that publishes;
//! everywhere else trust is looked at last thing before.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method};
use leasehold::participant::Status;
use leasehold::store::StoreUrl;
use leasehold::store::redis::{Emission, Emitted, Outlet, RedisLine};
use leasehold::{Lease, Pool};
use tokio::sync::{Mutex, watch};
use url::Url;

use super::client::{Ask, Client, Manner};
use super::gather::Gatherer;
use crate::args::PollArgs;
use crate::failure::{Failure, code};
use crate::print;

/// The most places that answers go to.
const SINKS_MAX: usize = 8;

/// A place that answers go to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sink {
    Channel(String),
    Stream(String),
    Stdout,
    Webhook(Url),
}

/// The places that answers go to, as they were named.
#[derive(Debug)]
pub(super) struct Sinks {
    sinks: Vec<Sink>,
    keep: u64,
}

/// The same, connected.
#[derive(Debug)]
pub(super) struct Open {
    sinks: Vec<Sink>,
    keep: u64,
    gatherer: Option<Gatherer>,
    /// Whose turn it is to write to standard output.
    stdout: Arc<Mutex<()>>,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// It is where it should be.
    All,
    /// The term no longer stands: dropped.
    Stale,
    /// Somebody did not take it, for this reason: dropped there.
    Failed(String),
}

impl Sinks {
    pub(super) fn of(args: &PollArgs) -> Result<Self, Failure> {
        if args.to.len() > SINKS_MAX {
            let count = args.to.len();
            return Err(Failure::usage(format!(
                "--to is given {count} times; at most {SINKS_MAX} are allowed"
            )));
        }
        let sinks = args.to.iter().map(|text| parse(text)).collect::<Result<_, _>>()?;
        Ok(Self { sinks, keep: args.stream_keep })
    }

    /// Connects with Redis, if anything goes there.
    pub(super) async fn open(self, store: &StoreUrl, pool: &Pool) -> Result<Open, Failure> {
        let needs_line = self.sinks.iter().any(|sink| matches!(sink, Sink::Channel(_) | Sink::Stream(_)));
        let gatherer = if needs_line {
            Some(Gatherer::start(RedisLine::open(store).await?, pool.clone()))
        } else {
            None
        };
        Ok(Open { sinks: self.sinks, keep: self.keep, gatherer, stdout: Arc::default() })
    }
}

fn parse(text: &str) -> Result<Sink, Failure> {
    match text.split_once(':') {
        _ if text == "stdout" => Ok(Sink::Stdout),
        Some(("channel", name)) if !name.is_empty() => Ok(Sink::Channel(name.to_owned())),
        Some(("stream", key)) if !key.is_empty() => Ok(Sink::Stream(key.to_owned())),
        Some(("http" | "https", _)) => {
            let url = Url::parse(text).ok().filter(|url| url.host().is_some() && url.username().is_empty());
            url.map(Sink::Webhook).ok_or_else(|| {
                // It may hold a secret, so it is not repeated.
                Failure::usage("--to: the webhook is no URL that can be used; give it without a user, as https://host/path")
            })
        }
        // The rest may hold a secret.
        _ => Err(Failure::usage(format!(
            "--to {:?} is no place for answers; use channel:NAME, stream:KEY, stdout or the URL of a webhook",
            text.split(':').next().unwrap_or_default()
        ))),
    }
}

impl Open {
    /// From now on this member's status says how many share the work.
    pub(super) fn follow(&self, member: watch::Receiver<Status>) {
        if let Some(gatherer) = &self.gatherer {
            gatherer.follow(member);
        }
    }

    /// Who asks the webhooks under a lease.
    pub(super) fn clients(&self, lease: &Lease, manner: &Manner) -> Vec<Client> {
        let webhooks = self.sinks.iter().filter(|sink| matches!(sink, Sink::Webhook(_)));
        webhooks.map(|_| Client::new(lease, manner)).collect()
    }

    /// Passes a line on to every place.
    pub(super) async fn tell(
        &self,
        lease: &Lease,
        clients: &mut [Client],
        headers: &HeaderMap,
        line: &str,
    ) -> Told {
        let (mut told, mut clients) = (Told::All, clients.iter_mut());
        for sink in &self.sinks {
            let Ok(term) = lease.term() else { return Told::Stale };
            let outcome = match sink {
                Sink::Channel(name) => {
                    self.emit(lease, term, Outlet::Channel(filled(name, lease)), line).await
                }
                Sink::Stream(key) => {
                    let outlet = Outlet::Stream { key: filled(key, lease), keep: self.keep };
                    self.emit(lease, term, outlet, line).await
                }
                Sink::Stdout => self.print(lease, line).await,
                Sink::Webhook(url) => match clients.next() {
                    Some(client) => post(client, url, headers.clone(), line).await,
                    None => Ok(Told::All),
                },
            };
            match outcome {
                Ok(Told::Stale) => return Told::Stale,
                Ok(_) => {}
                Err(error) => {
                    told = Told::Failed(error);
                }
            }
        }
        told
    }

    /// Writes a line where a reader may have stopped reading: nobody else waits for that.
    async fn print(&self, lease: &Lease, line: &str) -> Result<Told, String> {
        let turn = Arc::clone(&self.stdout).lock_owned().await;
        let (lease, line) = (lease.clone(), format!("{line}\n"));
        let writing = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            match lease.term().map(|_| print::as_it_is(&line)) {
                Err(_) => Ok(Told::Stale),
                Ok(Ok(())) => Ok(Told::All),
                Ok(Err(error)) if error.code == code::DONE => {
                    Err("nobody reads standard output any more".to_owned())
                }
                Ok(Err(error)) => Err(error.to_string()),
            }
        });
        writing.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn emit(
        &self,
        lease: &Lease,
        term: &leasehold::Term,
        outlet: Outlet,
        line: &str,
    ) -> Result<Told, String> {
        let Some(gatherer) = &self.gatherer else { return Ok(Told::All) };
        let (holder, term, what) = (lease.member().clone(), term.clone(), line.to_owned());
        match gatherer.tell(Emission { holder, term, outlet, what }).await? {
            Emitted::Told => Ok(Told::All),
            Emitted::Stale => Ok(Told::Stale),
        }
    }
}

fn filled(name: &str, lease: &Lease) -> String {
    name.replace("{id}", lease.resource().as_str())
}

async fn post(client: &mut Client, url: &Url, mut headers: HeaderMap, line: &str) -> Result<Told, String> {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = Bytes::copy_from_slice(line.as_bytes());
    let answer = client.ask(Ask { method: Method::POST, url, headers, body }).await?;
    if answer.status.is_success() {
        Ok(Told::All)
    } else {
        Err(format!("the webhook answered {}", answer.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_for_answers_are_named() {
        assert_eq!(
            parse("channel:satisfactory_events:{id}").unwrap(),
            Sink::Channel("satisfactory_events:{id}".to_owned())
        );
        assert_eq!(parse("stream:polls").unwrap(), Sink::Stream("polls".to_owned()));
        assert_eq!(parse("stdout").unwrap(), Sink::Stdout);
        assert!(matches!(parse("https://h/x").unwrap(), Sink::Webhook(_)));
        for bad in
            ["", "channel:", "stream:", "kafka:x", "amqp://anna:hush@h", "http://", "https://anna:hush@h/"]
        {
            let said = parse(bad).unwrap_err().to_string();
            assert!(!said.contains("hush"), "{said}");
        }
    }
}
