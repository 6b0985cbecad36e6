//! From a store's URL to how its server is spoken to.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::StoreError;
use crate::store::server::{Host, ServerUrl};

const OPTIONS: [&str; 5] = ["sslmode", "sslrootcert", "host", "port", "application_name"];

/// How long the kernel tries to deliver what a server does not take.
const UNDELIVERED_MAX: Duration = Duration::from_secs(10);

/// Where the server may be, and how to speak to it there.
pub(super) struct Address {
    url: ServerUrl,
    pub(super) places: Vec<Place>,
    user: String,
    tls_asked: Option<bool>,
    tls: MakeRustlsConnect,
}

/// One place where a server may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Tcp(Host),
    /// A directory with a socket, and the port that is part of its name.
    Socket(PathBuf, u16),
}

impl Place {
    fn is_here(&self) -> bool {
        match self {
            Self::Tcp(host) => host.is_loopback(),
            Self::Socket(..) => true,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host) => host.fmt(f),
            Self::Socket(directory, port) => write!(f, "{}/.s.PGSQL.{port}", directory.display()),
        }
    }
}

/// Shows no user, no password and no options.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.url)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl Address {
    /// # Errors
    /// An option is unknown, contradicts another or names a file that cannot be used.
    pub(super) fn of(url: &ServerUrl) -> Result<Self, StoreError> {
        url.check_options(&OPTIONS)?;
        let places = places(url)?;
        let tls_asked = match url.option("sslmode") {
            None => None,
            Some("disable") => Some(false),
            Some("require" | "verify-full") => Some(true),
            Some("prefer" | "allow") => {
                return Err(StoreError::misconfigured(
                    "postgres: sslmode prefer and allow protect from nobody; use verify-full, or disable in a network \
                     that you trust",
                ));
            }
            Some(other) => {
                return Err(StoreError::misconfigured(format!(
                    "postgres: sslmode is disable, require or verify-full, not {other:?}"
                )));
            }
        };
        let user = url.user().map(str::to_owned).ok_or_else(|| {
            StoreError::misconfigured(
                "postgres: the address names no user; write postgres://USER@HOST/DATABASE",
            )
        })?;
        let with_tls = places.iter().any(|place| tls_asked.unwrap_or(!place.is_here()));
        let tls = MakeRustlsConnect::new(tls_config(url, with_tls)?);
        // Read now, so that a file that is not there is told of when the store is opened.
        url.password()?;
        Ok(Self { url: url.clone(), places, user, tls_asked, tls })
    }

    /// How to connect to one of the places. The password file is read each time: passwords change.
    pub(super) fn config(&self, place: &Place) -> Result<Config, StoreError> {
        let mut config = Config::new();
        match place {
            Place::Tcp(host) => config.host(&host.name).port(host.port),
            Place::Socket(directory, port) => config.host_path(directory).port(*port),
        };
        let with_tls = self.tls_asked.unwrap_or(!place.is_here()) && matches!(place, Place::Tcp(_));
        config
            .user(&self.user)
            .dbname(if self.url.path().is_empty() { &self.user } else { self.url.path() })
            .application_name(self.url.option("application_name").unwrap_or("leasehold"))
            .ssl_mode(if with_tls { SslMode::Require } else { SslMode::Disable })
            .keepalives_idle(UNDELIVERED_MAX)
            .tcp_user_timeout(UNDELIVERED_MAX);
        if let Some(password) = self.url.password()? {
            config.password(password);
        }
        Ok(config)
    }

    pub(super) fn tls(&self) -> MakeRustlsConnect {
        self.tls.clone()
    }
}

fn places(url: &ServerUrl) -> Result<Vec<Place>, StoreError> {
    let port = match url.option("port") {
        None => 5432,
        Some(text) => text.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
            StoreError::misconfigured("postgres: the option port is a number from 1 to 65535")
        })?,
    };
    match url.option("host") {
        None if url.option("port").is_some() => Err(StoreError::misconfigured(
            "postgres: the option port goes with host=/DIRECTORY; otherwise write HOST:PORT",
        )),
        None => Ok(url.hosts().iter().cloned().map(Place::Tcp).collect()),
        Some(_) if !url.hosts().is_empty() => Err(StoreError::misconfigured(
            "postgres: give a host before the slash or the option host=/DIRECTORY, not both",
        )),
        Some(directory) if directory.starts_with('/') => Ok(vec![Place::Socket(directory.into(), port)]),
        Some(_) => Err(StoreError::misconfigured(
            "postgres: the option host is the directory of a socket, as in host=/run/postgresql",
        )),
    }
}

/// Certificates are always verified, by the file that `sslrootcert` names or by the system's own.
fn tls_config(url: &ServerUrl, used: bool) -> Result<ClientConfig, StoreError> {
    let mut roots = RootCertStore::empty();
    match url.file("sslrootcert", "the file of certificates")? {
        Some(text) => {
            let unusable = || {
                StoreError::misconfigured(
                    "the file that sslrootcert names holds no certificate that can be used; it is a PEM file",
                )
            };
            for certificate in CertificateDer::pem_slice_iter(&text) {
                roots.add(certificate.map_err(|_| unusable())?).map_err(|_| unusable())?;
            }
            if roots.is_empty() {
                return Err(unusable());
            }
        }
        None if used => {
            let (_, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        None => {}
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::misconfigured("TLS cannot be used").caused_by(error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreUrl;

    fn address(text: &str) -> Result<Address, StoreError> {
        match text.parse().expect("a good URL") {
            StoreUrl::Postgres(url) => Address::of(&url),
            other => panic!("{other} is not PostgreSQL"),
        }
    }

    fn mode(text: &str) -> SslMode {
        let address = address(text).expect("a good address");
        address.config(&address.places[0]).expect("a good address").get_ssl_mode()
    }

    #[test]
    fn tls_is_verified_unless_the_server_is_here_or_somebody_says_otherwise() {
        assert_eq!(mode("postgres://u@localhost/d"), SslMode::Disable);
        assert_eq!(mode("postgres://u@db.example.org/d"), SslMode::Require);
        assert_eq!(mode("postgres://u@db.example.org/d?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://u@127.0.0.1/d?sslmode=require"), SslMode::Require);
        assert_eq!(mode("postgres://u@/d?host=%2Frun&sslmode=require"), SslMode::Disable);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_sentence() {
        for (text, words) in [
            ("postgres://u@h/d?sslmode=prefer", "protect from nobody"),
            ("postgres://u@h/d?sslmode=sometimes", "disable, require or verify-full"),
            ("postgres://h/d", "names no user"),
            ("postgres://u@h/d?host=/run", "not both"),
            ("postgres://u@/d?host=elsewhere", "the directory of a socket"),
            ("postgres://u@h/d?port=5", "goes with host=/DIRECTORY"),
            ("postgres://u@h/d?options=-c", "has no option \"options\""),
            ("postgres://u@h/d?sslrootcert=/nowhere", "cannot be read"),
            ("postgres://u@h/d?password-file=/nowhere", "cannot be read"),
        ] {
            let error = address(text).expect_err(text);
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }

    // proves S15
    #[test]
    fn an_address_shows_no_password() {
        let address = address("postgres://anna:hunter2@localhost/d").expect("a good address");
        assert!(!format!("{address} {address:?}").contains("hunter2"));
    }
}
