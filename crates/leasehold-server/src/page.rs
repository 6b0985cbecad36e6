//! The page at `/`: files of our own, made part of the program. It is asked for from nowhere else, and asks nothing of anybody
//! else; what it shows comes over the same routes that programs use.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::problem::{Answer, Problem, ProblemBody};
use crate::request::Path;

/// Scripts and styles are files of this server, and nothing else: what stands in the page itself is not run, whatever it says.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

macro_rules! files {
    ($($name:literal => $kind:expr,)*) => {
        [$(($name, $kind, include_bytes!(concat!("../page/", $name)).as_slice()),)*]
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Every file, its type and what is in it.
const FILES: [(&str, &str, &[u8]); 15] = files! {
    "index.html" => "text/html; charset=utf-8",
    "page.css" => "text/css; charset=utf-8",
    "icon.svg" => "image/svg+xml",
    "main.js" => SCRIPT,
    "acts.js" => SCRIPT,
    "address.js" => SCRIPT,
    "api.js" => SCRIPT,
    "clock.js" => SCRIPT,
    "dom.js" => SCRIPT,
    "grid.js" => SCRIPT,
    "link.js" => SCRIPT,
    "login.js" => SCRIPT,
    "model.js" => SCRIPT,
    "overlap.js" => SCRIPT,
    "panels.js" => SCRIPT,
};

fn file(name: &str, headers: &HeaderMap) -> Answer<Response> {
    let Some((_, kind, bytes)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return Err(Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no such file of the page"));
    };
    let digest: String = Sha256::digest(bytes)[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{digest}\"");
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(CONTENT_TYPE, *kind)], *bytes).into_response(),
    };
    let more: [(HeaderName, &'static str); 6] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        // Asked for again each time, and sent again only if it is another.
        (CACHE_CONTROL, "no-cache"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in more {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}

/// The page
///
/// Who owns what, what just moved and why, and what an operator can do about it. It has nothing of anybody's work in it: that it asks
/// for like any other client.
#[utoipa::path(get, path = "/", operation_id = "page", tag = "health", security(()), responses(
    (status = 200, description = "a page", body = String, content_type = "text/html"),
    (status = 304, description = "the same as before"),
))]
pub(crate) async fn index(headers: HeaderMap) -> Answer<Response> {
    file("index.html", &headers)
}

/// A file of the page
#[utoipa::path(get, path = "/page/{file}", operation_id = "page_file", tag = "health", security(()),
    params(("file" = String, Path, description = "its name")),
    responses(
        (status = 200, description = "the file", body = String, content_type = "text/javascript"),
        (status = 304, description = "the same as before"),
        (status = "4XX", description = "there is none", body = ProblemBody),
))]
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Answer<Response> {
    file(&name, &headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_served_and_names_no_other_host() {
        let there = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/page")).unwrap();
        let there: Vec<String> =
            there.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(there.len(), FILES.len(), "{there:?}");
        for (name, _, bytes) in FILES {
            let text = std::str::from_utf8(bytes).unwrap().replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("://"), "{name} names another host");
            // What others have written is never taken for markup.
            for markup in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style="]
            {
                assert!(!text.contains(markup), "{name} uses {markup}");
            }
        }
    }
}
