//! The client of a Leasehold server, where what answers is not what it should be: every answer is scripted.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock;
use leasehold::store::StoreErrorKind::{Misconfigured, Unavailable};
use leasehold::store::conformance::pool;
use leasehold::store::http::{ApiKey, HttpStore};
use leasehold::store::{
    Cursor, Grade, Hint, Hints, LeaseStore, ServerUrl, StoreError, StoreErrorKind, StoreUrl,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

const ABOUT: &str = r#"{"version":1,"batch_max":7,"pushes_changes":true,"grade":"durable-on-one-node"}"#;
/// Longer than anything here takes.
const SOON: Duration = Duration::from_secs(60);

/// Says what is answered to a request's head; after an answer that has no length the connection is closed.
type Script = Box<dyn FnMut(&str) -> Said + Send>;

enum Said {
    /// A whole answer.
    Answer(String),
    /// The beginning of a stream that goes on in silence.
    Stream(String),
    /// Nothing, ever.
    Nothing,
}

fn answer(status: &str, content: &str, body: &str) -> Said {
    let length = body.len();
    Said::Answer(format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content}\r\ncontent-length: {length}\r\n\r\n{body}"
    ))
}

fn json(body: &str) -> Said {
    answer("200 OK", "application/json", body)
}

async fn serve(script: Script) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(Mutex::new(script));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(converse(stream, Arc::clone(&script)));
        }
    });
    address
}

async fn converse(mut stream: TcpStream, script: Arc<Mutex<Script>>) {
    let mut read = Vec::new();
    loop {
        let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else {
            let mut piece = [0; 4096];
            match stream.read(&mut piece).await {
                Ok(count @ 1..) => read.extend_from_slice(&piece[..count]),
                _ => return,
            }
            continue;
        };
        let head = String::from_utf8(read[..end].to_vec()).unwrap().to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |n| n.parse().unwrap());
        while read.len() < end + 4 + length {
            let mut piece = [0; 4096];
            let count = stream.read(&mut piece).await.unwrap();
            read.extend_from_slice(&piece[..count]);
        }
        read.drain(..end + 4 + length);
        let said = script.lock().await(&head);
        match said {
            Said::Answer(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            Said::Stream(text) => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                stream.write_all(format!("{head}{text}").as_bytes()).await.unwrap();
                // Until the other side gives it up.
                let _ = stream.read(&mut [0; 1]).await;
                return;
            }
            Said::Nothing => std::future::pending().await,
        }
    }
}

fn url(address: SocketAddr) -> ServerUrl {
    match format!("http://{address}").parse() {
        Ok(StoreUrl::Http(url)) => url,
        other => panic!("{other:?}"),
    }
}

async fn open(script: impl FnMut(&str) -> Said + Send + 'static) -> Result<HttpStore, StoreError> {
    let key = Some(ApiKey::new("hunter2").unwrap());
    HttpStore::open_with(&url(serve(Box::new(script)).await), key).await
}

fn expect(error: &StoreError, kind: StoreErrorKind, words: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
}

// proves C13: the key goes where it belongs, and nowhere else
#[tokio::test]
async fn the_server_says_what_its_store_can_do_and_is_shown_the_key() {
    let store = open(|head| {
        assert!(head.starts_with("get /api/v1/store http/1.1"), "{head}");
        assert!(head.contains("authorization: bearer hunter2"), "{head}");
        json(ABOUT)
    });
    let store = store.await.unwrap();
    let able = store.capabilities();
    assert_eq!((able.batch_max, able.pushes_changes, able.grade), (7, true, Grade::DurableOnOneNode));
    assert!(!format!("{store:?}").contains("hunter2"), "{store:?}");
}

#[tokio::test]
async fn what_is_no_server_of_our_version_is_refused_when_it_is_opened() {
    let newer = ABOUT.replace(":1,", ":2,");
    let told = r#"{"error":"forbidden","detail":"members only"}"#;
    let elsewhere = "HTTP/1.1 302 Found\r\nlocation: http://192.0.2.1/\r\ncontent-length: 0\r\n\r\n";
    let cases = [
        (json(&newer), Misconfigured, "speaks version 2 of the members' API and this program version 1"),
        (json("{}"), Misconfigured, "is it a Leasehold server"),
        (answer("200 OK", "text/html", "<html>"), Misconfigured, "is it a Leasehold server"),
        (
            answer("404 Not Found", "text/html", ""),
            Misconfigured,
            "does not know /api/v1/store; is the address",
        ),
        (answer("401 Unauthorized", "text/html", ""), Misconfigured, "has expired or was revoked"),
        (answer("403 Forbidden", "application/problem+json", told), Misconfigured, "members only"),
        (Said::Answer(elsewhere.to_owned()), Misconfigured, "leads elsewhere"),
        (answer("502 Bad Gateway", "text/html", "<html>"), Unavailable, "status 502"),
        (Said::Answer("nonsense\r\n\r\n".to_owned()), Unavailable, "broke off"),
    ];
    for (said, kind, words) in cases {
        let mut said = Some(said);
        let error = open(move |_| said.take().unwrap_or(Said::Nothing)).await.unwrap_err();
        expect(&error, kind, words);
    }
}

// proves "an answer that did not arrive is unknown", in bounded time
#[tokio::test]
async fn a_server_that_falls_silent_leaves_the_answer_unknown() {
    let mut asked = 0;
    let store = open(move |_| {
        asked += 1;
        if asked == 1 { json(ABOUT) } else { Said::Nothing }
    });
    let store = store.await.unwrap();
    let begun = clock::now();
    let error = store.close(&leasehold::MemberId::generate()).await.unwrap_err();
    expect(&error, Unavailable, "gave no answer to close in time");
    let error = store.sessions(&pool("work"), Cursor::START).await.unwrap_err();
    expect(&error, Unavailable, "gave no answer to sessions in time");
    assert!(clock::now().since(begun) < SOON);
}

#[tokio::test]
async fn a_half_answer_is_unknown() {
    let store = open(|head| match head.starts_with("get") {
        true => json(ABOUT),
        false => Said::Answer(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n{\"value\""
                .to_owned(),
        ),
    });
    let error = store.await.unwrap().pools().await.unwrap_err();
    expect(&error, Unavailable, "pools");
}

async fn next(hints: &mut Hints) -> Option<Hint> {
    let next = poll_fn(|context| hints.as_mut().poll_next(context));
    tokio::time::timeout(SOON, next).await.expect("a hint in time")
}

#[tokio::test]
async fn hints_are_heard_again_after_a_refusal_a_break_and_a_silence() {
    let mut streams = 0;
    let store = open(move |head| {
        if !head.contains("/changes?pool=work") {
            return json(ABOUT);
        }
        streams += 1;
        match streams {
            1 => Said::Stream(
                ": hello\n\nevent: changed\nid: 1\ndata:\n\nevent: doubted\nid: 2\ndata:\n\n".to_owned(),
            ),
            // The first has fallen silent by now.
            2 => answer("503 Service Unavailable", "application/problem+json", "{}"),
            3 => answer("200 OK", "text/event-stream", "event: changed\ndata:\n\n"),
            _ => Said::Stream("event: something-newer\ndata:\n\n".to_owned()),
        }
    });
    let store = store.await.unwrap();
    let mut hints = store.changes(&pool("work"));
    assert_eq!(next(&mut hints).await, Some(Hint::Changed));
    assert_eq!(next(&mut hints).await, Some(Hint::Doubted));
    let begun = clock::now();
    assert_eq!(next(&mut hints).await, Some(Hint::Changed), "the third stream");
    assert!(clock::now().since(begun) > Duration::from_secs(10), "a stream that says nothing is given time");
    assert_eq!(next(&mut hints).await, Some(Hint::Changed), "the fourth stream");
    drop(store);
    assert_eq!(next(&mut hints).await, None, "hints end with the store");
}
