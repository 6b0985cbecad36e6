//! Store URLs: what is taken names the same store when it is written and read again, or is a server, which is shown without what
//! is secret; what is refused is not repeated.

#![no_main]

use leasehold::store::{StoreUrl, StoreUrlError};
use libfuzzer_sys::fuzz_target;

/// One address for each thing that can be wrong with that of a server, after its scheme.
const WRONG: [&str; 5] = ["x", "//", "//h:0", "//h/%", "//h?x"];

fuzz_target!(|text: &str| {
    let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
    match text.parse::<StoreUrl>() {
        Ok(url @ (StoreUrl::Memory | StoreUrl::Sqlite(_))) => {
            let again: StoreUrl = url.to_string().parse().expect("what is taken can be written");
            // As text too: paths that differ in slashes only count as equal.
            assert_eq!((again.to_string(), &again), (url.to_string(), &url), "{text:?}");
            match url {
                StoreUrl::Sqlite(path) => {
                    let path = path.to_str().expect("it was text");
                    assert!(
                        !path.is_empty() && text.starts_with("sqlite:") && text.ends_with(path),
                        "{text:?}"
                    );
                }
                _ => assert_eq!(text, "memory:"),
            }
        }
        Ok(server) => {
            let bare = bare(scheme, rest).parse::<StoreUrl>().expect("it is an address without its secrets");
            let shown = |url: &StoreUrl| (url.to_string(), format!("{url:?}"));
            assert_eq!(shown(&bare), shown(&server), "who asks, and what for, is not shown of {text:?}");
        }
        Err(error) => {
            let said = error.to_string();
            assert!(!said.contains(char::is_control), "{said:?} disturbs a terminal");
            // What follows the scheme may hold a password: the sentence is the same without it.
            let of = |rest: &str| format!("{scheme}:{rest}").parse::<StoreUrl>();
            if matches!(error, StoreUrlError::Server(_)) {
                assert!(
                    WRONG.iter().any(|wrong| of(wrong) == Err(error.clone())),
                    "{said} depends on {rest:?}"
                );
            } else if !matches!(rest, "" | "//") {
                assert_eq!(of("x"), Err(error), "the sentence depends on {rest:?}");
            }
        }
    }
});

/// The address of a server without whoever asks and without options, but for one that stands for a host.
fn bare(scheme: &str, rest: &str) -> String {
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    let host = if hosts.is_empty() { "?host=x" } else { "" };
    format!("{scheme}://{hosts}/{path}{host}")
}
