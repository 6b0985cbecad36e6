//! What is refused at the start, and who may ask what.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use tempfile::NamedTempFile;

use super::stage::{Scene, opened, with};
use crate::failure::code;
use crate::health::{Health, HealthArgs};

const SECRET: &str = "a-key-of-24-characters-x";

/// A file that only its user can read.
fn key_file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn args(address: &str, key: Option<&NamedTempFile>) -> HealthArgs {
    HealthArgs {
        health: Some(address.parse().unwrap()),
        health_key_file: key.map(|file| file.path().to_owned()),
    }
}

async fn refused(args: &HealthArgs) -> (u8, String) {
    let failure = Health::open(args).await.unwrap_err();
    (failure.code, failure.to_string())
}

#[tokio::test]
async fn nothing_is_told_unless_asked_for() {
    assert!(Health::open(&HealthArgs::default()).await.unwrap().is_none());
    let only_key = HealthArgs { health: None, health_key_file: Some(PathBuf::from("key")) };
    let (code, said) = refused(&only_key).await;
    assert_eq!(code, code::USAGE);
    assert!(said.contains("of no use without --health"), "{said}");
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_a_key() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8081"] {
        let (code, said) = refused(&args(address, None)).await;
        assert_eq!(code, code::USAGE);
        assert!(said.contains("needs a key; give one with --health-key-file"), "{said}");
    }
    let short = key_file("too-short\n");
    let (code, said) = refused(&args("0.0.0.0:0", Some(&short))).await;
    assert_eq!(code, code::USAGE);
    assert!(said.contains("holds a key of 9 characters") && !said.contains("too-short"), "{said}");
    let key = key_file(SECRET);
    assert!(Health::open(&args("0.0.0.0:0", Some(&key))).await.unwrap().is_some());
    assert!(Health::open(&args("[::ffff:127.0.0.1]:0", None)).await.unwrap().is_some());
}

#[tokio::test]
async fn an_address_that_cannot_be_had_is_named_with_what_to_do() {
    let (taken, address) = opened().await;
    let (code, said) = refused(&args(&address.0.to_string(), None)).await;
    assert_eq!(code, code::SYSTEM);
    assert_eq!(said, format!("{} is in use; give --health another address", address.0));
    drop(taken);
    let key = key_file(SECRET);
    let (code, said) = refused(&args("192.0.2.1:0", Some(&key))).await;
    assert_eq!(code, code::SYSTEM);
    assert!(said.contains("is no address of this machine"), "{said}");
}

#[tokio::test]
async fn with_a_key_only_a_yes_or_a_no_is_told_without_it() {
    let key = key_file(&format!("{SECRET}\n"));
    let server = Scene::at(with(&args("127.0.0.1:0", Some(&key))).await);
    let ask =
        async |path: &str, header: (&str, &str)| server.address.ask("GET", path, &[header]).await.status;
    for (path, open) in [("/healthz", 200), ("/readyz", 503), ("/leader", 503)] {
        assert_eq!(server.address.get(path).await.status, open, "{path}");
    }
    let bearer = format!("Bearer {SECRET}");
    let lower = format!("bearer {SECRET}");
    let closed =
        ["/health", "/ready", "/metrics", "/info", "/admin/leader-status", "/admin/stats", "/nothing"];
    for path in closed {
        let answer = server.address.get(path).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{path}");
        assert!(answer.json()["error"].as_str().unwrap().contains("needs the key"));
        for header in [("Authorization", bearer.as_str()), ("Authorization", &lower), ("X-API-Key", SECRET)] {
            assert_ne!(ask(path, header).await, 401, "{path} {header:?}");
        }
    }
    for path in ["/admin/resign-leadership", "/admin/trigger-reconcile"] {
        assert_eq!(server.address.post(path).await.status, 401, "{path}");
    }
    let key = [("X-API-Key", SECRET)];
    assert_eq!(server.address.ask("POST", "/admin/trigger-reconcile", &key).await.status, 409);
    let longer = format!("{SECRET}x");
    for wrong in [
        ("Authorization", SECRET),
        ("Authorization", "Bearer"),
        ("Authorization", "Bearer "),
        ("Authorization", &format!("Basic {SECRET}")),
        ("X-API-Key", ""),
        ("X-API-Key", &SECRET[1..]),
        ("X-API-Key", &longer),
    ] {
        assert_eq!(ask("/info", wrong).await, 401, "{wrong:?}");
    }
    for nearly in ["/leader/", "//leader", "/Leader", "/%6ceader", "/leader/../info"] {
        assert_eq!(server.address.get(nearly).await.status, 401, "{nearly}");
    }
}

#[test]
fn options_are_an_address_and_a_path() {
    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        health: HealthArgs,
    }

    let line = Line::try_parse_from(["x", "--health", "[::1]:8081", "--health-key-file", "key"]).unwrap();
    assert_eq!(line.health.health, Some(SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 8081))));
    assert_eq!(line.health.health_key_file, Some(PathBuf::from("key")));
    for wrong in ["localhost:8081", "8081", "127.0.0.1", ""] {
        let error = Line::try_parse_from(["x", "--health", wrong]).unwrap_err().to_string();
        assert!(error.contains("is no address; give a number and a port"), "{error}");
    }
}
