//! A member's way to a server over TLS, as it is where a proxy in front of the server speaks TLS: whom it trusts, as whom it
//! appears, and what becomes of a connection that all calls share.
// proves C13

#[path = "../../leasehold/tests/support/certificates.rs"]
mod certificates;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use certificates::Certificates;
use leasehold::clock;
use leasehold::store::StoreErrorKind::{Misconfigured, Unavailable};
use leasehold::store::conformance::{Member, pool};
use leasehold::store::http::{ApiKey, HttpStore};
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Cursor, LeaseStore, Store, StoreError, StoreErrorKind, StoreUrl};
use leasehold_server::{Running, Settings};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(60);

/// A server, and a proxy in front of it that speaks TLS.
struct Front {
    server: Running,
    address: SocketAddr,
    /// Connections that were made for HTTP/2.
    shared: Arc<AtomicUsize>,
    /// From each change on, connections that are open carry nothing any more.
    stall: watch::Sender<u64>,
}

impl Front {
    async fn new(certificates: &Certificates, asks_for_certificates: bool) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let server = leasehold_server::start(Settings::at(([127, 0, 0, 1], 0).into()), store).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config(certificates, asks_for_certificates)));
        let (behind, shared, stall) = (server.address(), Arc::default(), watch::Sender::new(0));
        let front = Self { server, address, shared, stall };
        let (shared, stall) = (Arc::clone(&front.shared), front.stall.subscribe());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(carry(stream, acceptor.clone(), behind, Arc::clone(&shared), stall.clone()));
            }
        });
        front
    }

    fn url(&self, options: &str) -> String {
        format!("https://localhost:{}{options}", self.address.port())
    }
}

fn config(certificates: &Certificates, asks_for_certificates: bool) -> ServerConfig {
    let authority = CertificateDer::from_pem_file(certificates.authority()).unwrap();
    let (chain, key) = certificates.server();
    let chain = vec![CertificateDer::from_pem_file(chain).unwrap()];
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let builder = match asks_for_certificates {
        false => ServerConfig::builder().with_no_client_auth(),
        true => {
            let mut roots = RootCertStore::empty();
            roots.add(authority).unwrap();
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
            ServerConfig::builder().with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

async fn carry(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    behind: SocketAddr,
    shared: Arc<AtomicUsize>,
    mut stall: watch::Receiver<u64>,
) {
    stall.mark_unchanged();
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        shared.fetch_add(1, Ordering::Relaxed);
    }
    let mut behind = TcpStream::connect(behind).await.unwrap();
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut stream, &mut behind) => {}
        _ = stall.changed() => std::future::pending().await,
    }
}

async fn open(url: &str) -> Result<HttpStore, StoreError> {
    let Ok(StoreUrl::Http(url)) = url.parse() else { panic!("{url} is not the address of a server") };
    HttpStore::open_with(&url, Some(ApiKey::new("hunter2").unwrap())).await
}

async fn refused(url: &str, kind: StoreErrorKind, words: &str) {
    let error = open(url).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(words), "{error:?}");
}

#[tokio::test]
async fn a_server_is_trusted_if_the_address_names_its_authority() {
    let certificates = Certificates::new();
    let front = Front::new(&certificates, false).await;
    let named = front.url(&format!("?ca={}", certificates.authority()));
    let store: Arc<dyn Store> = Arc::new(open(&named).await.unwrap());
    let mut one = Member::join(&store, "one").await;
    assert_eq!(one.take("a").await.token.0, 1);
    assert_eq!(front.shared.load(Ordering::Relaxed), 1, "one connection for all calls");
    refused(&front.url(""), Misconfigured, "name the authority with ca=FILE").await;
    let other = Certificates::new();
    refused(&front.url(&format!("?ca={}", other.authority())), Misconfigured, "could not be trusted").await;
    let plain =
        format!("https://127.0.0.1:{}?ca={}", front.server.address().port(), certificates.authority());
    refused(&plain, Misconfigured, "does not speak TLS; use http://").await;
}

#[tokio::test]
async fn a_member_appears_by_its_certificate_where_it_is_asked_for_one() {
    let certificates = Certificates::new();
    let front = Front::new(&certificates, true).await;
    let authority = certificates.authority();
    refused(&front.url(&format!("?ca={authority}")), Misconfigured, "give it our certificate with cert=FILE")
        .await;
    let (certificate, key) = (certificates.client(), certificates.client_key());
    let store = open(&front.url(&format!("?ca={authority}&cert={certificate}&key={key}"))).await.unwrap();
    store.sessions(&pool("work"), Cursor::START).await.expect("the server answers");
}

#[tokio::test]
async fn a_shared_connection_that_died_is_replaced() {
    let certificates = Certificates::new();
    let front = Front::new(&certificates, false).await;
    let store = open(&front.url(&format!("?ca={}", certificates.authority()))).await.unwrap();
    front.stall.send_modify(|count| *count += 1);
    let begun = clock::now();
    let mut unknown = 0;
    while let Err(error) = store.pools().await {
        assert_eq!(error.kind(), Unavailable, "{error:?}");
        assert!(clock::now().since(begun) < SOON, "{error:?}");
        unknown += 1;
    }
    assert!(unknown > 0, "the first connection was dead");
    assert_eq!(front.shared.load(Ordering::Relaxed), 2);
}
