//! Servers that cannot be used, each with what to do about it.

use std::net::TcpListener;

use leasehold::store::conformance::Member;
use leasehold::store::{Grade, StoreErrorKind};
use leasehold_testkit::{Postgres, free_port};

use super::postgres_server::open;
use super::{assert_misconfigured, prepared, refusal, url};

#[tokio::test]
async fn a_wrong_password_is_refused_and_never_shown() {
    let server = prepared(&["fsync=off"]).await;
    server.sql("work", "CREATE ROLE anna LOGIN PASSWORD 'right'");
    server.let_in("host all all 127.0.0.1/32 scram-sha-256");
    let at = format!("127.0.0.1:{}/work", server.port());
    assert_misconfigured(&refusal(&format!("postgres://anna:hunter2@{at}")).await, "correct the password");
    assert_misconfigured(&refusal(&format!("postgres://anna@{at}")).await, "password");
    assert_misconfigured(&refusal(&format!("postgres://nobody:hunter2@{at}")).await, "correct the password");
    let error = refusal(&format!("postgres://anna:right@{at}")).await;
    assert_misconfigured(&error, "GRANT USAGE ON SCHEMA leasehold");
    server.let_in("host all all 127.0.0.1/32 reject");
    assert_misconfigured(&refusal(&format!("postgres://anna:hunter2@{at}")).await, "pg_hba.conf");
}

/// proves S15
#[tokio::test]
async fn a_role_with_the_least_privilege_can_do_everything_a_member_does() {
    let server = prepared(&["fsync=off"]).await;
    server.sql(
        "work",
        "CREATE ROLE anna LOGIN PASSWORD 'hunter2'; GRANT USAGE ON SCHEMA leasehold TO anna; \
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA leasehold TO anna",
    );
    server.let_in("host all all 127.0.0.1/32 scram-sha-256");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "hunter2\n").expect("it can be written");
    let at = format!("127.0.0.1:{}/work?password-file={}", server.port(), file.path().display());
    let store = open(&format!("postgres://anna@{at}").parse().expect("a good URL")).await;
    assert!(!format!("{store:?}").contains("hunter2"));
    let mut one = Member::join(&store, "one").await;
    let held = one.take("a").await;
    let _ = (one.beat().await, one.give_back(&held).await);
    one.close().await;
    store.collect(one.id()).await.expect("the store answers");
    assert_eq!(store.checkup().await.expect("the store answers").grade, Grade::MayLoseWrites, "fsync is off");
    let direct = "SET ROLE anna; DELETE FROM leasehold.leases";
    assert!(server.try_sql("work", direct).is_err(), "the tables themselves are out of its reach");
}

#[tokio::test]
async fn a_missing_database_is_refused() {
    let server = Postgres::start();
    let error = refusal(&server.url("nowhere")).await;
    assert_misconfigured(&error, "create it, or name another in the address");
}

#[tokio::test]
async fn an_encoding_or_an_isolation_that_cannot_be_used_is_refused() {
    let server = prepared(&["fsync=off"]).await;
    server.sql("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    assert_misconfigured(&refusal(&server.url("latin")).await, "ENCODING 'UTF8'");
    server.sql("work", "ALTER DATABASE work SET default_transaction_isolation = 'serializable'");
    assert_misconfigured(&refusal(&server.url("work")).await, "'read committed'");
}

#[tokio::test]
async fn a_replica_is_refused_and_its_primary_found_among_several() {
    let server = prepared(&["fsync=off"]).await;
    let replica = server.replica(&["fsync=off"]);
    let error = refusal(&replica.url("work")).await;
    assert_misconfigured(&error, "it is a read-only replica");
    let both = |first: u16, second: u16| {
        format!("postgres://leasehold@127.0.0.1:{first},127.0.0.1:{second}/work").parse().expect("a good URL")
    };
    for url in [both(replica.port(), server.port()), both(free_port(), server.port())] {
        let store = open(&url).await;
        let _ = Member::join(&store, "one").await;
        assert_eq!(store.capabilities().grade, Grade::MayLoseWrites, "a standby follows asynchronously");
    }
}

#[tokio::test]
async fn a_server_that_accepts_and_never_answers_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("its address").port();
    let error = refusal(&format!("postgres://anna:hunter2@127.0.0.1:{port}/work")).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("did not answer within"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_may_come() {
    let error = refusal(&format!("postgres://anna:hunter2@127.0.0.1:{}/work", free_port())).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("it refuses connections"), "{error}");
}

#[tokio::test]
async fn a_socket_in_a_directory_is_as_good_as_a_port() {
    let server = prepared(&["fsync=off"]).await;
    let directory = server.socket_dir().display().to_string().replace('/', "%2F");
    let text = format!("postgres://leasehold@/work?host={directory}&port={}", server.port());
    let store = open(&text.parse().expect("a good URL")).await;
    assert_eq!(Member::join(&store, "one").await.take("a").await.token.0, 1);
    drop(open(&url(&server)).await);
}
