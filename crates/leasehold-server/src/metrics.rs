//! Figures for Prometheus.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::app::App;
use crate::problem::ProblemBody;

/// Upper bounds of the classes into which durations fall, in seconds.
const SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// The same for what waits for people's programs and for TTLs.
const MOVES: [f64; 12] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0];

/// What was counted and measured in this process.
#[derive(Debug, Clone)]
pub(crate) struct Metrics(Option<PrometheusHandle>);

impl Metrics {
    /// Begins to count. A process counts once, however many servers it starts; where another recorder was installed
    /// before, there is nothing to show.
    pub(crate) fn start() -> Self {
        static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
        let begin = || {
            let mut builder = PrometheusBuilder::new().set_buckets(&SECONDS).ok()?;
            for moves in
                ["leasehold_handoff_seconds", "leasehold_failover_seconds", "failover_duration_seconds"]
            {
                builder = builder.set_buckets_for_metric(Matcher::Full(moves.to_owned()), &MOVES).ok()?;
            }
            builder.install_recorder().ok()
        };
        Self(HANDLE.get_or_init(begin).clone())
    }

    /// Everything, in the text format.
    pub(crate) fn render(&self) -> String {
        let Some(handle) = &self.0 else { return String::new() };
        handle.run_upkeep();
        handle.render()
    }
}

/// What was found once among everything that is counted, by two words that tell it apart: to find it takes longer than to
/// count.
///
/// Only for what is counted while a server answers: what was found before [`Metrics::start`] counts nothing, for ever. And only for
/// words that are few, since all of them are kept.
#[derive(Debug)]
pub(crate) struct Found<K, T>(LazyLock<RwLock<Table<K, T>>>);

type Table<K, T> = HashMap<String, Vec<(K, T)>>;

impl<K: PartialEq, T: Clone> Found<K, T> {
    pub(crate) const fn new() -> Self {
        Self(LazyLock::new(RwLock::default))
    }

    /// What these words tell apart.
    pub(crate) fn of(&self, one: &str, other: K, find: impl FnOnce() -> T) -> T {
        let among = |table: &Table<K, T>| {
            let (_, found) = table.get(one)?.iter().find(|(of, _)| *of == other)?;
            Some(found.clone())
        };
        if let Some(found) = among(&self.0.read().unwrap_or_else(PoisonError::into_inner)) {
            return found;
        }
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have been faster.
        among(&table).unwrap_or_else(|| {
            let found = find();
            table.entry(one.to_owned()).or_default().push((other, found.clone()));
            found
        })
    }
}

/// Figures for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "health", responses(
    (status = 200, description = "the figures", body = String, content_type = "text/plain"),
    (status = "4XX", description = "the request cannot be used", body = ProblemBody),
    (status = 503, description = "the store does not answer", body = ProblemBody),
))]
pub(crate) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics().render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_not_looked_for_again() {
        static FOUND: Found<u16, u32> = Found::new();
        assert_eq!(FOUND.of("/a", 200, || 1), 1);
        assert_eq!(FOUND.of("/a", 404, || 2), 2);
        assert_eq!(FOUND.of("/b", 200, || 3), 3);
        for (one, other, found) in [("/a", 200, 1), ("/a", 404, 2), ("/b", 200, 3)] {
            assert_eq!(FOUND.of(one, other, || panic!("it is known")), found);
        }
    }
}
