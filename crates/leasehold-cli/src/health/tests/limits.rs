//! Clients that take their time, send too much, or come in crowds.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::client::{Answer, rest, within};
use super::stage::{Scene, Told};
use crate::health::serve::CONNECTIONS_MAX;

#[tokio::test]
async fn who_never_ends_a_request_blocks_nobody_and_is_cut_off() {
    let server = Scene::without_session().await;
    let mut slow = Vec::new();
    for _ in 0..CONNECTIONS_MAX / 2 {
        let mut stream = server.address.connect().await;
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: he").await.unwrap();
        slow.push(stream);
    }
    assert_eq!(server.address.get("/healthz").await.status, 200);
    for mut stream in slow {
        assert_eq!(rest(&mut stream).await, "");
    }
}

#[tokio::test]
async fn when_all_connections_are_taken_the_next_one_waits_until_an_idle_one_is_closed() {
    let server = Scene::without_session().await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        idle.push(server.address.connect().await);
    }
    let mut answer = pin!(server.address.get("/healthz"));
    tokio::select! {
        biased;
        () = within("the first that is closed", any_closed(&mut idle)) => {}
        _ = &mut answer => panic!("there was an answer while all connections were taken"),
    }
    assert_eq!(answer.await.status, 200);
}

async fn any_closed(streams: &mut [TcpStream]) {
    std::future::poll_fn(|context| {
        let mut byte = [0];
        let closed =
            |stream: &mut TcpStream| stream.poll_peek(context, &mut ReadBuf::new(&mut byte)).is_ready();
        if streams.iter_mut().map(closed).fold(false, |any, closed| any | closed) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[tokio::test]
async fn a_connection_serves_several_requests_and_is_closed_when_idle() {
    let server = Scene::without_session().await;
    let mut stream = server.address.connect().await;
    for _ in 0..3 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
        assert!(head_and_ok(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
    }
    assert_eq!(rest(&mut stream).await, "");
}

/// Reads the answer of `/healthz`.
async fn head_and_ok(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    while !text.ends_with("\r\n\r\nok\n") {
        text.push(char::from(within("an answer", stream.read_u8()).await.unwrap()));
    }
    text
}

#[tokio::test]
async fn what_is_too_large_is_refused_unread() {
    let server = Scene::without_session().await;
    for length in ["Content-Length: 1025", "Content-Length: 999999999999", "Transfer-Encoding: chunked"] {
        let mut stream = server.address.connect().await;
        let head = format!("POST /admin/trigger-reconcile HTTP/1.1\r\nHost: here\r\n{length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = Answer::parse(&rest(&mut stream).await);
        assert_eq!(answer.status, 413, "{length}");
        assert!(answer.json()["error"].as_str().unwrap().contains("1024 bytes"));
    }
    let small = [("Content-Length", "0")];
    assert_eq!(server.address.ask("POST", "/admin/trigger-reconcile", &small).await.status, 409);
    let mut stream = server.address.connect().await;
    let head = format!("GET /health HTTP/1.1\r\nHost: here\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let _ = stream.write_all(head.as_bytes()).await;
    let said = rest(&mut stream).await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431 "), "{said}");
}

#[tokio::test]
async fn a_resignation_that_takes_too_long_is_answered_all_the_same() {
    let server = Scene::without_session().await;
    let answer = server.address.post("/admin/resign-leadership").await;
    assert_eq!(answer.status, 504);
    assert!(answer.json()["error"].as_str().unwrap().contains("may still happen"));
}

#[tokio::test]
async fn a_server_that_ends_gives_up_its_address_and_the_report() {
    let Told { report, address, serving } = Scene::without_session().await;
    let mut idle = address.connect().await;
    let mut busy = address.connect().await;
    busy.write_all(b"POST /admin/resign-leadership HTTP/1.1\r\nHost: here\r\n\r\n").await.unwrap();
    assert_eq!(address.get("/healthz").await.status, 200);
    within("the end", serving.finish()).await;
    assert!(Arc::into_inner(report).is_some());
    assert_eq!(rest(&mut idle).await, "");
    assert_eq!(rest(&mut busy).await, "");
    tokio::net::TcpListener::bind(address.0).await.unwrap();
}

#[tokio::test]
async fn dropping_what_serves_ends_it() {
    let Told { address, serving, .. } = Scene::without_session().await;
    assert_eq!(address.get("/healthz").await.status, 200);
    drop(serving);
    within("the address is free", async {
        while TcpStream::connect(address.0).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
