//! What others do with Redis: `SET NX PX`, the renew script of document 002, and locks on several servers.

use std::process::Command;
use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::Redis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// As document 002 has it.
const RENEW: &str = r#"if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("PEXPIRE", KEYS[1], ARGV[2])
else
  return 0
end"#;
/// How many calls `redis-benchmark` is asked for, for each second of a round: about what a server does.
const CALLS_A_SECOND: u64 = 60_000;
/// The servers of a lock of which a majority must grant it.
const SERVERS: usize = 3;

/// Calls a second by `redis-benchmark`.
fn rate(server: &Redis, connections: usize, round: Duration, words: &[&str]) -> f64 {
    let calls = CALLS_A_SECOND * round.as_secs().max(1);
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", "127.0.0.1", "-p", &server.port().to_string(), "-c", &connections.to_string()]);
    command.args(["-n", &calls.to_string(), "-r", "1000000000", "--csv"]).args(words);
    let output = command.output().expect("redis-benchmark, of Debian's redis-tools");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = text.lines().next_back().and_then(|line| line.split("\",\"").nth(1)?.parse().ok());
    rate.unwrap_or_else(|| panic!("redis-benchmark said: {text}"))
}

/// Fresh leases, one a call.
pub(crate) fn set_nx_px(server: &Redis, connections: usize, round: Duration) -> f64 {
    rate(server, connections, round, &["SET", "poll:lease:__rand_int__", "instance", "NX", "PX", "30000"])
}

/// Renewals, one a call.
pub(crate) fn renew(server: &Redis, connections: usize, round: Duration) -> f64 {
    rate(server, connections, round, &["EVAL", RENEW, "1", "poll:lease:__rand_int__", "instance", "30000"])
}

/// Fresh locks a second of clients that ask three servers at once and go by the majority.
pub(crate) fn redlock(runtime: &Runtime, connections: usize, round: Duration) -> f64 {
    let servers: Vec<Redis> = (0..SERVERS).map(|_| Redis::start()).collect();
    let ports: Vec<u16> = servers.iter().map(Redis::port).collect();
    runtime.block_on(async {
        let began = clock::now();
        let clients = (0..connections).map(|client| tokio::spawn(locks(client, ports.clone(), began, round)));
        let mut count = 0;
        for client in clients.collect::<Vec<_>>() {
            count += client.await.expect("a client");
        }
        f64::from(count) / clock::now().since(began).as_secs_f64()
    })
}

async fn locks(client: usize, ports: Vec<u16>, began: clock::Moment, round: Duration) -> u32 {
    let mut lines = Vec::new();
    for port in ports {
        lines.push(TcpStream::connect(("127.0.0.1", port)).await.expect("a connection"));
    }
    let mut count = 0;
    while clock::now().since(began) < round {
        let ask = format!("SET lock:{client}:{count} {client} NX PX 30000\r\n");
        for line in &mut lines {
            line.write_all(ask.as_bytes()).await.expect("asked");
        }
        let mut granted = 0;
        for line in &mut lines {
            let mut answer = [0; 5];
            line.read_exact(&mut answer).await.expect("an answer");
            granted += usize::from(&answer == b"+OK\r\n");
        }
        assert!(granted > SERVERS / 2, "nobody else wants it");
        count += 1;
    }
    count
}
