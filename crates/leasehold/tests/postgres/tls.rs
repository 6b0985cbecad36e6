//! TLS with a certificate authority of one's own.

use leasehold::store::conformance::Member;
use leasehold_testkit::Postgres;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::postgres_server::open;
use super::{Begin, assert_misconfigured, prepared, refusal};

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("a certificate")
}

/// A server with a certificate for `name`.
fn server_for(name: &str, authority: &CertifiedIssuer<'static, KeyPair>) -> Postgres {
    use std::os::unix::fs::PermissionsExt;

    let server = Postgres::start();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a good name");
    let certificate = params.signed_by(&key, authority).expect("a certificate");
    for (file, text) in [("server.crt", certificate.pem()), ("server.key", key.serialize_pem())] {
        let path = server.dir().join(file);
        std::fs::write(&path, text).expect("a file in the server's directory");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("our own file");
        server.dir().give(&path);
        let setting = if file.ends_with("crt") { "ssl_cert_file" } else { "ssl_key_file" };
        server.sql("postgres", &format!("ALTER SYSTEM SET {setting} = '{}'", path.display()));
    }
    server.sql("postgres", "ALTER SYSTEM SET ssl = on");
    server.sql("postgres", "SELECT pg_reload_conf()");
    leasehold_testkit::wait_for("TLS is on", || server.sql("postgres", "SHOW ssl").trim() == "on");
    server.create("work");
    server
}

#[tokio::test]
async fn a_server_is_spoken_to_if_its_certificate_is_signed_by_whom_we_trust() {
    let (ours, others) = (authority(), authority());
    let file = |text: String| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("it can be written");
        file
    };
    let (our_file, other_file) = (file(ours.pem()), file(others.pem()));
    let server = server_for("127.0.0.1", &ours);
    let at = |host: &str, file: &tempfile::NamedTempFile, mode: &str| {
        let (port, file) = (server.port(), file.path().display());
        format!("postgres://leasehold:hunter2@{host}:{port}/work?sslmode={mode}&sslrootcert={file}")
    };
    let good = at("127.0.0.1", &our_file, "verify-full").parse().expect("a good URL");
    leasehold::store::migrate(&good, Begin::Live).await.expect("it can be prepared");
    let store = open(&good).await;
    let _ = Member::join(&store, "one").await;
    let secured = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                   WHERE application_name = 'leasehold'";
    assert_eq!(server.sql("postgres", secured).trim(), "t");

    let words = "give its CA with sslrootcert=FILE";
    assert_misconfigured(&refusal(&at("127.0.0.1", &other_file, "require")).await, words);
    assert_misconfigured(&refusal(&at("localhost", &our_file, "verify-full")).await, words);
    let plain = prepared(&["fsync=off"]).await;
    let asked = format!("postgres://leasehold:hunter2@127.0.0.1:{}/work?sslmode=require", plain.port());
    assert_misconfigured(&refusal(&asked).await, "no TLS with it");
    let garbage = file("this is no certificate".to_owned());
    assert_misconfigured(&refusal(&at("127.0.0.1", &garbage, "require")).await, "it is a PEM file");
}
