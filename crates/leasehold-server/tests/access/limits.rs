//! How much one key may ask for.

use leasehold_server::keys::Role;
use leasehold_server::{Limits, start};
use reqwest::StatusCode;

use super::stage::Stage;

const POOLS: &str = "/api/v1/pools";

#[tokio::test(flavor = "multi_thread")]
async fn each_key_has_its_own_rate_and_it_can_be_changed() {
    let stage = Stage::new();
    let mut settings = Stage::settings();
    settings.limits.rate = 1;
    settings.limits.burst = 3;
    let server = start(settings, stage.store().await).await.unwrap();
    for _ in 0..10 {
        let answer = stage.ask(&server, "GET", POOLS, None, "").await;
        assert_eq!(answer.status, StatusCode::OK, "where no key is asked for nothing is counted");
    }
    let (one, two) = (stage.key(Role::Read, None, None).await, stage.key(Role::Read, None, None).await);
    stage.until(&server, POOLS, &one, StatusCode::TOO_MANY_REQUESTS).await;
    let answer = stage.ask(&server, "GET", POOLS, Some(&one), "").await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.body["error"], "too_many_requests");
    assert!(answer.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(stage.ask(&server, "GET", POOLS, Some(&two), "").await.status, StatusCode::OK);
    server.set_limits(Limits::default());
    for _ in 0..20 {
        assert_eq!(stage.ask(&server, "GET", POOLS, Some(&one), "").await.status, StatusCode::OK);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_allowed_are_closed() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    let stage = Stage::new();
    let mut settings = Stage::settings();
    settings.limits.connections = 2;
    let server = start(settings, stage.store().await).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(request).await.unwrap();
        assert!(stream.read(&mut [0; 64]).await.unwrap() > 0);
        open.push(stream);
    }
    let mut third = TcpStream::connect(server.address()).await.unwrap();
    let _ = third.write_all(request).await;
    assert!(matches!(third.read(&mut [0; 64]).await, Ok(0) | Err(_)), "the third is closed");
    drop(open);
    // Once there is room again, others are let in.
    loop {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let _ = stream.write_all(request).await;
        if stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {
            break;
        }
    }
    server.stop().await;
}
