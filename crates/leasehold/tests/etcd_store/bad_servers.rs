//! Servers that cannot be used, and what is said about them in bounded time.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use leasehold::store::StoreErrorKind::{Misconfigured, Unavailable};
use leasehold::store::conformance::{Member, pool};
use leasehold::store::{Answer, Begin, Cursor, Grade};
use leasehold_testkit::{Dir, Etcd, EtcdOptions, free_port};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::support::{chain, eventually, expect, live, open, refusal, timed, url};

/// A private authority and a server's certificate from it.
struct Certificates {
    dir: Dir,
}

impl Certificates {
    fn new() -> Self {
        let dir = Dir::new();
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("a certificate");
        let issuer = Issuer::new(params, key);
        let server_key = KeyPair::generate().expect("a key");
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let server = CertificateParams::new(names).expect("good names").signed_by(&server_key, &issuer);
        std::fs::write(dir.join("ca.pem"), authority.pem()).expect("our own file");
        std::fs::write(dir.join("cert.pem"), server.expect("a certificate").pem()).expect("our own file");
        std::fs::write(dir.join("key.pem"), server_key.serialize_pem()).expect("our own file");
        Self { dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn server(&self) -> Etcd {
        let tls = Some((self.file("cert.pem"), self.file("key.pem")));
        Etcd::start_with(EtcdOptions { tls, ..EtcdOptions::default() })
    }
}

#[tokio::test]
async fn a_certificate_from_a_private_authority_is_accepted_if_the_address_names_it() {
    let certificates = Certificates::new();
    let server = certificates.server();
    let address = server.url("tls");
    let named = format!("{address}?ca={}", certificates.file("ca.pem").display());
    let store = live(&named).await;
    let mut one = Member::join(&store, "one").await;
    assert_eq!(one.take("a").await.token.0, 1);
    expect(&refusal(&address).await, Misconfigured, "?ca=FILE");
    let plain = address.replace("etcds://", "etcd://");
    expect(&refusal(&plain).await, Misconfigured, "asks for TLS; use etcds://");
}

#[tokio::test]
async fn a_server_that_asks_for_a_clients_certificate_is_given_one() {
    let certificates = Certificates::new();
    let path = |name: &str| certificates.file(name).display().to_string();
    let tls = Some((certificates.file("cert.pem"), certificates.file("key.pem")));
    let arguments = vec!["--client-cert-auth".to_owned(), "--trusted-ca-file".to_owned(), path("ca.pem")];
    let ctl = vec!["--cert".to_owned(), path("cert.pem"), "--key".to_owned(), path("key.pem")];
    let server = Etcd::start_with(EtcdOptions { tls, arguments, ctl, ..EtcdOptions::default() });
    let without = format!("{}?ca={}", server.url("mutual"), path("ca.pem"));
    let refused = chain(&refusal(&without).await);
    assert!(refused.contains("?cert=FILE&key=FILE"), "{refused}");
    let store = live(&format!("{without}&cert={}&key={}", path("cert.pem"), path("key.pem"))).await;
    let mut one = Member::join(&store, "one").await;
    assert_eq!(one.take("a").await.token.0, 1);
    let half = format!("{without}&cert={}", path("cert.pem"));
    expect(&refusal(&half).await, Misconfigured, "cert and key go together");
}

#[tokio::test]
async fn a_server_without_tls_is_told_from_one_with_a_bad_certificate() {
    let server = Etcd::start();
    let tls = server.url("plain").replace("etcd://", "etcds://");
    expect(&refusal(&tls).await, Misconfigured, "does not speak TLS; use etcd://");
}

// proves S15
#[tokio::test]
async fn a_wrong_password_is_refused_and_never_shown_and_a_login_that_ended_is_made_again() {
    let mut server = Etcd::start();
    for command in [
        &["user", "add", "root:canary-root"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "keeper"],
        &["role", "grant-permission", "keeper", "readwrite", "--prefix=true", "mine/"],
        &["user", "add", "anna:canary-anna"],
        &["user", "grant-role", "anna", "keeper"],
        &["auth", "enable"],
    ] {
        let _ = server.try_ctl(command, "");
    }
    let with = |user: &str, prefix: &str| server.url(prefix).replace("etcd://", &format!("etcd://{user}@"));
    expect(&refusal(&server.url("mine")).await, Misconfigured, "asks for a user and a password");
    let wrong = refusal(&with("anna:canary-wrong", "mine")).await;
    expect(&wrong, Misconfigured, "does not accept this user and password");
    let elsewhere = refusal(&with("anna:canary-anna", "theirs")).await;
    expect(&elsewhere, Misconfigured, "grant it readwrite on the store's prefix");
    let store = live(&with("anna:canary-anna", "mine")).await;
    let mut one = Member::join(&store, "one").await;
    let shown = format!("{} {wrong:?} {} {elsewhere:?} {store:?}", chain(&wrong), chain(&elsewhere));
    assert!(!shown.contains("canary"), "{shown}");

    // A login does not survive a restart of the server.
    server.restart();
    let pulse = one.pulse();
    let beat = eventually("the login is made again", async || store.beat(one.id(), pulse).await.ok()).await;
    assert_eq!(beat, Answer::Done(vec![]));
}

#[tokio::test]
async fn a_user_where_there_are_none_is_refused() {
    let server = Etcd::start();
    let with_user = server.url("x").replace("etcd://", "etcd://anna:secret@");
    expect(&refusal(&with_user).await, Misconfigured, "leave user and password out");
}

#[tokio::test]
async fn a_server_that_accepts_and_never_answers_is_given_up_in_bounded_time() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("etcd://127.0.0.1:{}", silent.local_addr().expect("its address").port());
    let (error, took) = timed(refusal(&address)).await;
    assert_eq!(error.kind(), Unavailable, "{}", chain(&error));
    assert!(took < Duration::from_secs(15), "it took {took:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_at_once() {
    let (error, took) = timed(refusal(&format!("etcd://127.0.0.1:{}", free_port()))).await;
    expect(&error, Unavailable, "refused");
    assert!(took < Duration::from_secs(5), "it took {took:?}");
}

#[tokio::test]
async fn a_paused_server_makes_calls_unknown_in_bounded_time_and_is_used_again_when_it_goes_on() {
    let server = Etcd::start();
    let store = live(&server.url("paused")).await;
    let mut one = Member::join(&store, "one").await;
    server.pause();
    let pulse = one.pulse();
    let (error, took) = timed(store.beat(one.id(), pulse)).await;
    assert_eq!(error.expect_err("nobody answers").kind(), Unavailable);
    assert!(took < Duration::from_secs(6), "it took {took:?}");
    server.resume();
    let pulse = one.pulse();
    let beat = eventually("the server goes on", async || store.beat(one.id(), pulse).await.ok()).await;
    assert_eq!(beat, Answer::Done(vec![]));
}

#[tokio::test]
async fn a_full_server_grants_nothing_and_says_what_to_do() {
    let arguments = vec!["--quota-backend-bytes".to_owned(), "4194304".to_owned()];
    let server = Etcd::start_with(EtcdOptions { arguments, ..EtcdOptions::default() });
    let store = live(&server.url("full")).await;
    let mut one = Member::join(&store, "one").await;
    let (held, much) = (one.take("a").await, "x".repeat(1 << 20));
    while server.try_ctl(&["put", "filler"], &much).status.success() {}
    let pulse = one.pulse();
    let wanted = [leasehold::store::conformance::wanted("b")];
    let error = store.acquire(one.id(), pulse, &wanted).await.expect_err("nothing can be written");
    expect(&error, Unavailable, "alarm NOSPACE");
    let leases = store.leases(&pool("work"), Cursor::START).await.expect("reading goes on").items;
    assert_eq!(leases.len(), 1, "nothing was granted on a guess");
    let findings = store.checkup().await.expect("it can be looked over").findings;
    assert!(findings.iter().any(|finding| finding.weak && finding.what.contains("NOSPACE")), "{findings:?}");

    server.compact();
    let _ = (server.ctl(&["defrag"]), server.ctl(&["alarm", "disarm"]));
    assert_eq!(one.beat().await, Answer::Done(vec![]), "the session goes on");
    assert_eq!(one.give_back(&held).await, leasehold::store::Released::Freed);
}

#[tokio::test]
async fn endpoints_of_different_clusters_are_refused() {
    let (one, two) = (Etcd::start(), Etcd::start());
    let both = format!("etcd://127.0.0.1:{},127.0.0.1:{}", one.port(), two.port());
    expect(&refusal(&both).await, Misconfigured, "belong to different etcd clusters");
}

#[tokio::test]
async fn keys_that_are_not_ours_and_records_of_a_newer_version_are_refused() {
    let server = Etcd::start();
    let _ = server.ctl(&["put", "theirs/era", "their own"]);
    expect(&refusal(&server.url("theirs")).await, Misconfigured, "holds what Leasehold did not write");
    let store = live(&server.url("newer")).await;
    drop(store);
    let era = server.ctl(&["get", "newer/era", "--print-value-only"]).replace("\"format\":1", "\"format\":9");
    let _ = server.ctl(&["put", "newer/era", era.trim()]);
    expect(&refusal(&server.url("newer")).await, Misconfigured, "written by another version (format 9");
    let refused = leasehold::store::migrate(&url(&server.url("newer")), Begin::Live).await;
    expect(&refused.expect_err("it is newer"), Misconfigured, "written by another version");
}

#[tokio::test]
async fn an_address_that_cannot_be_meant_is_refused_before_anything_is_asked() {
    for (rest, words) in [
        ("?tls=yes", "has no option \"tls\""),
        ("?ca=/nowhere", "cannot be read"),
        ("?mirror=work", "is not POOL/RESOURCE=KEY"),
        ("?mirror=work/a=leasehold/era", "within the store's own prefix"),
        ("?mirror=work/a=/x;work/b=/x", "belong together and to nothing else"),
    ] {
        expect(&refusal(&format!("etcd://127.0.0.1:1{rest}")).await, Misconfigured, words);
    }
    expect(&refusal("etcd://anna@127.0.0.1:1").await, Misconfigured, "no password");
}

#[tokio::test]
async fn what_is_weak_about_a_server_is_found() {
    let server = Etcd::start();
    let store = live(&server.url("weak")).await;
    let checkup = store.checkup().await.expect("it can be looked over");
    assert!(checkup.server.starts_with("etcd 3."), "{}", checkup.server);
    assert_eq!(
        (checkup.grade, store.capabilities().grade),
        (Grade::DurableOnOneNode, Grade::DurableOnOneNode)
    );
    let weak: Vec<&str> =
        checkup.findings.iter().filter(|finding| finding.weak).map(|finding| finding.what.as_str()).collect();
    assert!(weak.iter().any(|what| what.contains("one voting member")), "{weak:?}");
    assert!(checkup.findings.iter().all(|finding| finding.weak == finding.advice.is_some()));
}

#[tokio::test]
async fn a_store_that_nobody_prepared_begins_frozen_and_one_that_is_there_is_never_touched() {
    let server = Etcd::start();
    let address = server.url("unprepared");
    let store = open(&address).await;
    let era = super::support::era_of(&store).await;
    assert_eq!((era.frozen, era.ttl_max), (true, Duration::from_secs(60)));
    let migrated = leasehold::store::migrate(&url(&address), Begin::Live).await.expect("it is there");
    assert_eq!((migrated.before, migrated.now), (Some(1), 1));
    assert_eq!(super::support::era_of(&store).await, era, "an operator's word counts only for a new store");
}
