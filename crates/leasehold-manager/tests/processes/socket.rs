//! Questions over the socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_manager::socket::{AskError, CONNECTIONS_MAX, LINE_MAX};
use leasehold_manager::{Question, Reply, Socket, ask};

use crate::support::PATIENCE;

fn open() -> Socket {
    Socket::open(|question| match question.token {
        None | Some(7) => Reply::trusted(question, 7, Duration::from_secs(100)),
        Some(_) => Reply::refused(question, Some(7), "another term is held"),
    })
    .expect("a socket")
}

fn question(token: Option<u64>) -> Question {
    Question { resource: "a".to_owned(), token }
}

/// Runs what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

fn connect(path: &Path) -> BufReader<UnixStream> {
    let stream = UnixStream::connect(path).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    BufReader::new(stream)
}

/// Sends bytes and returns the next line, or nothing if the other side hung up.
fn exchange(stream: &mut BufReader<UnixStream>, bytes: &[u8]) -> Option<String> {
    stream.get_mut().write_all(bytes).expect("an open connection");
    next_line(stream)
}

fn next_line(stream: &mut BufReader<UnixStream>) -> Option<String> {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a line or the end");
    (!line.is_empty()).then_some(line)
}

#[tokio::test]
async fn a_child_learns_whether_it_is_trusted() {
    let socket = open();
    let path = socket.path().to_owned();
    let (trusted, refused, any) = blocking(move || {
        let ask = |token| ask(&path, &question(token), PATIENCE).expect("a reply");
        (ask(Some(7)), ask(Some(6)), ask(None))
    })
    .await;
    assert!(trusted.trusted && any.trusted);
    assert!(trusted.remaining_ms.is_some_and(|ms| (80_000..100_000).contains(&ms)));
    assert_eq!(refused, Reply::refused(&question(Some(6)), Some(7), "another term is held"));
}

#[tokio::test]
async fn lines_look_as_documented() {
    let socket = open();
    let path = socket.path().to_owned();
    let (trusted, refused) = blocking(move || {
        let mut stream = connect(&path);
        let trusted = exchange(&mut stream, b"{\"resource\":\"a\",\"token\":7}\n");
        (trusted, exchange(&mut stream, b"{\"resource\":\"a\",\"token\":8}\n"))
    })
    .await;
    let trusted = trusted.expect("a reply");
    assert_eq!(trusted, "{\"trusted\":true,\"resource\":\"a\",\"token\":7,\"remaining_ms\":100000}\n");
    let refused = refused.expect("a reply");
    assert_eq!(
        refused,
        "{\"trusted\":false,\"resource\":\"a\",\"token\":7,\"reason\":\"another term is held\"}\n"
    );
}

#[tokio::test]
async fn a_question_that_makes_no_sense_is_answered_with_a_sentence() {
    let socket = open();
    let path = socket.path().to_owned();
    let (nonsense, sense) = blocking(move || {
        let mut stream = connect(&path);
        let nonsense = exchange(&mut stream, b"trusted?\n").expect("a reply");
        (nonsense, exchange(&mut stream, b"{\"resource\":\"a\"}\n").expect("a reply"))
    })
    .await;
    assert!(nonsense.starts_with("{\"error\":\"not a question: "), "{nonsense}");
    assert!(sense.contains("\"trusted\":true"), "{sense}");
}

#[tokio::test]
async fn a_question_that_is_too_long_ends_the_connection() {
    let socket = open();
    let path = socket.path().to_owned();
    let (reply, end) = blocking(move || {
        let mut stream = connect(&path);
        let reply = exchange(&mut stream, &[b'x'; LINE_MAX + 1]);
        (reply, next_line(&mut stream))
    })
    .await;
    assert_eq!(reply.as_deref(), Some("{\"error\":\"the question is too long\"}\n"));
    assert_eq!(end, None);
}

#[tokio::test]
async fn those_who_say_nothing_do_not_keep_others_from_asking() {
    let socket = open();
    let path = socket.path().to_owned();
    let reply = blocking(move || {
        let idle: Vec<_> = (0..CONNECTIONS_MAX + 8).map(|_| connect(&path)).collect();
        let reply = ask(&path, &question(Some(7)), PATIENCE);
        drop(idle);
        reply
    })
    .await;
    assert!(reply.expect("a reply").trusted);
}

#[tokio::test]
async fn only_this_user_can_ask_and_nothing_is_left_behind() {
    let socket = open();
    let directory: PathBuf = socket.path().parent().expect("a directory").to_owned();
    let mode = std::fs::metadata(&directory).expect("a directory").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    drop(socket);
    assert!(!directory.exists());
}

#[test]
fn nobody_to_ask_is_said() {
    let error = ask(Path::new("/nonexistent/socket"), &question(None), PATIENCE).expect_err("nobody");
    assert!(matches!(error, AskError::Unreachable { .. }), "{error:?}");
}

#[test]
fn a_supervisor_that_does_not_reply_is_not_waited_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let _deaf = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let error = ask(&path, &question(None), Duration::from_millis(50)).expect_err("silence");
    assert!(matches!(error, AskError::Silent { .. }), "{error:?}");
}
