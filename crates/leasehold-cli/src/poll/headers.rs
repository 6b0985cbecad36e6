//! Headers from a file, so that no secret stands on a command line.

use std::path::Path;

use axum::http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::failure::Failure;

/// The most bytes such a file may have.
const FILE_MAX: u64 = 64 << 10;

/// Reads `Name: value` lines. What is wrong is told by its line only: the value may be a secret.
pub(super) fn read(path: &Path) -> Result<HeaderMap, Failure> {
    let shown = path.display();
    let refuse = |said: String| Failure::usage(format!("the headers in {shown} cannot be used: {said}"));
    let size = std::fs::metadata(path).map_err(|error| refuse(error.to_string()))?.len();
    if size > FILE_MAX {
        return Err(refuse(format!("it has {size} bytes; at most {FILE_MAX} are allowed")));
    }
    parse(&std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?).map_err(refuse)
}

fn parse(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong =
            || format!("line {} is no header; write it as in Authorization: Bearer TOKEN", number + 1);
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
        if [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&name) {
            return Err(format!(
                "line {} sets {name}, which belongs to the connection; leave it out",
                number + 1
            ));
        }
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_what_is_none_is_refused_without_its_value() {
        let headers = parse("# ours\nAuthorization: Bearer hush\n\nX-A: b:c\n").unwrap();
        assert_eq!(headers["authorization"], "Bearer hush");
        assert_eq!(headers["x-a"], "b:c");
        for (text, said) in
            [("X-A: b\nhush", "line 2"), ("a b: hush", "line 1"), ("Host: hush", "leave it out")]
        {
            let why = parse(text).unwrap_err();
            assert!(why.contains(said) && !why.contains("hush"), "{why}");
        }
    }
}
