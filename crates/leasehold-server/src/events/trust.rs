//! Whom clients of brokers and receivers trust: the system's certificates, and those of a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// A file with certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the certificates in {path} cannot be used: {why}; give a file with certificates in PEM")]
pub struct TrustError {
    path: PathBuf,
    why: String,
}

/// The settings of a TLS client.
pub(crate) fn client(file: Option<&Path>) -> Result<ClientConfig, TrustError> {
    let mut roots = RootCertStore::empty();
    // One of the system's that cannot be read is none of ours.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = file {
        let fault = |why: String| TrustError { path: path.to_owned(), why };
        let mut found = 0;
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| fault(error.to_string()))? {
            let certificate = certificate.map_err(|error| fault(error.to_string()))?;
            roots.add(certificate).map_err(|error| fault(error.to_string()))?;
            found += 1;
        }
        if found == 0 {
            return Err(fault("it has none".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError { path: PathBuf::new(), why: error.to_string() })?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// The text of a file with certificates, for those who read it themselves.
pub(super) fn text(path: &Path) -> Result<String, TrustError> {
    std::fs::read_to_string(path)
        .map_err(|error| TrustError { path: path.to_owned(), why: error.to_string() })
}
