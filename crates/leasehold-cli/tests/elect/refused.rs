//! What is refused, with a sentence, before anything is joined.

use super::*;

fn refusal(place: &Place, words: &[&str]) -> (Option<i32>, String) {
    let ran = place.ask(&[&["elect"], words].concat());
    assert_eq!((ran.out.as_str(), place.names().len()), ("", 0), "{words:?} did something: {}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    (ran.code, ran.err)
}

#[test]
fn what_cannot_be_used_is_refused_with_a_sentence() {
    let place = Place::new();
    let long = "x".repeat(200);
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--key", "", "--", "true"], 2, "the key of an election is empty"),
        (&["--key", "a\tb", "--", "true"], 2, "control character"),
        (&["--key", &long, "--", "true"], 2, "at most 128 are allowed"),
        (&["--", "true"], 2, "there is no key"),
        (&["--key", "k", "--ttl", "10ms", "--", "true"], 2, "the TTL is 10ms"),
        (&["--key", "k"], 2, "<CMD>"),
        (&["--key", "k", "--", "no-such-command"], 127, "does not exist"),
        (&["--key", "k", "--observe", "--once"], 2, "--once"),
        (&["--key", "k", "--health", "0.0.0.0:0", "--", "true"], 2, "needs a key"),
    ];
    for (words, code, said) in cases {
        let (found, err) = refusal(&place, words);
        assert_eq!(found, Some(code), "{words:?}: {err}");
        assert!(err.contains(said), "{words:?}: {err}");
    }
}

#[test]
fn an_address_in_use_is_refused_before_anything_is_joined() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, err) = refusal(&place, &["--key", "k", "--health", &address, "--", "true"]);
    assert_eq!(code, Some(71), "{err}");
    assert!(err.contains("is in use; give --health another address"), "{err}");
}

#[test]
fn without_a_store_or_with_a_bad_environment_nothing_starts() {
    let without = ran(leasehold().args(["elect", "--key", "k", "--", "true"]));
    assert_eq!(without.code, Some(2));
    assert!(without.err.contains("there is no store"), "{}", without.err);
    let place = Place::new();
    let mut bad = leasehold();
    bad.args(["elect", "--store", &place.url(), "--key", "k", "--", "true"]).env("LEADER_LEASE_TTL", "soon");
    let bad = ran(&mut bad);
    assert!(bad.code == Some(2) && bad.err.contains("is no number of seconds"), "{}", bad.err);
}
