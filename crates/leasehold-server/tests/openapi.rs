//! The description of the API: the one that is checked in, and the page that shows it.

mod support;

use std::path::Path;
use std::sync::Arc;

use leasehold::store::memory::MemoryStore;
use serde_json::Value;
use support::Plane;

const RENEW: &str = "LEASEHOLD_GOLDEN=write cargo test -p leasehold-server --test openapi";

/// Whoever changes the API sees it in `docs/openapi.json`, and so does whoever reviews it.
#[test]
fn the_description_that_is_checked_in_is_that_of_the_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let made = leasehold_server::openapi().to_pretty_json().unwrap() + "\n";
    if std::env::var("LEASEHOLD_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(&file, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = kept.lines().zip(made.lines()).position(|(kept, made)| kept != made);
    let line = differs.unwrap_or_else(|| kept.lines().count().min(made.lines().count())) + 1;
    assert!(
        kept == made,
        "docs/openapi.json is not what the code serves, from line {line} on; if that is meant, renew it: {RENEW}"
    );
}

/// The whole document is OpenAPI 3.1, and each operation has a name of its own.
#[test]
fn operations_have_names_tags_and_words() {
    let document = serde_json::to_value(leasehold_server::openapi()).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    let known: Vec<&Value> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    let mut names = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            names.push(operation["operationId"].as_str().unwrap());
            assert!(operation["summary"].is_string(), "{method} {path} says nothing about itself");
            assert!(known.contains(&&operation["tags"][0]), "{method} {path} is in no part of the API");
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "operations share a name: {names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_nothing_but_itself() {
    let plane = Plane::serving(Arc::new(MemoryStore::new())).await;
    let page = plane.get("/docs").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap().to_owned();
    let nonce = policy.split_once("script-src 'nonce-").unwrap().1.split_once('\'').unwrap().0;
    let text = page.body.as_str().unwrap();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(text.matches(&format!("nonce=\"{nonce}\"")).count(), 2, "the style and the script");
    for outside in ["src=", "http://", "https://", "@import", "url(", "{nonce}", "{script}", "{document}"] {
        let shell = text.split_once("application/json\">").unwrap();
        let rest = shell.1.split_once("</script>").unwrap().1;
        assert!(!shell.0.contains(outside) && !rest.contains(outside), "the page asks for {outside}");
    }
    let again = plane.get("/docs").await;
    assert_ne!(again.header("content-security-policy"), Some(policy.as_str()), "a nonce is used once");

    // It shows the document that is served.
    let inside = text.split_once("application/json\">").unwrap().1.split_once("</script>").unwrap().0;
    let shown: Value = serde_json::from_str(inside).unwrap();
    assert_eq!(shown, plane.get("/openapi.json").await.body);
}
