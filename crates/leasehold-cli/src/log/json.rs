//! A line of the log as JSON, with the names that requirement U07 gives: `timestamp`, `level`, `msg`, `service`, `component`,
//! `operation`, `scene_id` and `error` with `type` and `message`; then everything else that the event says, under its own
//! names. What is said of a camera's lease has those of requirement U22 as well: `ts`, `tenant_id`, `site_id`, `camera_uuid`, `runner_id`,
//! `shard_id`; what was answered `error_code` and `duration_ms`. `leasehold verify` reads lines of the ledger back from this.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Who writes.
const SERVICE: &str = "leasehold";
/// The pool whose resources are scenes, also of a tenant.
const SCENES: &str = "scenes";
/// The type of an error of which nothing but its words is known.
const ERROR: &str = "error";

/// Lines as JSON.
pub(super) struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let line = line(timestamp, metadata.level().as_str(), metadata.target(), fields.0);
        writeln!(writer, "{}", serde_json::to_string(&line).map_err(|_| fmt::Error)?)
    }
}

/// What a line says, in the order in which people read it.
struct Line(Vec<(&'static str, Value)>, Map<String, Value>);

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = self.0.iter().map(|(name, value)| (*name, value));
        serializer.collect_map(named.chain(self.1.iter().map(|(name, value)| (name.as_str(), value))))
    }
}

/// The line of one event.
fn line(timestamp: String, level: &str, target: &str, mut fields: Map<String, Value>) -> Line {
    let mut line = vec![
        ("timestamp", timestamp.clone().into()),
        ("ts", timestamp.into()),
        ("level", level.to_ascii_lowercase().into()),
        ("msg", fields.remove("message").unwrap_or_default()),
        ("service", SERVICE.into()),
        ("component", component(target).into()),
    ];
    // What a line of the ledger reports is what was done.
    let operation = fields.remove("operation").or_else(|| fields.get("event").cloned());
    line.extend(operation.map(|operation| ("operation", operation)));
    if fields.get("pool").and_then(Value::as_str).is_some_and(is_scenes) {
        line.extend(fields.get("resource").map(|scene| ("scene_id", scene.clone())));
    }
    line.extend(of_camera(&fields));
    line.extend(fields.get("error_type").map(|code| ("error_code", code.clone())));
    let micros = fields.get("micros").and_then(Value::as_u64);
    line.extend(micros.map(|micros| ("duration_ms", json!(micros as f64 / 1000.0))));
    let kind = fields.remove("error_type").unwrap_or_else(|| ERROR.into());
    let error = fields.remove("error").map(|message| json!({"type": kind, "message": message}));
    line.extend(error.map(|error| ("error", error)));
    line.push(("target", target.into()));
    Line(line, fields)
}

/// What a line of the ledger says of a camera's lease, under the names of document 004.
fn of_camera(fields: &Map<String, Value>) -> Vec<(&'static str, Value)> {
    let detail = fields.get("detail").and_then(Value::as_str);
    let said: Map<String, Value> =
        detail.and_then(|detail| serde_json::from_str(detail).ok()).unwrap_or_default();
    if !said.contains_key("shard") {
        return Vec::new();
    }
    let names = [
        ("tenant_id", "tenant"),
        ("site_id", "site"),
        ("camera_uuid", "resource"),
        ("runner_id", "holder"),
        ("shard_id", "shard"),
    ];
    names.iter().filter_map(|(name, known)| Some((*name, said.get(*known)?.clone()))).collect()
}

fn is_scenes(pool: &str) -> bool {
    pool.rsplit('.').next() == Some(SCENES)
}

/// The part of the program that a target belongs to: `ledger` of `leasehold::ledger`, the library itself elsewhere.
fn component(target: &str) -> &str {
    let mut parts = target.split("::");
    let library = parts.next().unwrap_or(target);
    match parts.next() {
        Some(part) if library.starts_with(SERVICE) => part,
        _ => library,
    }
}

/// What an event says.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn say(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().trim_start_matches("r#").to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.say(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.say(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.say(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.say(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.say(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.say(field, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: Value) -> Map<String, Value> {
        fields.as_object().unwrap().clone()
    }

    // proves U07
    #[test]
    fn a_line_has_the_names_of_the_requirement() {
        let said = fields(json!({
            "message": "resource acquired", "event": "acquired", "pool": "acme.scenes", "resource": "s-1", "token": 7,
            "error": "no answer",
        }));
        let line = line("2026-01-22T10:15:30Z".to_owned(), "WARN", "leasehold::ledger", said);
        let text = serde_json::to_string(&line).unwrap();
        assert!(
            text.starts_with("{\"timestamp\":\"2026-01-22T10:15:30Z\",\"ts\":\"2026-01-22T10:15:30Z\",\"level\":\"warn\",\"msg\":"),
            "{text}"
        );
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap(),
            json!({
                "timestamp": "2026-01-22T10:15:30Z", "ts": "2026-01-22T10:15:30Z", "level": "warn", "msg": "resource acquired",
                "service": "leasehold", "component": "ledger", "operation": "acquired", "scene_id": "s-1",
                "error": {"type": "error", "message": "no answer"}, "target": "leasehold::ledger",
                "event": "acquired", "pool": "acme.scenes", "resource": "s-1", "token": 7,
            })
        );
    }

    // proves U22
    #[test]
    fn a_line_about_a_camera_has_the_names_of_document_004() {
        let detail = r#"{"holder":"r1","resource":"cam-1","shard":"s","site":"hall","tenant":"acme"}"#;
        let said = fields(json!({"message": "acquired", "event": "acquired", "detail": detail}));
        let line_of =
            |said| serde_json::to_value(line("now".to_owned(), "INFO", "leasehold::ledger", said)).unwrap();
        let line = line_of(said);
        for (name, value) in [
            ("ts", "now"),
            ("level", "info"),
            ("runner_id", "r1"),
            ("shard_id", "s"),
            ("site_id", "hall"),
            ("tenant_id", "acme"),
            ("camera_uuid", "cam-1"),
            ("event", "acquired"),
            ("msg", "acquired"),
        ] {
            assert_eq!(line[name], value, "{name}");
        }
        let answered = line_of(fields(json!({"message": "answered", "error_type": "gone", "micros": 1500})));
        assert_eq!((&answered["error_code"], &answered["duration_ms"]), (&json!("gone"), &json!(1.5)));
    }

    #[test]
    fn what_is_not_said_is_not_there() {
        let said =
            fields(json!({"message": "answered", "pool": "jobs", "resource": "a", "error_type": "gone"}));
        let line = serde_json::to_value(line(String::new(), "INFO", "hyper", said)).unwrap();
        for absent in ["operation", "scene_id", "error", "error_type"] {
            assert_eq!(line.get(absent), None, "{absent}");
        }
        assert_eq!(line["component"], "hyper");
        assert_eq!(component("leasehold_server::holders::listen"), "holders");
        assert_eq!(component("leasehold"), "leasehold");
    }
}
