//! The fields of a configuration, each taken once and by its type. What is left over is refused.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use toml::Value;

use super::Secret;

/// The most bytes of a file that holds a secret.
const SECRET_MAX: u64 = 4096;

/// What a text says, with the environment on top.
pub(super) struct Fields<'a> {
    table: toml::Table,
    environment: &'a dyn Fn(&str) -> Option<String>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn parse(text: &str, environment: &'a dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        // The parser's own text repeats the line, which may hold a secret; where it is says enough.
        let table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            format!("line {line} cannot be read ({})", error.message().replace('\n', ", "))
        })?;
        Ok(Self { table, environment, known: Vec::new() })
    }

    /// Refuses what nobody asked for.
    pub(super) fn finish(self) -> Result<(), String> {
        match self.table.keys().next() {
            None => Ok(()),
            Some(left) => {
                let mut known = self.known;
                known.sort_unstable();
                Err(format!(
                    "`{}` is no field of a manager; there are {}",
                    left.escape_debug(),
                    known.join(", ")
                ))
            }
        }
    }

    /// What the environment says, else the file. The environment has text only.
    fn take(&mut self, name: &'static str) -> Option<(Value, bool)> {
        self.known.push(name);
        let written = self.table.remove(name);
        let set = (self.environment)(&format!("LEASEHOLD_{}", name.to_ascii_uppercase()));
        match set.filter(|text| !text.is_empty()) {
            Some(text) => Some((Value::String(text), true)),
            None => written.map(|value| (value, false)),
        }
    }

    /// `${NAME}` in a text is what the environment has by that name.
    fn filled(&self, name: &str, text: &str) -> Result<String, String> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let Some((variable, behind)) = after.split_once('}') else {
                return Err(format!("`{name}` has a ${{ without its }}"));
            };
            let value = (self.environment)(variable).ok_or_else(|| {
                format!(
                    "`{name}` needs the environment variable {}, which is not set",
                    variable.escape_debug()
                )
            })?;
            filled.push_str(before);
            filled.push_str(&value);
            rest = behind;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, String> {
        match self.take(name) {
            None => Ok(None),
            Some((Value::String(text), _)) => {
                let text = self.filled(name, &text)?;
                let is_plain = !text.trim().is_empty() && !text.chars().any(char::is_control);
                if !is_plain {
                    return Err(format!("`{name}` is empty or has control characters"));
                }
                Ok(Some(text))
            }
            Some(_) => Err(format!("`{name}` must be text, as in {name} = \"…\"")),
        }
    }

    pub(super) fn required(&mut self, name: &'static str) -> Result<String, String> {
        let variable = name.to_ascii_uppercase();
        self.text(name)?.ok_or_else(|| format!("`{name}` is missing; write it, or set LEASEHOLD_{variable}"))
    }

    /// A text that is not shown, given as it is or as a file that holds it.
    pub(super) fn secret(&mut self, name: &'static str) -> Result<Option<Secret>, String> {
        let file: &'static str = match name {
            "api_key" => "api_key_file",
            "events_url" => "events_url_file",
            _ => "database_url_file",
        };
        let (given, path) = (self.text(name)?, self.text(file)?);
        match (given, path) {
            (Some(_), Some(_)) => Err(format!("there are both `{name}` and `{file}`; remove one")),
            (Some(text), None) => Ok(Some(Secret(text))),
            (None, None) => Ok(None),
            (None, Some(path)) => {
                let problem = |error: &dyn Display| format!("`{file}` cannot be read: {error}");
                let size = std::fs::metadata(&path).map_err(|error| problem(&error))?.len();
                if size > SECRET_MAX {
                    return Err(problem(&format_args!(
                        "it has {size} bytes; at most {SECRET_MAX} are allowed"
                    )));
                }
                let text = std::fs::read_to_string(&path).map_err(|error| problem(&error))?;
                match text.trim_end() {
                    "" => Err(problem(&"it is empty")),
                    text => Ok(Some(Secret(text.to_owned()))),
                }
            }
        }
    }

    pub(super) fn word(&mut self, name: &'static str, usual: &str, words: &[&str]) -> Result<String, String> {
        let word = self.text(name)?.unwrap_or_else(|| usual.to_owned());
        match words.contains(&word.as_str()) {
            true => Ok(word),
            false => Err(format!("`{name}` must be one of {}", words.join(", "))),
        }
    }

    pub(super) fn flag(&mut self, name: &'static str, usual: bool) -> Result<bool, String> {
        match self.take(name) {
            None => Ok(usual),
            Some((Value::Boolean(flag), _)) => Ok(flag),
            Some((Value::String(text), true)) if text == "true" || text == "false" => Ok(text == "true"),
            Some(_) => Err(format!("`{name}` must be true or false")),
        }
    }

    pub(super) fn number(
        &mut self,
        name: &'static str,
        usual: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, String> {
        let number = match self.take(name) {
            None => return Ok(usual),
            Some((Value::Integer(number), _)) => u64::try_from(number).ok(),
            Some((Value::String(text), true)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        let (least, most) = (range.start(), range.end());
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| format!("`{name}` must be a whole number from {least} to {most}"))
    }

    pub(super) fn count(
        &mut self,
        name: &'static str,
        usual: u64,
        range: RangeInclusive<u64>,
    ) -> Result<usize, String> {
        let number = self.number(name, usual, range)?;
        usize::try_from(number).map_err(|_| format!("`{name}` is too large"))
    }

    pub(super) fn port(&mut self, name: &'static str, usual: u16) -> Result<u16, String> {
        let number = self.number(name, u64::from(usual), 0..=u64::from(u16::MAX))?;
        u16::try_from(number).map_err(|_| format!("`{name}` is no port"))
    }

    /// `off` is nowhere.
    pub(super) fn address(&mut self, name: &'static str, usual: &str) -> Result<Option<SocketAddr>, String> {
        let text = self.text(name)?.unwrap_or_else(|| usual.to_owned());
        if text == "off" {
            return Ok(None);
        }
        text.parse()
            .map(Some)
            .map_err(|_| format!("`{name}` is no address; write a number and a port, as in 127.0.0.1:8070"))
    }

    pub(super) fn list(&mut self, name: &'static str) -> Result<Option<Vec<String>>, String> {
        let problem = || format!("`{name}` must be a list of texts, as in {name} = [\"one\", \"two\"]");
        match self.take(name) {
            None => Ok(None),
            Some((Value::Array(items), _)) => {
                let texts = items.iter().map(|item| match item {
                    Value::String(text) => self.filled(name, text),
                    _ => Err(problem()),
                });
                texts.collect::<Result<_, _>>().map(Some)
            }
            Some((Value::String(text), true)) => {
                Ok(Some(text.split_whitespace().map(str::to_owned).collect()))
            }
            Some(_) => Err(problem()),
        }
    }
}
