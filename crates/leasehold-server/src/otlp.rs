//! Spans of requests, sent to an OpenTelemetry collector over OTLP/HTTP.
//!
//! A span of a request belongs to the trace that its caller names in `traceparent`. Spans are gathered and sent by a thread
//! of the exporter's own: no request waits for the collector, and what it does not take is dropped.

use std::thread;
use std::time::Duration;

use axum::http::{HeaderMap, Method, StatusCode};
use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use reqwest::Url;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use crate::events::trust;

/// What marks the spans that are sent.
const TARGET: &str = "leasehold::trace";
/// Where below a collector's address spans go.
const PATH: &str = "v1/traces";
/// How long a collector may take for one batch, and for the last.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Spans cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error(
    "spans cannot be sent to {endpoint:?}: {why}; give the address of a collector, like http://127.0.0.1:4318"
)]
pub struct OtlpError {
    endpoint: String,
    why: String,
}

/// Spans on their way to a collector.
#[derive(Debug)]
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// Begins to send to the collector at this address, as `OTEL_EXPORTER_OTLP_ENDPOINT` has it.
    ///
    /// # Errors
    /// It is no address of HTTP, or a client for it cannot be made.
    pub fn start(endpoint: &str) -> Result<Self, OtlpError> {
        let at = Url::parse(endpoint).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
        // An address may hold a password, so it is said without.
        let shown = at.as_ref().and_then(Url::host_str).unwrap_or("?").to_owned();
        let fault = |why: String| OtlpError { endpoint: shown.clone(), why };
        let Some(mut at) = at else { return Err(fault("it is no address of HTTP".to_owned())) };
        at.set_path(&format!("{}/{PATH}", at.path().trim_end_matches('/')));
        let tls = trust::client(None).map_err(|error| fault(error.to_string()))?;
        // The client must not be made on a thread that serves requests.
        let make = move || {
            let builder = reqwest::blocking::Client::builder().tls_backend_preconfigured(tls);
            builder.timeout(ANSWER_MAX).build()
        };
        let client = thread::spawn(make).join().map_err(|_| fault("no client can be made".to_owned()))?;
        let client = client.map_err(|error| fault(error.to_string()))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(at)
            .with_timeout(ANSWER_MAX)
            .build()
            .map_err(|error| fault(error.to_string()))?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("leasehold");
        }
        let provider = SdkTracerProvider::builder().with_resource(resource.build());
        Ok(Self(provider.with_batch_exporter(exporter).build()))
    }

    /// What hands spans of requests over, and nothing else.
    #[must_use]
    pub fn layer<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        // Where in this program a span was made is nothing to its readers.
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("leasehold"))
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false);
        layer.with_filter(filter_fn(|of| of.is_span() && of.target() == TARGET)).boxed()
    }

    /// Sends the last spans, for a while. Blocks.
    pub fn stop(self) {
        if let Err(error) = self.0.shutdown_with_timeout(ANSWER_MAX) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// The span of a request, in the trace that its caller names.
pub(crate) fn span(method: &Method, route: &str, id: &str, headers: &HeaderMap) -> Span {
    let span = tracing::info_span!(
        target: TARGET, "request", otel.name = format!("{method} {route}"), otel.kind = "server",
        otel.status_code = tracing::field::Empty, http.request.method = method.as_str(), http.route = route,
        http.response.status_code = tracing::field::Empty, request_id = id,
    );
    if let Some(parent) = parent(headers) {
        // There is nobody to tell if nobody takes spans.
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }
    span
}

/// What the request was answered.
pub(crate) fn answered(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}

/// The span that the caller says it asks from (W3C `traceparent`).
fn parent(headers: &HeaderMap) -> Option<SpanContext> {
    let parts: Vec<&str> = headers.get("traceparent")?.to_str().ok()?.split('-').collect();
    let [version, trace, span, flags, ..] = parts.as_slice() else { return None };
    if version.len() != 2 || *version == "ff" || trace.len() != 32 || span.len() != 16 || flags.len() != 2 {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let parent = SpanContext::new(trace, span, flags & TraceFlags::SAMPLED, true, TraceState::default());
    parent.is_valid().then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_traceparent_is_a_parent() {
        let of = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", value.parse().unwrap());
            parent(&headers)
        };
        let good = of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        assert_eq!(good.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert!(good.is_sampled() && good.is_remote());
        assert!(!of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00").unwrap().is_sampled());
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473x-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-x1",
        ] {
            assert!(of(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_address_that_is_none_is_refused_without_its_password() {
        for wrong in ["", "ftp://h/", "collector:4318", "grpc://user:hunter2@h"] {
            let error = Traces::start(wrong).expect_err(wrong).to_string();
            assert!(
                error.contains("give the address of a collector") && !error.contains("hunter2"),
                "{error}"
            );
        }
    }
}
