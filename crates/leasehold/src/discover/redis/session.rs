//! A session as it is written: which fields count, and what is wrong with it. Pure.

use serde_json::{Map, Value};

use super::VALUE_MAX;
use crate::lease::ResourceId;
use crate::store::StoreError;

/// The most bytes of a prefix or of a field's name.
const NAME_MAX: usize = 128;

/// Where sessions are, and which of their fields count.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionKeys {
    /// What their keys begin with. A key that begins with `deleted-` and this says that a session is deleted.
    pub prefix: String,
    /// The field with the id.
    pub id_field: String,
    /// The field that is true while the session rests. One that is not there counts as false.
    pub pause_field: String,
}

impl Default for SessionKeys {
    fn default() -> Self {
        let [prefix, id_field, pause_field] = ["session:", "id", "isPaused"].map(str::to_owned);
        Self { prefix, id_field, pause_field }
    }
}

/// What one session says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Session {
    pub(super) id: ResourceId,
    pub(super) paused: bool,
}

impl SessionKeys {
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let names = [
            ("the prefix of sessions", &self.prefix),
            ("the name of the field with a session's id", &self.id_field),
            ("the name of the field that pauses a session", &self.pause_field),
        ];
        match names.iter().find(|(_, name)| name.is_empty() || name.len() > NAME_MAX) {
            Some((what, name)) => Err(StoreError::misconfigured(format!(
                "{what} has {} bytes; give 1 to {NAME_MAX}",
                name.len()
            ))),
            None => Ok(()),
        }
    }

    /// What the keys of deleted sessions begin with.
    pub(super) fn deleted(&self) -> String {
        format!("deleted-{}", self.prefix)
    }

    /// Fits every key of a session and of a deleted one; others may fit, too. The server tells most of those by their first
    /// byte.
    pub(super) fn pattern(&self) -> String {
        let mut rest = self.prefix.chars();
        match rest.next().filter(char::is_ascii) {
            Some(first) => format!("[{}d]*{}*", literal(&first.to_string()), literal(rest.as_str())),
            None => format!("*{}*", literal(&self.prefix)),
        }
    }

    /// Takes a session apart; the error says what is wrong with it, without repeating it.
    pub(super) fn parse(&self, text: &[u8]) -> Result<(Session, Value), String> {
        if text.len() > VALUE_MAX {
            return Err(format!("it has more than {VALUE_MAX} bytes"));
        }
        let value: Value =
            serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let Value::Object(fields) = &value else {
            return Err("it is JSON, but no object with fields".to_owned());
        };
        let session = Session { id: self.id(fields)?, paused: self.paused(fields)? };
        Ok((session, value))
    }

    fn id(&self, fields: &Map<String, Value>) -> Result<ResourceId, String> {
        let id = match field(fields, &self.id_field) {
            Some(Value::String(id)) => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            None | Some(Value::Null) => return Err(format!("it has no field {:?}", self.id_field)),
            Some(_) => return Err(format!("its field {:?} is no text", self.id_field)),
        };
        ResourceId::new(&id).map_err(|error| format!("its id cannot be used: {error}"))
    }

    fn paused(&self, fields: &Map<String, Value>) -> Result<bool, String> {
        match field(fields, &self.pause_field) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(paused)) => Ok(*paused),
            Some(_) => Err(format!("its field {:?} is neither true nor false", self.pause_field)),
        }
    }
}

/// The field of this name, or else the one that differs in its capitals only, as in `IsPaused`.
pub(super) fn field<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let same = |(other, _): &(&String, &Value)| other.eq_ignore_ascii_case(name);
    fields.get(name).or_else(|| fields.iter().find(same).map(|(_, value)| value))
}

/// A text as a pattern that fits nothing else.
pub(super) fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(String, bool), String> {
        let parsed = SessionKeys::default().parse(text.as_bytes());
        parsed.map(|(session, _)| (session.id.to_string(), session.paused))
    }

    // proves R050, U09
    #[test]
    fn a_session_needs_an_id_and_nothing_else() {
        let whole = r#"{"id":"9f1c","name":"n","address":"http://h","sessionName":"s","isOnline":true,
            "isPaused":false,"isDisconnected":false,"createdAt":"2026-01-11T00:00:00Z"}"#;
        assert_eq!(parsed(whole), Ok(("9f1c".to_owned(), false)));
        assert_eq!(parsed(r#"{"id":"a"}"#), Ok(("a".to_owned(), false)));
        assert_eq!(parsed(r#"{"id":7,"isPaused":null}"#), Ok(("7".to_owned(), false)));
        assert_eq!(parsed(r#"{"id":"a","isPaused":true}"#), Ok(("a".to_owned(), true)));
        assert_eq!(parsed(r#"{"ID":"a","IsPaused":true}"#), Ok(("a".to_owned(), true)));
    }

    #[test]
    fn what_is_wrong_with_a_session_is_said_without_repeating_it() {
        let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(300));
        let huge = format!(r#"{{"id":"a","note":"{}"}}"#, "hush".repeat(VALUE_MAX));
        for (text, said) in [
            ("hush", "it is not JSON: expected value at line 1 column 1"),
            ("[1]", "no object with fields"),
            ("{}", "it has no field \"id\""),
            (r#"{"id":""}"#, "is empty"),
            (r#"{"id":{}}"#, "is no text"),
            (r#"{"id":"a{b}"}"#, "contains '{'"),
            (r#"{"id":"a b"}"#, "contains ' '"),
            (r#"{"id":"a/b"}"#, "contains '/'"),
            (r#"{"id":"a","isPaused":"hush"}"#, "neither true nor false"),
            (&long, "has 300 bytes; at most 128 are allowed"),
            (&huge, "it has more than 65536 bytes"),
        ] {
            let why = parsed(text).unwrap_err();
            assert!(why.contains(said) && !why.contains("hush"), "{why}");
        }
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        let pattern =
            |prefix: &str| SessionKeys { prefix: prefix.to_owned(), ..SessionKeys::default() }.pattern();
        assert_eq!(
            ["s:", "]", "-", "^", "é:"].map(pattern),
            ["[sd]*:*", r"[\]d]**", r"[\-d]**", r"[\^d]**", "*é:*"]
        );
        let keys = SessionKeys { prefix: "a*[b]?:".to_owned(), ..SessionKeys::default() };
        assert_eq!(keys.pattern(), r"[ad]*\*\[b\]\?:*");
        assert!(SessionKeys { prefix: String::new(), ..SessionKeys::default() }.check().is_err());
    }
}
