//! Which addresses events may be posted to.
//!
//! Invariant: no connection is made to an address that is not public, unless the settings name its host. The name is looked
//! up here and what is found is what is connected to, so that a name cannot change its mind in between.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::super::settings::WebhookRules;

/// What addresses a host may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Public ones.
    Public,
    /// This machine's own.
    Loopback,
    /// Any.
    Any,
}

/// Whether events may be posted there, and which addresses the host may have. The error says what to do.
pub(super) fn allowed(url: &Url, rules: &WebhookRules) -> Result<Reach, String> {
    if !rules.allow.iter().any(|prefix| Url::parse(prefix).is_ok_and(|prefix| begins_with(url, &prefix))) {
        return Err("events may not be posted there; name its beginning with --webhook-allow".to_owned());
    }
    let host = url.host_str().unwrap_or_default();
    let literal = match url.host() {
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        _ => None,
    };
    let is_own = literal.map_or(host == "localhost", |address| address.is_loopback());
    let named = rules.private_hosts.iter().any(|name| {
        name.trim_start_matches('[').trim_end_matches(']')
            == host.trim_start_matches('[').trim_end_matches(']')
    });
    let reach = match (named, is_own) {
        (true, _) => Reach::Any,
        (false, true) => Reach::Loopback,
        (false, false) => Reach::Public,
    };
    if url.scheme() != "https" && !is_own {
        return Err("events are posted by https, or to this machine itself".to_owned());
    }
    if literal.is_some_and(|address| !reach.includes(address)) {
        return Err(
            "its address is not public; name the host with --webhook-private-host if it is meant".to_owned()
        );
    }
    Ok(reach)
}

/// Whether an address begins with another: whole steps of the path, everything before it the same.
fn begins_with(url: &Url, prefix: &Url) -> bool {
    let same = url.scheme() == prefix.scheme()
        && url.host() == prefix.host()
        && url.port_or_known_default() == prefix.port_or_known_default();
    let steps = prefix.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(steps);
    same && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Reach {
    fn includes(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Loopback => address.is_loopback(),
            Self::Public => is_public(address),
        }
    }
}

/// Whether an address can be that of a machine somewhere on the internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast();
    // This network, shared by carriers, protocol assignments, benchmarks, reserved.
    let reserved = a == 0
        || (a == 100 && b & 0xc0 == 64)
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && b & 0xfe == 18)
        || a >= 240;
    !special && !reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Those that carry an IPv4 address go where that one goes.
    let carried = address.to_ipv4_mapped().or_else(|| match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    });
    if let Some(carried) = carried {
        return is_public_v4(carried);
    }
    // Of all others only 2000::/3 is given out; documentation and Teredo are not meant either.
    let given_out = first & 0xe000 == 0x2000;
    given_out && !(first == 0x2001 && (second == 0xdb8 || second == 0)) && first != 0x3fff
}

/// Looks names up, and finds only addresses that are allowed.
#[derive(Debug)]
pub(super) struct Guarded {
    reach: Reach,
}

impl Guarded {
    pub(super) fn of(reach: Reach) -> Self {
        Self { reach }
    }
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.reach;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.filter(|found| reach.includes(found.ip())).collect();
            if found.is_empty() {
                let why = "the host has no address that events may be posted to; a private one must be named with --webhook-private-host";
                return Err(why.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(url: &str, allow: &str, private: &[&str]) -> Result<Reach, String> {
        let private_hosts = private.iter().map(|host| (*host).to_owned()).collect();
        allowed(&Url::parse(url).unwrap(), &WebhookRules { allow: vec![allow.to_owned()], private_hosts })
    }

    #[test]
    fn a_prefix_is_whole_steps_of_the_same_host() {
        let prefix = "https://hooks.example.org/lease";
        for url in ["https://hooks.example.org/lease", "https://hooks.example.org:443/lease/a?b"] {
            assert_eq!(reach(url, prefix, &[]), Ok(Reach::Public), "{url}");
        }
        for url in [
            "https://hooks.example.org/leases",
            "https://hooks.example.org/lease/../other",
            "https://hooks.example.org.evil.example/lease",
            "https://hooks.example.org:444/lease",
            "https://hooks.example.org@evil.example/lease",
            "http://hooks.example.org/lease",
        ] {
            assert!(reach(url, prefix, &[]).is_err(), "{url}");
        }
    }

    #[test]
    fn without_https_only_this_machine_is_reached() {
        assert_eq!(reach("http://127.0.0.1:1/x", "http://127.0.0.1:1/", &[]), Ok(Reach::Loopback));
        assert_eq!(reach("http://localhost:1/x", "http://localhost:1/", &[]), Ok(Reach::Loopback));
        assert!(reach("http://example.org/x", "http://example.org/", &["example.org"]).is_err());
    }

    #[test]
    fn private_addresses_must_be_named() {
        let url = "https://10.1.2.3/x";
        assert!(reach(url, url, &[]).is_err());
        assert_eq!(reach(url, url, &["10.1.2.3"]), Ok(Reach::Any));
        let url = "https://[fd00::1]/x";
        assert!(reach(url, url, &[]).is_err());
        assert_eq!(reach(url, url, &["fd00::1"]), Ok(Reach::Any));
    }

    #[test]
    fn addresses_that_are_not_public_are_known() {
        for text in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.1",
            "192.168.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "fc00::1",
            "fe80::1",
            "ff02::1",
            "2001:db8::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["8.8.8.8", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8"] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[tokio::test]
    async fn a_name_of_a_private_address_is_not_found() {
        use std::str::FromStr;

        let resolve = |reach| Guarded::of(reach).resolve(Name::from_str("localhost").unwrap());
        assert!(resolve(Reach::Public).await.is_err());
        assert!(resolve(Reach::Loopback).await.unwrap().next().is_some());
    }
}
