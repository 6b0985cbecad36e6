//! Store URLs: what is taken names the same store when it is written and read again; what is refused is not repeated.

#![no_main]

use leasehold::store::StoreUrl;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match text.parse::<StoreUrl>() {
        Ok(url) => {
            let again: StoreUrl = url.to_string().parse().expect("what is taken can be written");
            // As text too: paths that differ in slashes only count as equal.
            assert_eq!((again.to_string(), &again), (url.to_string(), &url), "{text:?}");
            match url {
                StoreUrl::Memory => assert_eq!(text, "memory:"),
                StoreUrl::Sqlite(path) => {
                    let path = path.to_str().expect("it was text");
                    assert!(
                        !path.is_empty() && text.starts_with("sqlite:") && text.ends_with(path),
                        "{text:?}"
                    );
                }
                other => panic!("{text:?} became {other:?}"),
            }
        }
        Err(error) => {
            let said = error.to_string();
            assert!(!said.contains(char::is_control), "{said:?} disturbs a terminal");
            // What follows the scheme may hold a password: the sentence is the same without it.
            if let Some((scheme, rest)) = text.split_once(':').filter(|(_, rest)| !matches!(*rest, "" | "//"))
            {
                let without = format!("{scheme}:x").parse::<StoreUrl>();
                assert_eq!(without, Err(error), "the sentence depends on {rest:?}");
            }
        }
    }
});
