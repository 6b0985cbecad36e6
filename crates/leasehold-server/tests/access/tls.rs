//! TLS: certificates that change while the server runs, certificates of clients, and files that cannot be used.

use std::path::PathBuf;
use std::time::Duration;

use leasehold::clock;
use leasehold_server::keys::Role;
use leasehold_server::{ClientCertificates, Running, StartError, TlsSettings, start};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use reqwest::{Certificate, Client, Identity, StatusCode};

use super::stage::{PATIENCE, Stage};

/// An authority, and files for a server.
pub(crate) struct Files {
    issuer: Issuer<'static, KeyPair>,
    authority: String,
    cert: PathBuf,
    key: PathBuf,
    ca: PathBuf,
}

fn write(path: &PathBuf, text: &str) {
    std::fs::write(path, text).unwrap();
    set_mode(path, 0o600);
}

fn set_mode(path: &PathBuf, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

impl Files {
    pub(crate) fn new(stage: &Stage) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let at = |name: &str| stage.place.path().join(name);
        let (cert, ca) = (at("cert.pem"), at("ca.pem"));
        let files = Self { issuer: Issuer::new(params, key), authority, cert, key: at("key.pem"), ca };
        write(&files.ca, &files.authority);
        files.renew();
        files
    }

    fn issue(&self, name: &str) -> (String, String) {
        let names = vec![name.to_owned(), "127.0.0.1".to_owned()];
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        (cert.pem(), key.serialize_pem())
    }

    /// A new certificate in the files.
    fn renew(&self) {
        let (cert, key) = self.issue("localhost");
        write(&self.key, &key);
        write(&self.cert, &cert);
    }

    pub(crate) fn settings(&self) -> TlsSettings {
        TlsSettings { cert: self.cert.clone(), key: self.key.clone(), clients: None }
    }

    fn client(&self, identity: bool) -> Client {
        let authority = Certificate::from_pem(self.authority.as_bytes()).unwrap();
        let mut builder = Client::builder().tls_certs_only([authority]).tls_info(true);
        if identity {
            let (cert, key) = self.issue("tracker");
            builder = builder.identity(Identity::from_pem(format!("{cert}{key}").as_bytes()).unwrap());
        }
        builder.build().unwrap()
    }
}

async fn serve(stage: &Stage, tls: TlsSettings) -> Running {
    let mut settings = Stage::settings();
    settings.tls = Some(tls);
    start(settings, stage.store().await).await.unwrap()
}

/// The certificate that a new connection is shown.
async fn shown(files: &Files, server: &Running) -> Vec<u8> {
    let url = format!("https://localhost:{}/healthz", server.address().port());
    let answer = files.client(false).get(url).send().await.unwrap();
    assert_eq!(answer.version(), reqwest::Version::HTTP_2);
    answer.extensions().get::<reqwest::tls::TlsInfo>().unwrap().peer_certificate().unwrap().to_vec()
}

// proves R039
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_changes_while_the_server_runs() {
    let stage = Stage::new();
    let files = Files::new(&stage);
    let server = serve(&stage, files.settings()).await;
    let first = shown(&files, &server).await;
    // A file that cannot be used changes nothing.
    let good = std::fs::read_to_string(&files.cert).unwrap();
    write(&files.cert, "nonsense");
    server.reload().await;
    assert_eq!(shown(&files, &server).await, first);
    write(&files.cert, &files.issue("localhost").0);
    server.reload().await;
    assert_eq!(shown(&files, &server).await, first, "the certificate of another key");
    write(&files.cert, &good);
    // A new one is found by itself.
    files.renew();
    let began = clock::now();
    while shown(&files, &server).await == first {
        assert!(clock::now().since(began) < PATIENCE, "the old certificate is still shown");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let second = shown(&files, &server).await;
    files.renew();
    server.reload().await;
    assert_ne!(shown(&files, &server).await, second, "and at once when it is asked for");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_a_client_is_asked_for_besides_its_key() {
    let stage = Stage::new();
    let files = Files::new(&stage);
    let key = stage.key(Role::Read, None, None).await;
    for optional in [false, true] {
        let mut tls = files.settings();
        tls.clients = Some(ClientCertificates { ca: files.ca.clone(), optional });
        let server = serve(&stage, tls).await;
        let url = format!("https://localhost:{}/api/v1/pools", server.address().port());
        let without = files.client(false).get(&url).bearer_auth(&key.text).send().await;
        match without {
            Ok(answer) => assert!(optional && answer.status() == StatusCode::OK, "{answer:?}"),
            Err(error) => assert!(!optional, "{error:?}"),
        }
        let with = files.client(true);
        let answer = with.get(&url).bearer_auth(&key.text).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let answer = with.get(&url).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "it takes no key's place");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_are_refused_with_a_sentence() {
    let stage = Stage::new();
    let files = Files::new(&stage);
    let refused = async |tls: TlsSettings| {
        let mut settings = Stage::settings();
        settings.tls = Some(tls);
        let refused = start(settings, stage.store().await).await.unwrap_err();
        assert!(matches!(refused, StartError::Tls(_)));
        refused.to_string()
    };
    set_mode(&files.key, 0o644);
    let said = refused(files.settings()).await;
    assert!(said.contains("chmod 600") && said.contains("key.pem"), "{said}");
    set_mode(&files.key, 0o640);
    serve(&stage, files.settings()).await.stop().await;
    let said = refused(TlsSettings { cert: stage.place.path().join("none"), ..files.settings() }).await;
    assert!(said.contains("none"), "{said}");
    let said = refused(TlsSettings { key: files.cert.clone(), ..files.settings() }).await;
    assert!(said.contains("cert.pem"), "{said}");
    write(&files.ca, "nonsense");
    let clients = Some(ClientCertificates { ca: files.ca.clone(), optional: false });
    let said = refused(TlsSettings { clients, ..files.settings() }).await;
    assert!(said.contains("ca.pem"), "{said}");
}
