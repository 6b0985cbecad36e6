//! `leasehold bench` on every store, small: every case gives figures, and what it made is gone.

mod support;

use leasehold_testkit::{Etcd, Postgres, Redis};
use serde_json::Value;
use support::{Place, leasehold, ran};

const SMALL: [&str; 14] = [
    "--round",
    "100ms",
    "--leases",
    "600",
    "--members",
    "3",
    "--resources",
    "30",
    "--turns",
    "2",
    "--callers",
    "4",
    "--ttl",
    "2s",
];

fn bench(store: &str, args: &[&str]) -> Value {
    let said = ran(leasehold().args(["bench", "--json", "--store", store]).args(SMALL).args(args));
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{store}");
    serde_json::from_str(&said.out).expect("JSON")
}

fn migrate(store: &str) {
    let said = ran(leasehold().args(["migrate", "--fresh", "--store", store]));
    assert_eq!(said.code, Some(0), "{said:?}");
}

// Members only wait on a store that may have forgotten something, and nobody would know what was measured.
#[test]
fn a_frozen_store_is_not_measured() {
    let server = Redis::start();
    let said = ran(leasehold().args(["bench", "--store", &server.url(), "--only", "cold-start"]));
    assert_eq!((said.code, said.out.as_str()), (Some(75), ""), "{said:?}");
    assert!(said.err.contains("frozen") && said.err.contains("leasehold migrate --fresh"), "{said:?}");
}

fn every_case_gives_figures(store: &str) {
    migrate(store);
    let report = bench(store, &["--server-pid", &std::process::id().to_string()]);
    let figures = report["figures"].as_array().expect("figures");
    for case in [
        "acquire, one a call",
        "acquire, contended",
        "heartbeat, 1 held",
        "heartbeat, 600 held",
        "release, one a call",
        "handoff",
        "failover",
        "fan-out",
        "cold start",
        "read of 600 leases",
        "keep 600 leases",
    ] {
        let figure =
            figures.iter().find(|figure| figure["case"].as_str().is_some_and(|name| name.starts_with(case)));
        let figure = figure.unwrap_or_else(|| panic!("{case} is missing in {report}"));
        assert!(figure["count"].as_u64() > Some(0) && figure["calls"].as_u64() > Some(0), "{figure}");
    }
    assert!(report["renewals_saved"].as_f64() > Some(0.0), "{report}");
    // Who is asked about is told.
    assert!(report["client"]["memory_mb"].as_f64() > Some(0.0), "{report}");
    assert!(report["server"]["memory_mb"].as_f64() > Some(0.0), "{report}");
    assert!(report["records_left"].as_u64() >= Some(600), "{report}");
    let status = ran(leasehold().args(["status", "--json", "--store", store]));
    let left: Value = serde_json::from_str(&status.out).expect("JSON");
    for pool in left["pools"].as_array().expect("pools") {
        assert_eq!(pool["members"].as_array().map(Vec::len), Some(0), "a session stayed: {pool}");
    }
}

#[test]
fn every_case_gives_figures_on_sqlite() {
    let place = Place::new();
    every_case_gives_figures(&format!("sqlite:{}", place.root().join("work.db").display()));
}

#[test]
fn every_case_gives_figures_on_postgres() {
    let server = Postgres::start();
    server.create("work");
    every_case_gives_figures(&server.url("work"));
}

#[test]
fn every_case_gives_figures_on_redis() {
    let server = Redis::start();
    every_case_gives_figures(&server.url());
}

#[test]
fn every_case_gives_figures_on_etcd() {
    let server = Etcd::start();
    every_case_gives_figures(&server.url("leasehold"));
}

#[test]
fn only_what_is_asked_for_is_measured() {
    let place = Place::new();
    let store = format!("sqlite:{}", place.root().join("work.db").display());
    migrate(&store);
    let report = bench(&store, &["--only", "batch,release"]);
    let cases: Vec<&str> =
        report["figures"].as_array().expect("figures").iter().filter_map(|f| f["case"].as_str()).collect();
    assert_eq!(cases.len(), 3, "{cases:?}");
    assert!(report["renewals_saved"].is_null() && report["client"].is_null());
}
