//! What keeps pages of a browser out where no key is asked for.
//!
//! A page of any site can have the browser send requests to this machine, and a name that its owner points at 127.0.0.1 even
//! lets it read the answers. Programs send no `Origin`, and name the machine as it is.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};

use super::is_loopback;
use crate::problem::{Answer, Problem};

/// Refuses what a page of another site has sent.
pub(super) fn refuse_pages(headers: &HeaderMap) -> Answer<()> {
    let text = |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or("?"));
    let host = text(HOST);
    let origin = text(ORIGIN).map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    let foreign = host.is_some_and(|host| !is_here(host))
        || origin.is_some_and(|origin| !is_here(origin) || Some(origin) != host);
    if foreign {
        let said = "without keys only programs on this machine are answered, under its own names: localhost, 127.0.0.1 \
                    or [::1]; for others make a key with `leasehold keys create`";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", said));
    }
    Ok(())
}

/// Whether `host` or `host:port` names this machine itself.
fn is_here(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(pairs: &[(&'static str, &str)]) -> bool {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (axum::http::HeaderName::from_static(name), value.parse().unwrap()));
        refuse_pages(&pairs.collect()).is_err()
    }

    #[test]
    fn pages_of_other_sites_are_kept_out() {
        assert!(!refused(&[("host", "127.0.0.1:7400")]));
        assert!(!refused(&[("host", "localhost")]));
        assert!(!refused(&[("host", "[::1]:7400")]));
        assert!(!refused(&[("host", "localhost:7400"), ("origin", "http://localhost:7400")]));
        assert!(refused(&[("host", "127.0.0.1:7400"), ("origin", "https://evil.example")]));
        assert!(refused(&[("host", "localhost:7400"), ("origin", "http://localhost:8080")]));
        assert!(refused(&[("host", "evil.example:7400")]));
        assert!(refused(&[("host", "127.0.0.1.evil.example")]));
        assert!(refused(&[("host", "localhost"), ("origin", "null")]));
    }
}
