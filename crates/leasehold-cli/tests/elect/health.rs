//! What candidates tell over HTTP, asked as a probe or an operator asks.

use std::io::{Read, Write};
use std::net::TcpStream;

use leasehold_testkit::free_port;
use serde_json::Value;

use super::*;

/// Sends one request and gives back the status and the body.
fn ask(port: u16, method: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

pub(crate) fn status(port: u16, method: &str, path: &str) -> u16 {
    ask(port, method, path).map_or(0, |(status, _)| status)
}

// proves R128, U16
#[test]
fn only_the_leader_says_that_it_leads_and_it_can_be_told_to_resign() {
    let place = Place::new();
    let ports = [free_port(), free_port()];
    let addresses = ports.map(|port| format!("127.0.0.1:{port}"));
    let one = candidate(&place, "one", &["--health", &addresses[0]]);
    let (_, token) = leader_of(&place, &["one"], 0);
    let two = candidate(&place, "two", &["--health", &addresses[1]]);
    wait_until("two is ready", || status(ports[1], "GET", "/readyz") == 200);
    assert_eq!((status(ports[0], "GET", "/leader"), status(ports[1], "GET", "/leader")), (200, 503));
    wait_until("two knows who leads", || {
        let (_, body) = ask(ports[1], "GET", "/ready").unwrap_or_default();
        let ready: Value = serde_json::from_str(&body).unwrap_or_default();
        ready["is_leader"] == false
            && ready["current_leader_id"].as_str().is_some_and(|id| id.starts_with("one-"))
    });
    assert_eq!(status(ports[1], "POST", "/admin/resign-leadership"), 409);
    assert_eq!(status(ports[1], "POST", "/admin/trigger-reconcile"), 409);
    assert_eq!(status(ports[0], "GET", "/health"), 200);
    let (_, metrics) = ask(ports[0], "GET", "/metrics").unwrap();
    assert!(metrics.contains("leasehold_is_leader{key=\"/ccm/scheduler/leader\"} 1"), "{metrics}");
    let told = clock::now();
    assert_eq!(status(ports[0], "POST", "/admin/resign-leadership"), 200);
    let gap = until_next_leads(&place, &["two"], token, told);
    println!("after resigning: {gap:?}");
    assert_eq!((status(ports[0], "GET", "/leader"), status(ports[1], "GET", "/leader")), (503, 200));
    one.leave();
    two.leave();
    assert_never_two(&place);
}

/// Leads, and writes down when it is told to look at everything again. (A shell cannot trap what was ignored when it began,
/// as SIGHUP is below nohup.)
const HEARS: &str = r#"
import os, signal, sys, time
def say(file, line):
    with open(file, "a") as file:
        file.write(line + "\n")
signal.signal(signal.SIGHUP, lambda *_: say(sys.argv[1] + ".heard", "reconciled"))
while True:
    say(sys.argv[1], f"leader {os.environ['LEASEHOLD_TOKEN']} one")
    time.sleep(0.02)
"#;

// proves U16
#[test]
fn a_leader_that_is_told_to_reconcile_hangs_up_on_its_command() {
    let place = Place::new();
    let port = free_port();
    let journal = place.path("journal").display().to_string();
    let script = place.write("lead.py", HEARS);
    let address = format!("127.0.0.1:{port}");
    let _one = run(&place, "one", &["--health", &address], &["python3", &script, &journal]);
    leader_of(&place, &["one"], 0);
    assert_eq!(status(port, "POST", "/admin/trigger-reconcile"), 202);
    wait_until("the command heard it", || place.lines("journal.heard") == ["reconciled"]);
}
