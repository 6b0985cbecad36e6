//! Versions of configurations: SHA-256 of canonical JSON.
//!
//! Canonical means: the keys of every object in the order of their bytes, no white space, numbers as short as they can be. So
//! what means the same has the same version, whoever wrote it and in whatever order.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The version of a value.
pub(super) fn of(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    of_text(&text)
}

/// The version of several named versions, in the order of their names.
pub(super) fn of_all<'a>(parts: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let object = parts.into_iter().map(|(name, version)| (name.to_owned(), Value::from(version))).collect();
    of(&Value::Object(object))
}

fn of_text(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write(value: &Value, into: &mut String) {
    match value {
        Value::Array(items) => {
            into.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    into.push(',');
                }
                write(item, into);
            }
            into.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            into.push('{');
            for (place, (name, value)) in sorted.into_iter().enumerate() {
                if place > 0 {
                    into.push(',');
                }
                into.push_str(&Value::from(name.as_str()).to_string());
                into.push(':');
                write(value, into);
            }
            into.push('}');
        }
        Value::Number(number) => into.push_str(&short(number)),
        plain => into.push_str(&plain.to_string()),
    }
}

/// A number as short as it can be: 100.0 is 100.
fn short(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => format!("{float:.0}"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // proves U23
    #[test]
    fn what_means_the_same_has_the_same_version() {
        let one: Value = serde_json::from_str(r#"{"b": [1, 2.0], "a": {"y": 0.30, "x": null}}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"a":{"x":null,"y":0.3},"b":[1.0,2]}"#).unwrap();
        assert_eq!(of(&one), of(&two));
        assert_ne!(of(&one), of(&json!({"a": {"x": null, "y": 0.3}, "b": [2, 1]})));
        assert_eq!(of(&json!({})), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
        assert_eq!(of(&json!({"a": 1e3})), of(&json!({"a": 1000})));
    }
}
