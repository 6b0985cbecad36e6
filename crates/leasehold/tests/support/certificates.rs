//! A private authority with a server's and a client's certificate.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// Files in a directory that goes with this value.
pub(crate) struct Certificates {
    directory: TempDir,
}

impl Certificates {
    /// A new authority that nobody else knows.
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let write = |name: &str, text: String| {
            std::fs::write(directory.path().join(name), text).expect("our own directory");
        };
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("an authority");
        write("ca.pem", authority.pem());
        for name in ["server", "client"] {
            let key = KeyPair::generate().expect("a key");
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a good name");
            params.distinguished_name.push(DnType::CommonName, name);
            let certificate = params.signed_by(&key, &authority).expect("a certificate");
            write(&format!("{name}.pem"), certificate.pem());
            write(&format!("{name}.key"), key.serialize_pem());
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("a readable path").to_owned()
    }

    pub(crate) fn authority(&self) -> String {
        self.path("ca.pem")
    }

    pub(crate) fn client(&self) -> String {
        self.path("client.pem")
    }

    pub(crate) fn client_key(&self) -> String {
        self.path("client.key")
    }

    /// The server's certificate and its key.
    pub(crate) fn server(&self) -> (String, String) {
        (self.path("server.pem"), self.path("server.key"))
    }

    /// What makes a Redis server use them, and ask clients for theirs.
    pub(crate) fn server_args(&self) -> Vec<String> {
        let files = [("cert", "server.pem"), ("key", "server.key"), ("ca-cert", "ca.pem")];
        let mut args = vec!["--tls-auth-clients".to_owned(), "yes".to_owned()];
        for (what, name) in files {
            args.extend([format!("--tls-{what}-file"), self.path(name)]);
        }
        args
    }
}
