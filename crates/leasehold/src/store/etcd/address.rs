//! What the address says: endpoints, login, certificates, the prefix and the mirrors.

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::client::Login;
use super::keys::Keys;
use super::mirror::Mirrors;
use crate::store::{Host, ServerUrl, StoreError};

/// The prefix unless the address names one.
const PREFIX: &str = "leasehold";
/// The most bytes a prefix may have.
const PREFIX_MAX: usize = 256;

/// An address that was understood.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) hosts: Vec<Host>,
    pub(super) tls: Option<ClientTlsConfig>,
    /// Whether we have a certificate of our own.
    pub(super) shows_certificate: bool,
    pub(super) login: Option<Login>,
    pub(super) prefix: String,
    pub(super) mirrors: Mirrors,
}

impl Address {
    pub(super) fn of(url: &ServerUrl) -> Result<Self, StoreError> {
        url.check_options(&["ca", "cert", "key", "mirror"])?;
        if url.hosts().is_empty() {
            return Err(StoreError::misconfigured("etcd needs a host, as in etcd://localhost:2379"));
        }
        let prefix = prefix(url.path())?;
        let mirrors = Mirrors::parse(url.option("mirror").unwrap_or_default(), &Keys::new(&prefix))?;
        let (hosts, shows_certificate) = (url.hosts().to_vec(), url.option("cert").is_some());
        Ok(Self { hosts, tls: tls(url)?, shows_certificate, login: login(url)?, prefix, mirrors })
    }
}

fn prefix(path: &str) -> Result<String, StoreError> {
    let prefix = path.trim_matches('/');
    if prefix.len() > PREFIX_MAX || prefix.chars().any(char::is_control) {
        return Err(StoreError::misconfigured(format!(
            "the prefix of an etcd store has at most {PREFIX_MAX} bytes and no control characters"
        )));
    }
    Ok(if prefix.is_empty() { PREFIX } else { prefix }.to_owned())
}

fn login(url: &ServerUrl) -> Result<Option<Login>, StoreError> {
    match (url.user(), url.password()?) {
        (Some(name), Some(password)) => Ok(Some(Login { name: name.to_owned(), password })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(StoreError::misconfigured(
            "the address names a user and no password; write user:password@ or add ?password-file=FILE",
        )),
        (None, Some(_)) => Err(StoreError::misconfigured("the address has a password and no user")),
    }
}

fn tls(url: &ServerUrl) -> Result<Option<ClientTlsConfig>, StoreError> {
    let ca = url.file("ca", "the file of the certificate authority")?;
    let cert = url.file("cert", "the client's certificate")?;
    let key = url.file("key", "the client's key")?;
    if url.scheme() != "etcds" {
        if ca.is_some() || cert.is_some() || key.is_some() {
            return Err(StoreError::misconfigured("ca, cert and key are for TLS; use etcds://"));
        }
        return Ok(None);
    }
    let mut tls = match ca {
        Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    match (cert, key) {
        (Some(cert), Some(key)) => tls = tls.identity(Identity::from_pem(cert, key)),
        (None, None) => {}
        _ => return Err(StoreError::misconfigured("cert and key go together: one of them is missing")),
    }
    Ok(Some(tls))
}
