//! What children say is passed on whole, whoever listens.

use proptest::prelude::*;

use super::*;

fn all(label: &str, chunks: &[&[u8]]) -> Vec<u8> {
    let mut lines = Lines::new(label);
    let mut whole: Vec<u8> = chunks.iter().flat_map(|chunk| lines.push(chunk)).collect();
    whole.extend(lines.end());
    whole
}

#[test]
fn each_line_carries_its_label_and_the_last_one_is_completed() {
    assert_eq!(all("a", &[b"one\ntw", b"o\n\nthree"]), b"[a] one\n[a] two\n[a] \n[a] three\n");
    assert_eq!(all("", &[b"one\n"]), b"one\n");
    assert_eq!(all("a", &[]), b"");
}

#[test]
fn bytes_that_are_no_text_pass_unchanged() {
    assert_eq!(all("a", &[b"\xff\x00\n"]), b"[a] \xff\x00\n");
}

#[test]
fn a_line_of_exactly_the_limit_is_whole_and_a_longer_one_is_cut() {
    let line = vec![b'x'; LINE_MAX];
    let exact = all("a", &[&line, b"\n"]);
    assert_eq!(exact.len(), LINE_MAX + "[a] \n".len());
    let cut = all("a", &[&line, b"yz\n"]);
    assert!(cut.ends_with(b"x\n[a] yz\n"));
    assert_eq!(cut.iter().filter(|byte| **byte == b'\n').count(), 2);
}

proptest! {
    #[test]
    fn how_the_bytes_arrive_does_not_matter(
        bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
        at in 0..200_usize,
    ) {
        let (head, tail) = bytes.split_at(at.min(bytes.len()));
        prop_assert_eq!(all("r", &[head, tail]), all("r", &[&bytes]));
    }

    #[test]
    fn nothing_is_lost(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200)) {
        let mut expected = bytes.clone();
        if !matches!(bytes.last(), None | Some(b'\n')) {
            expected.push(b'\n');
        }
        prop_assert_eq!(all("", &[&bytes]), expected);
    }
}

/// An output that fails like a pipe whose reader is gone.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[tokio::test]
async fn a_closed_output_does_not_keep_a_child_from_writing() {
    let output = Output::to(Closed, Closed).expect("a thread");
    let (mut child, ours) = tokio::io::duplex(16);
    output.printer().pass_on(ours, Stream::Out, "a");
    let writes = async {
        for _ in 0..10_000 {
            tokio::io::AsyncWriteExt::write_all(&mut child, b"a line\n").await.expect("an open pipe");
        }
        drop(child);
    };
    tokio::time::timeout(Duration::from_secs(10), writes).await.expect("never blocked");
    output.finish(Duration::from_secs(10)).await;
}
