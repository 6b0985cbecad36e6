//! What to tell people about a server that refuses or does not answer.
//!
//! *Misconfigured* is only what waiting does not mend. Everything else leaves the answer unknown.

use std::error::Error;

use reqwest::StatusCode;

use super::key::{ApiKey, KEY_FILE_VARIABLE, KEY_VARIABLE};
use super::wire::Refusal;
use crate::store::StoreError;

/// The most of a server's own words that is repeated.
const WORDS_MAX: usize = 300;

/// The call did not get through, or its answer did not.
pub(super) fn broken(place: &str, call: &str, error: reqwest::Error) -> StoreError {
    let error = error.without_url();
    let text = chain(&error);
    let said = |told: &str| format!("{place} {told}");
    let told = if text.contains("InvalidContentType") {
        StoreError::misconfigured(said("does not speak TLS; use http:// if that is meant"))
    } else if text.contains("fatal alert")
        && (text.contains("Certificate") || text.contains("HandshakeFailure"))
    {
        StoreError::misconfigured(said(
            "does not accept us over TLS; give it our certificate with cert=FILE and key=FILE",
        ))
    } else if text.contains("invalid peer certificate") {
        StoreError::misconfigured(said(
            "could not be trusted: its certificate does not fit; name the authority with ca=FILE",
        ))
    } else if error.is_timeout() {
        StoreError::unavailable(said(&format!("gave no answer to {call} in time")))
    } else if error.is_connect() {
        StoreError::unavailable(said("cannot be reached"))
    } else {
        StoreError::unavailable(said(&format!("broke off during {call}")))
    };
    told.caused_by(error)
}

/// The server answered, and did not do what was asked.
pub(super) fn refused(
    place: &str,
    call: &str,
    status: StatusCode,
    refusal: &Refusal,
    key: Option<&ApiKey>,
) -> StoreError {
    let words = words(refusal);
    let wrong = |said: String| StoreError::misconfigured(format!("{place} {said}"));
    let unknown = |said: String| StoreError::unavailable(format!("{place} {said}"));
    match (status.as_u16(), key) {
        (401, None) => wrong(format!(
            "wants an API key; put it into {KEY_VARIABLE} or name a file with {KEY_FILE_VARIABLE}"
        )),
        (401, Some(key)) => wrong(format!(
            "refused the API key: it is unknown, has expired or was revoked; look at {}",
            key.place()
        )),
        (403, None) => wrong(format!("does not permit {call} without an API key{words}; set {KEY_VARIABLE}")),
        (403, Some(key)) => wrong(format!(
            "does not permit {call} to this API key{words}; use one with the role and the pool, see {}",
            key.place()
        )),
        (404 | 405 | 410, _) => wrong(format!(
            "does not know {call}; is the address that of a Leasehold server, and the server as new as this program?"
        )),
        (300..=399, _) => wrong("leads elsewhere; give the address that it leads to".to_owned()),
        (408 | 425 | 429, _) => unknown(format!("has no time for {call} now{words}")),
        (400..=499, _) => wrong(format!("refused {call}{words}")),
        (_, _) if refusal.error.as_deref() == Some("misconfigured") => {
            wrong(format!("cannot use its own store{words}"))
        }
        (code, _) => unknown(format!("could not do {call} (status {code}){words}")),
    }
}

/// Something came back that no Leasehold server says.
pub(super) fn strange(place: &str, what: &str) -> StoreError {
    StoreError::misconfigured(format!(
        "{place} gave {what} that this version cannot read; is it a Leasehold server, and as new as this program?"
    ))
}

/// A server's own words, made fit to stand in a line.
fn words(refusal: &Refusal) -> String {
    let Some(words) = refusal.detail.as_ref().or(refusal.message.as_ref()) else { return String::new() };
    let words: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS_MAX).collect();
    let words = words.trim().trim_end_matches('.');
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreErrorKind::{Misconfigured, Unavailable};

    // proves S15, C13
    #[test]
    fn a_refusal_says_what_to_do_and_shows_no_key() {
        let key = ApiKey::new("hunter2").unwrap();
        let because = |word: Option<&str>, detail: &str| Refusal {
            error: word.map(str::to_owned),
            detail: Some(detail.to_owned()),
            message: None,
        };
        let none = Refusal::default();
        for (status, refusal, key, kind, said) in [
            (
                401,
                &none,
                None,
                Misconfigured,
                "h wants an API key; put it into LEASEHOLD_API_KEY or name a file",
            ),
            (401, &none, Some(&key), Misconfigured, "has expired or was revoked; look at the key that"),
            (
                403,
                &because(None, "pool x\nis not yours."),
                Some(&key),
                Misconfigured,
                ": pool x is not yours; use",
            ),
            (404, &none, None, Misconfigured, "does not know beat"),
            (302, &none, None, Misconfigured, "leads elsewhere"),
            (422, &because(None, "too many"), None, Misconfigured, "refused beat: too many"),
            (429, &none, None, Unavailable, "has no time for beat now"),
            (
                503,
                &because(Some("misconfigured"), "no table"),
                None,
                Misconfigured,
                "its own store: no table",
            ),
            (503, &because(Some("unavailable"), "busy"), None, Unavailable, "(status 503): busy"),
            (502, &none, None, Unavailable, "could not do beat (status 502)"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = refused("h", "beat", status, refusal, key);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(said), "{error}");
            assert!(!format!("{error:?}").contains("hunter"), "{error:?}");
        }
    }
}
