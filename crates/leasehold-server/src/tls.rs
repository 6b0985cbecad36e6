//! Certificates, and their change while the server runs.
//!
//! Invariant: a file that cannot be used changes nothing. What was in use before stays in use.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum_server::tls_rustls::RustlsConfig;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};

use crate::settings::TlsSettings;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The files of TLS cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} cannot be used for TLS: {why}")]
pub struct TlsError {
    path: String,
    why: String,
}

impl TlsError {
    fn new(path: &Path, why: impl ToString) -> Self {
        Self { path: path.display().to_string(), why: why.to_string() }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |error: rustls::pki_types::pem::Error| TlsError::new(path, plainly(&error));
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)?;
    if found.is_empty() {
        return Err(TlsError::new(path, "there is no certificate in it; give one in PEM"));
    }
    Ok(found)
}

/// What is wrong with a file of PEM. What is in it is not repeated.
fn plainly(error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => "what is needed is not in it".to_owned(),
        _ => "it is not PEM".to_owned(),
    }
}

/// Refuses a private key that everybody on the machine can read or change.
#[cfg(unix)]
fn refuse_public(path: &Path, file: &Metadata) -> Result<(), TlsError> {
    use std::os::unix::fs::MetadataExt;

    let mode = file.mode() & 0o777;
    if mode & 0o006 == 0 {
        return Ok(());
    }
    let why = format!(
        "everybody on this machine can read it (mode {mode:03o}); take that away with chmod 600, and use a new key if somebody may have read it"
    );
    Err(TlsError::new(path, why))
}

#[cfg(not(unix))]
fn refuse_public(_: &Path, _: &Metadata) -> Result<(), TlsError> {
    Ok(())
}

/// Reads the files.
fn read(settings: &TlsSettings) -> Result<ServerConfig, TlsError> {
    let chain = certificates(&settings.cert)?;
    let file = fs::metadata(&settings.key).map_err(|error| TlsError::new(&settings.key, error))?;
    refuse_public(&settings.key, &file)?;
    let key = PrivateKeyDer::from_pem_file(&settings.key)
        .map_err(|error| TlsError::new(&settings.key, plainly(&error)))?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::new(&settings.cert, error))?;
    let builder = match &settings.clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let wrong = |error: &dyn std::error::Error| TlsError::new(&clients.ca, error);
            let mut roots = RootCertStore::empty();
            for authority in certificates(&clients.ca)? {
                roots.add(authority).map_err(|error| wrong(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
            let verifier = if clients.optional { verifier.allow_unauthenticated() } else { verifier };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(&error))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        TlsError::new(&settings.cert, format!("{error}; is it of the key in {}?", settings.key.display()))
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// By what a changed file is known.
type Stamp = Vec<Option<(Option<SystemTime>, u64)>>;

fn stamp(settings: &TlsSettings) -> Stamp {
    let clients = settings.clients.as_ref().map(|clients| &clients.ca);
    let of = |path: &PathBuf| {
        let file = fs::metadata(path).ok()?;
        Some((file.modified().ok(), file.len()))
    };
    [&settings.cert, &settings.key].into_iter().chain(clients).map(of).collect()
}

/// The certificate in use.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    settings: TlsSettings,
    config: RustlsConfig,
    /// The files as they were before they were read first.
    first: Stamp,
}

impl Tls {
    pub(crate) fn start(settings: TlsSettings) -> Result<Self, TlsError> {
        let first = stamp(&settings);
        let config = RustlsConfig::from_config(Arc::new(read(&settings)?));
        Ok(Self { settings, config, first })
    }

    /// What new connections use.
    pub(crate) fn config(&self) -> RustlsConfig {
        self.config.clone()
    }

    /// Uses the files as they are now, if they can be used.
    pub(crate) fn reload(&self) {
        match read(&self.settings) {
            Ok(config) => {
                self.config.reload_from_config(Arc::new(config));
                tracing::info!(cert = %self.settings.cert.display(), "the certificate was read again");
            }
            Err(error) => tracing::error!(%error, "the certificate from before stays in use"),
        }
    }

    /// Uses the files anew whenever they have changed.
    pub(crate) async fn watch(self) {
        let mut used = self.first.clone();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = stamp(&self.settings);
            if now != used {
                self.reload();
                used = now;
            }
        }
    }
}
