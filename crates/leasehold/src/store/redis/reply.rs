//! What a script answers, taken apart. Whatever does not fit was not written by us.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::failure::unreadable;
use crate::lease::{BeatNumber, MemberId, Nonce, ResourceId, Term, Token};
use crate::store::{Answer, Era, StoreError};

/// What stands between the fields of a row, and in none of them.
const SEPARATOR: char = '\u{1f}';

/// What a handle remembers of the server from its own calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Remembered {
    pub(super) nonce: Nonce,
    /// Rises with every change; a server that shows less has forgotten.
    pub(super) seq: u64,
    pub(super) ttl_max_ms: u64,
}

/// An answer: the era it was given in, a word, and what else there is.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) era: Era,
    pub(super) seq: u64,
    pub(super) word: String,
    pub(super) rest: Fields,
}

impl Reply {
    pub(super) fn read(place: &str, value: Value) -> Result<Self, StoreError> {
        let mut fields = Fields::of(place.into(), value)?;
        let nonce = fields.text()?;
        let nonce = u64::from_str_radix(&nonce, 16).map_err(|_| unreadable(place, "an era"))?;
        let frozen = fields.number()? == 1;
        let ttl_max = Duration::from_millis(fields.number()?);
        let seq = fields.number()?;
        let word = fields.text()?;
        Ok(Self { era: Era { nonce: Nonce(nonce), frozen, ttl_max }, seq, word, rest: fields })
    }

    pub(super) fn remembered(&self) -> Remembered {
        let ttl_max_ms = u64::try_from(self.era.ttl_max.as_millis()).unwrap_or(u64::MAX);
        Remembered { nonce: self.era.nonce, seq: self.seq, ttl_max_ms }
    }

    /// An answer to a session's own call, read by `done` if it was done.
    pub(super) fn answer<T>(
        mut self,
        done: impl FnOnce(&mut Fields) -> Result<T, StoreError>,
    ) -> Result<Answer<T>, StoreError> {
        match self.word.as_str() {
            "done" => Ok(Answer::Done(done(&mut self.rest)?)),
            "gone" => Ok(Answer::Gone),
            "frozen" => Ok(Answer::Frozen(self.era.nonce)),
            _ => Err(self.strange()),
        }
    }

    /// The word is none that the call can be answered with.
    pub(super) fn strange(&self) -> StoreError {
        unreadable(&self.rest.place, "an answer")
    }
}

/// Values one after the other.
#[derive(Debug)]
pub(super) struct Fields {
    place: Arc<str>,
    values: std::vec::IntoIter<Value>,
}

impl Fields {
    fn of(place: Arc<str>, value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(values) => Ok(Self { place, values: values.into_iter() }),
            _ => Err(unreadable(&place, "an answer")),
        }
    }

    fn strange<T>(&self, what: &str) -> Result<T, StoreError> {
        Err(unreadable(&self.place, what))
    }

    /// The next value, if it is there.
    pub(super) fn optional(&mut self) -> Result<Option<String>, StoreError> {
        match self.values.next() {
            None | Some(Value::Nil) => Ok(None),
            Some(Value::Int(number)) => Ok(Some(number.to_string())),
            Some(Value::SimpleString(text)) => Ok(Some(text)),
            Some(Value::BulkString(bytes)) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => self.strange("bytes"),
            },
            Some(_) => self.strange("a value"),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, StoreError> {
        match self.optional()? {
            Some(text) => Ok(text),
            None => self.strange("less than a record"),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, StoreError> {
        match self.text()?.parse() {
            Ok(number) => Ok(number),
            Err(_) => self.strange("a number"),
        }
    }

    /// A number that may be negative.
    pub(super) fn signed(&mut self) -> Result<i64, StoreError> {
        match self.text()?.parse() {
            Ok(number) => Ok(number),
            Err(_) => self.strange("a number"),
        }
    }

    pub(super) fn flag(&mut self) -> Result<bool, StoreError> {
        Ok(self.text()? == "1")
    }

    /// An id as it is kept; `None` where it is empty.
    pub(super) fn optional_id<T: std::str::FromStr>(&mut self) -> Result<Option<T>, StoreError> {
        let Some(text) = self.optional()?.filter(|text| !text.is_empty()) else { return Ok(None) };
        match text.parse() {
            Ok(id) => Ok(Some(id)),
            Err(_) => self.strange("an id"),
        }
    }

    pub(super) fn id<T: std::str::FromStr>(&mut self) -> Result<T, StoreError> {
        match self.optional_id()? {
            Some(id) => Ok(id),
            None => self.strange("an id"),
        }
    }

    pub(super) fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, StoreError> {
        let text = self.text()?;
        serde_json::from_str(&text).or_else(|_| self.strange("a record"))
    }

    /// A record that may be absent, or JSON's `null`, which is the same.
    pub(super) fn optional_json<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>, StoreError> {
        let Some(text) = self.optional()? else { return Ok(None) };
        serde_json::from_str(&text).or_else(|_| self.strange("a record"))
    }

    pub(super) fn member(&mut self) -> Result<MemberId, StoreError> {
        self.id()
    }

    pub(super) fn beat(&mut self) -> Result<BeatNumber, StoreError> {
        Ok(BeatNumber(self.number()?))
    }

    pub(super) fn token(&mut self) -> Result<Token, StoreError> {
        Ok(Token(self.number()?))
    }

    /// A list, each of whose items is read by `read`.
    pub(super) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Fields) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let Some(Value::Array(items)) = self.values.next() else { return self.strange("a value") };
        items
            .into_iter()
            .map(|item| match item {
                Value::Array(_) => read(&mut Fields::of(Arc::clone(&self.place), item)?),
                single => {
                    read(&mut Self { place: Arc::clone(&self.place), values: vec![single].into_iter() })
                }
            })
            .collect()
    }

    /// The fields of a row, which are one text.
    pub(super) fn parts(&mut self) -> Result<Self, StoreError> {
        let text = self.text()?;
        let values: Vec<Value> =
            text.split(SEPARATOR).map(|part| Value::BulkString(part.as_bytes().to_vec())).collect();
        Ok(Self { place: Arc::clone(&self.place), values: values.into_iter() })
    }

    pub(super) fn terms(&mut self) -> Result<Vec<Term>, StoreError> {
        let mut terms = self.list(|term| {
            let resource: ResourceId = term.id()?;
            Ok(Term { resource, token: term.token()? })
        })?;
        terms.sort_unstable();
        Ok(terms)
    }
}
