//! The token in a message: `_version`, in both shapes that trackers send.
//!
//! Document 000 has `{"scene_id": …, "data": {…}, "_version": 42}`; trackers send their own fields, `id`, `name`, `timestamp` and
//! `objects`, with `_version` and `scene_id` among them. Everything else in a message is skipped, not kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Offered;
use crate::lease::{TOKEN_MAX, Token};

/// A message is no JSON object, or says something twice.
#[derive(Debug, thiserror::Error)]
#[error("the message is no JSON object: {0}")]
pub struct Unreadable(String);

/// What a fence looks at in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its token.
    pub offered: Offered,
    /// The resource that it says it is about: `scene_id`, `resource_id` or, without these, `id`.
    pub resource: Option<Cow<'a, str>>,
}

impl<'a> Message<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// It is no JSON object, or has one of the fields twice.
    pub fn read(payload: &'a [u8]) -> Result<Self, Unreadable> {
        // A list would be taken for the fields in their order.
        if payload.trim_ascii_start().first() != Some(&b'{') {
            return Err(Unreadable("it begins with something else".to_owned()));
        }
        let fields: Fields<'a> =
            serde_json::from_slice(payload).map_err(|error| Unreadable(error.to_string()))?;
        let text = |field: Text<'a>| field.0;
        let own = text(fields.scene_id).or(text(fields.resource_id)).or(text(fields.id));
        Ok(Self { offered: fields.version.0, resource: own })
    }

    /// Whether it says that it is about another resource.
    #[must_use]
    pub fn is_about_another(&self, resource: &str) -> bool {
        self.resource.as_ref().is_some_and(|own| own != resource)
    }
}

#[derive(serde::Deserialize)]
struct Fields<'a> {
    #[serde(rename = "_version", default)]
    version: Version,
    #[serde(borrow, default)]
    scene_id: Text<'a>,
    #[serde(borrow, default)]
    resource_id: Text<'a>,
    #[serde(borrow, default)]
    id: Text<'a>,
}

struct Version(Offered);

impl Default for Version {
    fn default() -> Self {
        Self(Offered::Missing)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Any).map(|any| match any {
            Found::Nothing => Self(Offered::Missing),
            Found::Whole(number) if (1..=TOKEN_MAX).contains(&number) => Self(Offered::Token(Token(number))),
            _ => Self(Offered::Malformed),
        })
    }
}

/// Text, or nothing that counts.
#[derive(Default)]
struct Text<'a>(Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Any).map(|any| match any {
            Found::Text(text) => Self(Some(text)),
            _ => Self(None),
        })
    }
}

/// Any value, as far as it is of interest.
enum Found<'a> {
    Nothing,
    Whole(u64),
    Text(Cow<'a, str>),
    Other,
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Found<'de>, E> {
        Ok(Found::Nothing)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Found<'de>, E> {
        Ok(Found::Whole(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Found<'de>, E> {
        Ok(Found::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Found<'de>, E> {
        Ok(Found::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Found<'de>, E> {
        Ok(Found::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Found<'de>, E> {
        Ok(Found::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Found<'de>, E> {
        Ok(Found::Text(Cow::Borrowed(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Found<'de>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Found::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Found<'de>, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Found::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Offered, Option<String>) {
        let message = Message::read(text.as_bytes()).unwrap();
        (message.offered, message.resource.map(Cow::into_owned))
    }

    // proves R040, C08
    #[test]
    fn both_shapes_are_read() {
        let of = |text: &str| read(text);
        let expected = (Offered::Token(Token(42)), Some("scene-01".to_owned()));
        assert_eq!(of(r#"{"scene_id": "scene-01", "data": {"objects": []}, "_version": 42}"#), expected);
        let own = r#"{"id": "scene-01", "name": "Hall", "timestamp": "now", "objects": [{"id": "x", "_version": 7}], "_version": 42}"#;
        assert_eq!(of(own), expected);
        assert_eq!(of(r#"{"_version": 42, "id": "x", "scene_id": "scene-01"}"#), expected);
        assert_eq!(of(r#"{"_version": 42, "id": "x", "resource_id": "scene\u002d01"}"#), expected);
    }

    // proves C09: what is no token is never taken for one
    #[test]
    fn only_whole_numbers_that_every_language_can_hold_are_tokens() {
        for (text, offered) in [
            ("{}", Offered::Missing),
            (r#"{"_version": null}"#, Offered::Missing),
            (r#"{"_version": 1}"#, Offered::Token(Token(1))),
            (r#"{"_version": 9007199254740991}"#, Offered::Token(Token(TOKEN_MAX))),
        ] {
            assert_eq!(read(text).0, offered, "{text}");
        }
        for malformed in [
            "0",
            "-1",
            "-0",
            "42.0",
            "1e3",
            "9007199254740992",
            "18446744073709551616",
            "1e999",
            "\"42\"",
            "true",
            "[42]",
            r#"{"a":42}"#,
        ] {
            let text = format!(r#"{{"_version": {malformed}}}"#);
            // What is too large for any number is no JSON to us.
            let offered = Message::read(text.as_bytes()).map(|message| message.offered);
            assert!(matches!(offered, Ok(Offered::Malformed) | Err(_)), "{text}: {offered:?}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused_and_nothing_is_said_twice() {
        for text in ["", "42", "[]", "\"x\"", "{", "{} {}", r#"{"_version": 1, "_version": 2}"#, "\u{0}\u{1}"]
        {
            assert!(Message::read(text.as_bytes()).is_err(), "{text:?} was taken");
        }
        assert!(Message::read(b"\xff\xfe{}").is_err());
        let deep = format!(r#"{{"data": {}1{}, "_version": 3}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(!matches!(Message::read(deep.as_bytes()), Ok(Message { offered: Offered::Malformed, .. })));
    }

    #[test]
    fn a_message_about_another_resource_is_told() {
        let message = Message::read(br#"{"scene_id": "a", "_version": 1}"#).unwrap();
        assert!(message.is_about_another("b") && !message.is_about_another("a"));
        assert!(!Message::read(br#"{"id": 7}"#).unwrap().is_about_another("b"), "a number is no name");
    }
}
