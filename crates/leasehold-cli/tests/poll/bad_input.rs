//! Input that cannot be used: said clearly, the others undisturbed.

use std::process::Command;

use leasehold_testkit::{Redis, RedisSetup};

use crate::fleet::Fleet;
use crate::support::{Ran, leasehold, ran, wait_until};

fn poll(url: &str, options: &[&str]) -> Ran {
    let mut command: Command = leasehold();
    ran(command.args(["poll", "--store", url, "--log", "error"]).args(options))
}

fn refused(url: &str, options: &[&str], code: i32, said: &[&str]) {
    let ran = poll(url, options);
    assert_eq!(ran.code, Some(code), "{options:?}: {}", ran.err);
    for words in said {
        assert!(ran.err.contains(words), "{words:?} is not in {:?}", ran.err);
    }
    assert!(!ran.err.contains("hush"), "{}", ran.err);
    assert_eq!(ran.err.trim_end().lines().count(), 1, "{}", ran.err);
}

#[test]
fn sessions_that_cannot_be_used_are_reported_once_and_the_others_are_polled() {
    let mut fleet = Fleet::new(2);
    let huge = format!(r#"{{"id":"huge","note":"{}"}}"#, "x".repeat(100_000));
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(300));
    for (key, session) in [
        ("text", "hush, this is not JSON"),
        ("nobody", r#"{"name":"n"}"#),
        ("braces", r#"{"id":"a{b}"}"#),
        ("spaces", r#"{"id":"a b"}"#),
        ("slashes", r#"{"id":"../a"}"#),
        ("long", &long),
        ("huge", &huge),
        ("nowhere", r#"{"id":"nowhere","address":"http://hush hush/"}"#),
        ("ftp", r#"{"id":"ftp","address":"ftp://hush/"}"#),
        ("missing", r#"{"id":"missing"}"#),
    ] {
        fleet.redis.cli(&["SET", &format!("session:{key}"), session]);
    }
    fleet.redis.cli(&["EVAL", "for i = 1, 5000 do redis.call('SET', 'cache:' .. i, i) end", "0"]);
    fleet.enter("one");
    fleet.until_shared(&["one"], &[2]);
    // Long enough to be looked at again.
    fleet.add("e3");
    fleet.until_shared(&["one"], &[3]);
    let log = fleet.log_of("one");
    for (name, said) in [
        ("session:text", "it is not JSON"),
        ("session:nobody", "it has no field"),
        ("session:braces", "contains '{'"),
        ("session:spaces", "contains ' '"),
        ("session:slashes", "contains '/'"),
        ("session:long", "at most 128 are allowed"),
        ("session:huge", "more than 65536 bytes"),
        ("nowhere", "its address is no URL"),
        ("ftp", "only http and https"),
        ("missing", "it has no address"),
    ] {
        let lines: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("WARN") && line.contains(name) && line.contains("mended"))
            .collect();
        assert_eq!(lines.len(), 1, "{name}: {log}");
        assert!(lines[0].contains(said), "{}", lines[0]);
    }
    assert!(!log.contains("hush"), "{log}");
    // One that is mended is polled.
    fleet.add("nowhere");
    wait_until("it is polled", || fleet.polling().contains_key("nowhere"));
    fleet.witness.verify();
}

#[test]
fn what_poll_is_told_wrongly_is_refused_with_a_sentence() {
    let redis = Redis::start();
    let url = redis.url();
    refused(&url, &["--from", "file:x"], 2, &["lists no endpoints; use redis-sessions"]);
    refused("sqlite:work.db", &[], 2, &["--from redis-sessions looks on the store's own Redis"]);
    refused(&url, &["--to", "kafka:x"], 2, &["is no place for answers; use channel:NAME"]);
    refused(&url, &["--to", "https://anna:hush@h/"], 2, &["the webhook is no URL that can be used"]);
    refused(&url, &["--interval", "0s"], 2, &["--interval is 0ns; give a time between 10ms"]);
    refused(&url, &["--jitter", "90%"], 2, &["--jitter", "give 0% to 50%"]);
    refused(&url, &["--concurrency", "0"], 2, &["--concurrency"]);
    refused(&url, &["--path", "status"], 2, &["does not begin with a slash"]);
    refused(&url, &["--address", "ftp://{id}"], 2, &["--address cannot be used", "only http and https"]);
    refused(&url, &["--header-file", "none"], 2, &["the headers in none cannot be used"]);
    refused(&url, &["--session-prefix", ""], 2, &["the prefix of sessions has 0 bytes"]);
    redis.cli(&["SET", "list", "x"]);
    refused(&url, &["--from", "redis-set:list"], 2, &["the key list", "is no set"]);
}

#[test]
fn a_redis_that_wants_a_password_or_forbids_to_look_says_what_to_do() {
    let redis = Redis::start_with(RedisSetup { password: Some("hush".to_owned()), ..RedisSetup::default() });
    let bare = format!("redis://127.0.0.1:{}", redis.port());
    refused(&bare, &[], 2, &["wants a password; put it into the address or into a password-file"]);
    refused(
        &format!("redis://:hush2@127.0.0.1:{}", redis.port()),
        &[],
        2,
        &["refused the user or the password"],
    );
    redis.cli(&["ACL", "SETUSER", "anna", "on", ">hush", "~*", "&*", "+@all", "-scan"]);
    let anna = format!("redis://anna:hush@127.0.0.1:{}", redis.port());
    refused(&anna, &[], 2, &["does not permit this user to find sessions; grant it +scan"]);
    let port = leasehold_testkit::free_port();
    refused(&format!("redis://127.0.0.1:{port}"), &[], 69, &["cannot be reached"]);
}

// proves that docs/stores/redis.md names every right that is needed
#[test]
fn a_user_with_the_rights_in_the_manual_can_poll() {
    let mut fleet = Fleet::new(2);
    let manual = include_str!("../../../../docs/stores/redis.md");
    let rights: Vec<&str> = manual.lines().filter(|line| line.starts_with("ACL SETUSER")).collect();
    assert_eq!(rights.len(), 2);
    for line in rights {
        assert_eq!(fleet.redis.cli(&line.split(' ').collect::<Vec<_>>()), "OK", "{line}");
    }
    let url = format!("redis://leasehold:secret@127.0.0.1:{}", fleet.redis.port());
    let to = ["--to", "channel:satisfactory_events:{id}", "--to", "stream:leasehold:polls"];
    fleet.enter_by("one", &url, &to);
    fleet.until_shared(&["one"], &[2]);
    wait_until("answers are kept", || {
        fleet.redis.cli(&["XLEN", "leasehold:polls"]).parse::<u64>().unwrap_or(0) > 4
    });
    fleet.instances.remove("one").unwrap().leave();
    let log = fleet.log_of("one");
    assert!(!log.contains("does not permit") && !log.contains("not passed on"), "{log}");
}
