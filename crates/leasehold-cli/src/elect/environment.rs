//! The variables that schedulers of another make are set up with: they count where ours say nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use leasehold::election::Key;
use leasehold::store::StoreUrl;

use crate::failure::Failure;

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The etcd cluster of `ETCD_ENDPOINTS`, or of `ETCD_HOST` and `ETCD_PORT`.
pub(super) fn store() -> Result<Option<StoreUrl>, Failure> {
    let Some(url) = etcd_url(var) else { return Ok(None) };
    // What is in there may be a password, so it is not repeated.
    let wrong = |_| {
        Failure::usage(
            "ETCD_ENDPOINTS, ETCD_HOST and the other ETCD_ variables name no cluster; use host:port, separated by commas",
        )
    };
    url.parse().map(Some).map_err(wrong)
}

fn etcd_url(var: impl Fn(&str) -> Option<String>) -> Option<String> {
    let one =
        || Some(format!("{}:{}", var("ETCD_HOST")?, var("ETCD_PORT").unwrap_or_else(|| "2379".to_owned())));
    let endpoints = var("ETCD_ENDPOINTS").or_else(one)?;
    let tls = var("ETCD_TLS").is_some_and(|on| matches!(on.as_str(), "1" | "true" | "yes" | "on"));
    let tls = tls || endpoints.split(',').any(|endpoint| endpoint.trim().starts_with("https://"));
    let bare = |endpoint: &str| {
        let endpoint = endpoint.trim();
        let endpoint = endpoint
            .strip_prefix("http://")
            .or_else(|| endpoint.strip_prefix("https://"))
            .unwrap_or(endpoint);
        endpoint.trim_end_matches('/').to_owned()
    };
    let hosts: Vec<String> = endpoints.split(',').map(bare).filter(|host| !host.is_empty()).collect();
    let login = match (var("ETCD_USERNAME"), var("ETCD_PASSWORD")) {
        (Some(user), Some(password)) => format!("{}:{}@", escaped(&user), escaped(&password)),
        (Some(user), None) => format!("{}@", escaped(&user)),
        _ => String::new(),
    };
    Some(format!("{}://{login}{}", if tls { "etcds" } else { "etcd" }, hosts.join(",")))
}

/// Written so that nothing in it means anything in a URL.
fn escaped(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

/// `LEADER_KEY`.
pub(super) fn key() -> Result<Option<Key>, Failure> {
    let parse = |key: String| key.parse().map_err(|error| Failure::usage(format!("LEADER_KEY: {error}")));
    var("LEADER_KEY").map(parse).transpose()
}

/// `SCHEDULER_INSTANCE_ID`.
pub(super) fn name() -> Option<String> {
    var("SCHEDULER_INSTANCE_ID")
}

/// `LEADER_LEASE_TTL`, in seconds.
pub(super) fn ttl() -> Result<Option<Duration>, Failure> {
    let parse = |seconds: String| match seconds.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => Err(Failure::usage(format!(
            "LEADER_LEASE_TTL={seconds:?} is no number of seconds; give one, as in 15"
        ))),
    };
    var("LEADER_LEASE_TTL").map(parse).transpose()
}

/// `HEALTH_PORT`, on this machine only.
pub(super) fn health() -> Result<Option<SocketAddr>, Failure> {
    let parse = |port: String| match port.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) => Err(Failure::usage(format!("HEALTH_PORT={port:?} is no port; give one, as in 8081"))),
    };
    var("HEALTH_PORT").map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[(&str, &str)]) -> Option<String> {
        etcd_url(|name| given.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    // proves U15
    #[test]
    fn a_cluster_is_named_as_other_schedulers_name_it() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("ETCD_HOST", "e1")]).unwrap(), "etcd://e1:2379");
        assert_eq!(of(&[("ETCD_HOST", "e1"), ("ETCD_PORT", "1")]).unwrap(), "etcd://e1:1");
        assert_eq!(of(&[("ETCD_ENDPOINTS", "http://e1:1/, e2:2")]).unwrap(), "etcd://e1:1,e2:2");
        assert_eq!(of(&[("ETCD_ENDPOINTS", "https://e1:1")]).unwrap(), "etcds://e1:1");
        let login =
            [("ETCD_HOST", "e1"), ("ETCD_USERNAME", "me"), ("ETCD_PASSWORD", "a@b/c"), ("ETCD_TLS", "true")];
        assert_eq!(of(&login).unwrap(), "etcds://me:a%40b%2Fc@e1:2379");
        assert!(of(&login).unwrap().parse::<StoreUrl>().is_ok());
    }
}
