//! What an endpoint said, as it is passed on. Pure.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, ETAG, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use leasehold::Lease;
use serde_json::{Value, json};

use super::client::Answer;
use crate::print;

/// By what an endpoint recognises what it said last.
#[derive(Debug, Default)]
pub(super) struct Validators(Vec<(HeaderName, HeaderValue)>);

impl Validators {
    /// Asks for nothing that is known already.
    pub(super) fn apply(&self, headers: &mut HeaderMap) {
        headers.extend(self.0.iter().cloned());
    }

    /// Remembers what an answer is recognised by.
    pub(super) fn learn(&mut self, answer: &Answer) {
        if answer.status == StatusCode::NOT_MODIFIED {
            return;
        }
        self.0.clear();
        if answer.status == StatusCode::OK {
            for (said, asked) in [(ETAG, IF_NONE_MATCH), (LAST_MODIFIED, IF_MODIFIED_SINCE)] {
                self.0.extend(answer.headers.get(said).map(|value| (asked, value.clone())));
            }
        }
    }
}

/// One line of JSON about one request.
pub(super) fn line(lease: &Lease, wall_nanos: u64, took: Duration, said: &Result<Answer, String>) -> String {
    let mut line = json!({
        "id": lease.resource(),
        "instance": lease.member(),
        "token": lease.token(),
        "polledAt": print::time(wall_nanos),
        "durationMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    });
    let more = match said {
        Err(error) => json!({ "error": error }),
        Ok(answer) => {
            let header = |name: HeaderName| answer.headers.get(name).and_then(|value| value.to_str().ok());
            json!({
                "status": answer.status.as_u16(),
                "changed": answer.status != StatusCode::NOT_MODIFIED,
                "contentType": header(CONTENT_TYPE),
                "etag": header(ETAG),
                "bytes": answer.body.len(),
                "body": body(&answer.body),
            })
        }
    };
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more);
    }
    line.to_string()
}

/// JSON as it is, other text as text, and nothing of what is neither.
fn body(bytes: &[u8]) -> Value {
    match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(_) if bytes.is_empty() => Value::Null,
        Err(_) => std::str::from_utf8(bytes).map_or(Value::Null, |text| Value::String(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Bytes;

    fn answer(status: u16, headers: &[(HeaderName, &'static str)]) -> Answer {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.collect(),
            body: Bytes::new(),
        }
    }

    #[test]
    fn what_an_endpoint_said_last_is_not_asked_for_again() {
        let asked = |validators: &Validators| {
            let mut headers = HeaderMap::new();
            validators.apply(&mut headers);
            let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            (text(IF_NONE_MATCH), text(IF_MODIFIED_SINCE))
        };
        let mut validators = Validators::default();
        assert_eq!(asked(&validators), (None, None));
        validators.learn(&answer(200, &[(ETAG, "\"1\""), (LAST_MODIFIED, "then")]));
        assert_eq!(asked(&validators), (Some("\"1\"".to_owned()), Some("then".to_owned())));
        validators.learn(&answer(304, &[]));
        assert_eq!(asked(&validators).0.as_deref(), Some("\"1\""));
        validators.learn(&answer(500, &[(ETAG, "\"2\"")]));
        assert_eq!(asked(&validators), (None, None));
    }

    #[test]
    fn a_body_is_json_text_or_nothing() {
        assert_eq!(body(b"{\"a\":1}"), json!({ "a": 1 }));
        assert_eq!(body(b"hello"), json!("hello"));
        assert_eq!((body(b""), body(&[0xff, 0xfe])), (Value::Null, Value::Null));
    }
}
