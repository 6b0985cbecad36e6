//! Servers that are not there, do not answer, or are not what the address says. Whatever happens, the password in the
//! address is not repeated.

use std::net::TcpListener;
use std::time::Duration;

use leasehold::clock;

use crate::support::{Place, leasehold, ran};
use crate::{refused, refused_command};

/// Schemes, each with a path that goes with it.
const SCHEMES: [(&str, &str); 4] =
    [("postgres", "work"), ("redis", "0"), ("etcd", "work"), ("redis+sentinel", "main")];
/// A Leasehold server's address has no user and no path of its own.
const PLAIN: [&str; 2] = ["http", "https"];
/// How long anybody may be kept waiting on a busy machine.
const BOUND: Duration = Duration::from_secs(40);

fn status_fails(url: &str, code: i32, words: &[&str]) {
    let place = Place::new();
    let begun = clock::now();
    refused(&place, &["status", "--store", url], code, words);
    let said = ran(leasehold().args(["doctor", "--store", url]));
    assert!(!said.err.contains("hunter2"), "{said:?}");
    assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{said:?}");
    let took = clock::now().since(begun);
    assert!(took < BOUND, "{url}: {took:?}");
}

// proves "never a grant on a guess"
#[test]
fn a_server_that_accepts_and_never_answers_is_given_up_in_bounded_time() {
    for (scheme, path) in SCHEMES {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        status_fails(&format!("{scheme}://anna:hunter2@127.0.0.1:{port}/{path}"), 69, &[&port.to_string()]);
    }
    for scheme in PLAIN {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        status_fails(&format!("{scheme}://127.0.0.1:{port}"), 69, &[&port.to_string()]);
    }
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_away() {
    for (scheme, path) in SCHEMES {
        let port = leasehold_testkit::free_port();
        status_fails(&format!("{scheme}://anna:hunter2@127.0.0.1:{port}/{path}"), 69, &[&port.to_string()]);
    }
    for scheme in PLAIN {
        let port = leasehold_testkit::free_port();
        status_fails(&format!("{scheme}://127.0.0.1:{port}"), 69, &[&port.to_string()]);
    }
}

#[test]
fn a_member_does_not_start_on_a_server_that_is_away() {
    let place = Place::new();
    for (scheme, path) in SCHEMES {
        let url = format!("{scheme}://anna:hunter2@127.0.0.1:{}/{path}", leasehold_testkit::free_port());
        let mut run = leasehold();
        run.args(["run", "--store", &url, "--pool", "jobs", "--resources", "a", "--", "touch", "worked"]);
        refused_command(&place, &mut run, 69, &["127.0.0.1"]);
    }
}

// proves S15
#[test]
fn an_address_that_is_none_is_refused_without_being_repeated() {
    let place = Place::new();
    for (url, word) in [
        ("postgres:anna:hunter2@h", "two slashes"),
        ("redis://anna:hunter2@", "no host"),
        ("redis://anna:hun/ter2@h:x", "a port is a number"),
        ("etcd://anna:hunter2%@h", "two hexadecimal digits"),
        ("etcd://anna:hunter2@h?ca", "name=value"),
    ] {
        refused(&place, &["status", "--store", url], 2, &["--store", word]);
        let said = ran(leasehold().args(["status", "--store", url]));
        assert!(!said.err.contains("hunter") && !said.err.contains("ter2"), "{said:?}");
    }
    for (scheme, path) in SCHEMES {
        let url = format!("{scheme}://anna@h/{path}?colour=blue");
        refused(&place, &["status", "--store", &url], 2, &["has no option \"colour\"", "password-file"]);
        let url = format!("{scheme}://anna@h/{path}?password-file=/nowhere");
        refused(&place, &["status", "--store", &url], 2, &["the password file /nowhere cannot be read"]);
    }
}

// proves C13, S15
#[test]
fn a_key_to_a_server_is_neither_shown_nor_sent_in_clear() {
    let place = Place::new();
    let with_key = |url: &str, words: &[&str]| {
        let mut status = leasehold();
        status.args(["status", "--store", url]).env("LEASEHOLD_API_KEY", "hunter2");
        refused_command(&place, &mut status, 2, words);
        let said = ran(leasehold().args(["doctor", "--store", url]).env("LEASEHOLD_API_KEY", "hunter2"));
        assert!(!said.err.contains("hunter2"), "{said:?}");
    };
    with_key("http://192.0.2.1", &["would travel to http://192.0.2.1:80 in clear", "use https://"]);
    with_key("http://anna:hunter2@127.0.0.1", &["put the API key into LEASEHOLD_API_KEY"]);
    refused(&place, &["status", "--store", "http://h?colour=blue"], 2, &["has no option \"colour\""]);
    refused(&place, &["migrate", "--store", "http://h"], 2, &["prepares its store itself"]);
    let mut status = leasehold();
    status.args(["status", "--store", "http://127.0.0.1"]).env("LEASEHOLD_API_KEY_FILE", "/nowhere");
    refused_command(&place, &mut status, 2, &["/nowhere, named by LEASEHOLD_API_KEY_FILE, cannot be read"]);
}
