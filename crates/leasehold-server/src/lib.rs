//! The control plane: leases over HTTP for any language, on one store.
//!
//! Everything that must be agreed upon goes through the [`Store`](leasehold::store::Store) it is given; a control plane adds
//! no authority of its own, so any number of replicas can serve the same store. What it adds is for clients that have no
//! member: it keeps a session for each of their leases and listens on their behalf (`holders`).
//!
//! Read it in the order in which a request travels: `routes`, `access` (who asks, and what they may), `rest` (resources
//! and leases as documents of HTTP), `holders` (what becomes of them in the store), `native` (the store for members),
//! `problem` (what is said when something is wrong). What happened leaves by [`events`].

mod access;
mod app;
mod board;
mod cameras;
pub mod deploy;
mod door;
pub mod events;
pub mod fence;
mod health;
mod holders;
pub mod keys;
mod ledger;
mod levels;
mod limits;
mod metrics;
mod native;
mod openapi;
#[cfg(feature = "otlp")]
pub mod otlp;
mod own;
mod page;
mod problem;
mod request;
mod rest;
mod routes;
mod serve;
mod settings;
mod shortcut;
mod tls;

pub use openapi::document as openapi;
pub use serve::{Running, StartError, start};
pub use settings::{ClientCertificates, Limits, Settings, TlsSettings};
pub use tls::TlsError;
