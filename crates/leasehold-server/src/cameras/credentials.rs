//! User and password inside the address of a camera, and how they are kept from whoever need not know them.

use std::borrow::Cow;

use url::Url;

/// What stands where credentials were.
const MASK: &str = "***";

/// An address without its credentials, for lists, logs and those who may only look.
pub(super) fn mask(address: &str) -> String {
    let Ok(mut url) = Url::parse(address) else {
        // What is stored was checked; whatever this is, it is not shown.
        return MASK.to_owned();
    };
    if url.username().is_empty() && url.password().is_none() {
        return address.to_owned();
    }
    let had_password = url.password().is_some();
    let _ = url.set_username(MASK);
    let _ = url.set_password(had_password.then_some(MASK));
    url.to_string()
}

/// A text in which no address has its credentials, whoever wrote it there: what cannot be used is told with its words.
pub(crate) fn hide(text: Cow<'static, str>) -> Cow<'static, str> {
    if !text.contains("://") {
        return text;
    }
    let (mut hidden, mut rest) = (String::with_capacity(text.len()), &*text);
    while let Some(begin) = rest.find("://").map(|place| place + 3) {
        let (before, after) = rest.split_at(begin);
        hidden.push_str(before);
        let end = after.find(|c: char| "/?#".contains(c) || c.is_whitespace()).unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(place) => {
                hidden.push_str(MASK);
                &after[place..]
            }
            None => after,
        };
    }
    hidden.push_str(rest);
    Cow::Owned(hidden)
}

/// The credentials of an address.
pub(super) fn of(address: &str) -> Option<(String, Option<String>)> {
    let url = Url::parse(address).ok()?;
    let (user, password) = (url.username().to_owned(), url.password().map(str::to_owned));
    (!user.is_empty() || password.is_some()).then_some((user, password))
}

/// Whether an address was taken from a list, where its credentials are masked.
pub(super) fn is_masked(address: &str) -> bool {
    of(address).is_some_and(|(user, password)| user == MASK || password.as_deref() == Some(MASK))
}

/// Why an address cannot be a camera's, without a word of it.
pub(super) fn check(address: &str) -> Result<(), &'static str> {
    if address.len() > 2048 {
        return Err("rtsp_url is longer than 2048 bytes");
    }
    if address.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("rtsp_url contains white space or control characters");
    }
    let Ok(url) = Url::parse(address) else {
        return Err("rtsp_url is no address; give one such as rtsp://camera.local/stream");
    };
    if !["rtsp", "rtsps"].contains(&url.scheme()) {
        return Err("rtsp_url does not begin with rtsp:// or rtsps://");
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("rtsp_url names no host");
    }
    if is_masked(address) {
        return Err("the credentials in rtsp_url are masked, as in lists; send the real ones, or none");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves U22
    #[test]
    fn what_is_told_of_a_text_has_no_credentials() {
        for (text, told) in [
            ("no address", "no address"),
            ("\"rtsp://u:p@cam/s\", expected f64", "\"rtsp://***@cam/s\", expected f64"),
            ("rtsp://u:p@x@cam rtsp://cam/a@b ftp://token@", "rtsp://***@cam rtsp://cam/a@b ftp://***@"),
            ("rtsp://u:p\\\"q@\", expected", "rtsp://***@\", expected"),
        ] {
            assert_eq!(hide(text.into()), told);
        }
    }

    // proves U22
    #[test]
    fn credentials_are_masked_and_nothing_else() {
        assert_eq!(
            mask("rtsp://user:pass@camera.local/stream?a=1"),
            "rtsp://***:***@camera.local/stream?a=1"
        );
        assert_eq!(mask("rtsp://user@camera.local:554/s"), "rtsp://***@camera.local:554/s");
        assert_eq!(mask("rtsp://:pass@camera.local/s"), "rtsp://***:***@camera.local/s");
        assert_eq!(mask("rtsp://camera.local/stream"), "rtsp://camera.local/stream");
        assert_eq!(mask("user:pass"), "user:pass", "no credentials: a scheme and a path");
        assert_eq!(mask("//user:pass@host"), "***");
    }

    #[test]
    fn what_is_no_address_of_a_camera_is_refused_without_a_word_of_it() {
        for good in ["rtsp://camera.local/stream", "rtsps://u:p@[::1]:322/x"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "camera",
            "http://h/x",
            "rtsp://",
            "rtsp:///x",
            "rtsp://h/a b",
            "rtsp://***:***@h/",
            "rtsp://***@h/",
        ] {
            let said = check(bad).expect_err(bad);
            assert!(!said.contains("hunter2"));
        }
        assert!(check(&format!("rtsp://h/{}", "x".repeat(3000))).is_err());
    }
}
