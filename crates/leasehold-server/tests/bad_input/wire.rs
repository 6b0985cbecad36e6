//! Bytes that no client library sends: odd paths, bodies without end, and those who take their time.

use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::store::memory::MemoryStore;
use leasehold_server::Settings;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::support::Plane;
use super::{SOON, plane};

/// What came back: the head, and what follows it.
struct Told {
    head: String,
    body: String,
}

impl Told {
    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    fn word(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["error"].as_str().unwrap_or_default().to_owned()
    }
}

async fn connected(plane: &Plane) -> TcpStream {
    TcpStream::connect(plane.running.as_ref().unwrap().address()).await.unwrap()
}

/// Everything until the server hangs up.
async fn rest(mut stream: TcpStream) -> Told {
    let mut text = Vec::new();
    let _ = timeout(SOON, stream.read_to_end(&mut text)).await.expect("the server hangs up");
    let text = String::from_utf8_lossy(&text).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    Told { head: head.to_owned(), body: body.to_owned() }
}

async fn send(plane: &Plane, bytes: &[u8]) -> Told {
    let mut stream = connected(plane).await;
    stream.write_all(bytes).await.unwrap();
    rest(stream).await
}

async fn get(plane: &Plane, path: &str) -> Told {
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    send(plane, head.as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_what_they_are_once_decoded() {
    let plane = plane().await;
    for (path, status, word) in [
        ("/api/v1/scenes/scene%2D0", 200, ""),
        ("/api/v1/scenes/a%2Fb", 422, "invalid"),
        ("/api/v1/a%2Fb/c", 422, "invalid"),
        ("/api/v1/scenes/..%2F..%2Fkeys", 422, "invalid"),
        ("/api/v1/scenes/%2e%2e", 404, "scene_not_found"),
        ("/api/v1/scenes/../keys", 404, "not_found"),
        ("/api/v1/../keys", 422, "invalid"),
        ("/api/v1/./scenes", 422, "invalid"),
        ("/api/v1/scenes/%00", 422, "invalid"),
        ("/api/v1/scenes/a%00b", 422, "invalid"),
        ("/api/v1/%00/a", 422, "invalid"),
        ("/api/v1/scenes/%20", 422, "invalid"),
        ("/api/v1/scenes/%0d%0aset-cookie:%20a", 422, "invalid"),
        ("/api/v1/scenes/%C3%A4", 422, "invalid"),
        ("/api/v1/scenes/%E2%80%AE", 422, "invalid"),
        ("/api/v1/scenes/%FF", 400, "malformed"),
        ("/api/v1/scenes/%C3", 400, "malformed"),
        ("/api/v1/%FF", 400, "malformed"),
        ("/api/v1/keys/%FF", 400, "malformed"),
        ("/api/v1/keys/%00", 404, "key_not_found"),
        ("/api/v1/scenes/%zz", 422, "invalid"),
        ("/api/v1/scenes/%", 422, "invalid"),
        ("/api/v1//a", 422, "invalid"),
        ("//api/v1/scenes", 200, ""),
        ("/api/v1/scenes?limit=%FF", 422, "invalid"),
        ("/api/v1/scenes?&&&===", 200, ""),
    ] {
        let told = get(&plane, path).await;
        assert_eq!(
            (told.status(), told.word().as_str()),
            (status, word),
            "{path}: {}{}",
            told.head,
            told.body
        );
        assert!(!told.head.to_lowercase().contains("set-cookie"), "{}", told.head);
    }
    let long = get(&plane, &format!("/api/v1/scenes/{}", "a".repeat(129))).await;
    assert_eq!(long.status(), 422);
    let longer = get(&plane, &format!("/api/v1/scenes/{}", "a".repeat(60_000))).await;
    assert!([414, 422].contains(&longer.status()), "{}", longer.head);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_http_is_refused() {
    let plane = plane().await;
    let many: String = (0..500).map(|number| format!("x-{number}: y\r\n")).collect();
    for bytes in [
        "\u{0}\u{1}\u{2}\r\n\r\n".to_owned(),
        "GET /healthz\r\n\r\n".to_owned(),
        "GET /healthz HTTP/9.9\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\na b: c\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: \u{0}\r\n\r\n".to_owned(),
        "POST /api/v1/scenes HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n".to_owned(),
        "POST /api/v1/scenes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}"
            .to_owned(),
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"),
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)),
    ] {
        let mut stream = connected(&plane).await;
        let _ = stream.write_all(bytes.as_bytes()).await;
        let told = rest(stream).await;
        // Either it is told why, or the connection is closed.
        assert!([0, 400, 431].contains(&told.status()), "{bytes:.80?}: {}", told.head);
    }
    assert_eq!(get(&plane, "/healthz").await.status(), 200, "others are served as before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_is_refused_before_it_is_read() {
    let plane = plane().await;
    let large = 10 << 20;
    // It is announced, and nothing of it is ever sent.
    let head = "PUT /api/v1/scenes/scene-0 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let told = send(&plane, format!("{head}content-length: {large}\r\n\r\n").as_bytes()).await;
    assert_eq!((told.status(), told.word().as_str()), (413, "too_large"), "{}", told.head);

    // It is not announced, and sent until nobody takes any more.
    let mut stream = connected(&plane).await;
    stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
    let piece = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let mut sent = 0;
    while sent < large && timeout(SOON, stream.write_all(piece.as_bytes())).await.unwrap().is_ok() {
        sent += 0x10000;
    }
    let told = rest(stream).await;
    // The answer may be lost where the server hangs up on bytes that it has not read.
    assert!([0, 413].contains(&told.status()), "{}", told.head);

    // A client that sends and listens at once has the answer.
    let body = "x".repeat(large);
    let request = plane.client.put(plane.url("/api/v1/scenes/scene-0")).body(body);
    if let Ok(response) = timeout(SOON, request.send()).await.unwrap() {
        assert_eq!(response.status().as_u16(), 413);
    }
    let document = serde_json::json!({"document": "x".repeat(65 * 1024)});
    let answer = plane.put("/api/v1/scenes/scene-0", &document).await;
    super::helps(&answer, 413, "too_large");
    assert_eq!(plane.get("/api/v1/scenes/scene-0").await.body["resource_version"], 1);
}

/// A server that has little patience, and a client that needs much.
async fn impatient() -> Plane {
    let mut settings = Settings::at("127.0.0.1:0".parse().unwrap());
    settings.limits.head = Duration::from_millis(500);
    settings.limits.upload = Duration::from_millis(500);
    Plane::with(settings, Arc::new(MemoryStore::new())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_comes_byte_by_byte_is_cut_off() {
    let plane = impatient().await;
    let mut stream = connected(&plane).await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
    let began = clock::now();
    // Each byte is a sign of life, which must not count.
    while timeout(SOON, stream.write_all(b"x")).await.unwrap().is_ok() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(clock::now().since(began) < SOON, "it may go on for ever");
    }
    assert!(clock::now().since(began) >= Duration::from_millis(400), "there was some patience");
    // Who says nothing at all is cut off too.
    let told = rest(connected(&plane).await).await;
    assert!([0, 408].contains(&told.status()), "{}", told.head);
    assert_eq!(get(&plane, "/healthz").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stalls_or_drips_is_told_so() {
    let plane = impatient().await;
    let head = "POST /api/v1/scenes HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 1000\r\n\r\n{";
    let told = send(&plane, head.as_bytes()).await;
    assert_eq!((told.status(), told.word().as_str()), (408, "too_slow"), "{}", told.head);

    let mut stream = connected(&plane).await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let dripping = tokio::spawn(async move {
        while write.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let mut text = Vec::new();
    let _ = timeout(SOON, read.read_to_end(&mut text)).await.expect("it is not waited for for ever");
    assert!(text.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&text));
    dripping.abort();

    // Half a body, and gone.
    let mut stream = connected(&plane).await;
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let told = rest(stream).await;
    assert!([0, 400].contains(&told.status()), "{}", told.head);
}
