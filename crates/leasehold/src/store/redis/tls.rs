//! Certificates, and the one provider of cryptography.

use redis::{ClientTlsConfig, TlsCertificates};

use crate::store::{ServerUrl, StoreError};

/// Makes ring the provider of this process unless it has one already.
pub(super) fn install_provider() {
    // Whoever embeds us may have chosen another; that one serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// What the address says about whom to trust and as whom to appear. Without `ca` the system's authorities count.
pub(super) fn certificates(url: &ServerUrl) -> Result<TlsCertificates, StoreError> {
    let root_cert = url.file("ca", "the certificate of the authority")?;
    let cert = url.file("cert", "the client's certificate")?;
    let key = url.file("key", "the client's key")?;
    let client_tls = match (cert, key) {
        (None, None) => None,
        (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
        _ => {
            return Err(StoreError::misconfigured(
                "a client's certificate needs its key: give both cert=FILE and key=FILE, or neither",
            ));
        }
    };
    Ok(TlsCertificates { client_tls, root_cert })
}
