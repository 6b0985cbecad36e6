//! What there is to ask, as a session says it. Pure.

use std::time::Duration;

use axum::http::Uri;
use leasehold::ResourceId;
use serde_json::Value;
use url::Url;

use crate::args::{PollArgs, duration};
use crate::failure::Failure;

/// The most bytes of an address.
const ADDRESS_MAX: usize = 2048;
/// The fields of a session that say how often to ask and how long to wait.
const INTERVAL: &str = "pollInterval";
const TIMEOUT: &str = "pollTimeout";
/// The shortest and the longest interval or timeout.
const TIME_MIN: Duration = Duration::from_millis(10);
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// An endpoint that can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) url: Url,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

/// From a session to a target.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) address_field: String,
    pub(super) address: Option<String>,
    pub(super) path: Option<String>,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

impl Rules {
    pub(super) fn of(args: &PollArgs) -> Result<Self, Failure> {
        for (name, time) in [("--interval", args.interval), ("--timeout", args.timeout)] {
            checked(time).map_err(|why| Failure::usage(format!("{name} {why}")))?;
        }
        let rules = Self {
            address_field: args.session_address_field.clone(),
            address: args.address.clone(),
            path: args.path.clone(),
            interval: args.interval,
            timeout: args.timeout,
        };
        if let Some(template) = &rules.address {
            let sample = rules.url(&template.replace("{id}", "id"));
            sample.map_err(|why| Failure::usage(format!("--address cannot be used: {why}")))?;
        }
        if let Some(path) = &rules.path
            && !path.starts_with('/')
        {
            return Err(Failure::usage(format!(
                "--path {path:?} does not begin with a slash; give it as /status"
            )));
        }
        Ok(rules)
    }

    /// The target, or what is wrong with what the session says.
    pub(super) fn target(&self, id: &ResourceId, session: &Value) -> Result<Target, String> {
        let address = match (field(session, &self.address_field), &self.address) {
            (Some(Value::String(address)), _) if !address.trim().is_empty() => address.trim().to_owned(),
            (None | Some(Value::Null | Value::String(_)), Some(template)) => {
                template.replace("{id}", id.as_str())
            }
            (None | Some(Value::Null | Value::String(_)), None) => {
                return Err(format!("it has no address; give it a field {:?}", self.address_field));
            }
            (Some(_), _) => return Err(format!("its field {:?} is no text", self.address_field)),
        };
        let time = |name: &str, usual: Duration| match field(session, name) {
            None | Some(Value::Null) => Ok(usual),
            Some(Value::Number(seconds)) => {
                let time = seconds.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                checked(time.unwrap_or_default()).map_err(|why| format!("its field {name:?} {why}"))
            }
            Some(Value::String(text)) => duration(text)
                .and_then(checked)
                .map_err(|why| format!("its field {name:?} cannot be used: {why}")),
            Some(_) => {
                Err(format!("its field {name:?} is neither a number of seconds nor text such as \"30s\""))
            }
        };
        Ok(Target {
            url: self.url(&address)?,
            interval: time(INTERVAL, self.interval)?,
            timeout: time(TIMEOUT, self.timeout)?,
        })
    }

    fn url(&self, address: &str) -> Result<Url, String> {
        if address.len() > ADDRESS_MAX {
            return Err(format!(
                "its address has {} bytes; at most {ADDRESS_MAX} are allowed",
                address.len()
            ));
        }
        let whole = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        // The address may hold a password, so it is not repeated.
        let mut url = Url::parse(&whole).map_err(|error| format!("its address is no URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!(
                "its address begins with {}:; only http and https can be asked",
                url.scheme()
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "its address has a user or a password in it; send them with --header-file instead".to_owned()
            );
        }
        if let Some(path) = &self.path {
            let (path, query) = path.split_once('?').map_or((path.as_str(), None), |(p, q)| (p, Some(q)));
            url.set_path(path);
            url.set_query(query);
        }
        url.set_fragment(None);
        if url[url::Position::BeforePath..].parse::<Uri>().is_err() {
            return Err("its address cannot be asked for over HTTP".to_owned());
        }
        Ok(url)
    }
}

fn checked(time: Duration) -> Result<Duration, String> {
    if (TIME_MIN..=TIME_MAX).contains(&time) {
        return Ok(time);
    }
    Err(format!("is {time:?}; give a time between {TIME_MIN:?} and {TIME_MAX:?}"))
}

fn field<'v>(session: &'v Value, name: &str) -> Option<&'v Value> {
    let fields = session.as_object()?;
    let same = |(other, _): &(&String, &Value)| other.eq_ignore_ascii_case(name);
    fields.get(name).or_else(|| fields.iter().find(same).map(|(_, value)| value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules() -> Rules {
        let (interval, timeout) = (Duration::from_secs(10), Duration::from_secs(5));
        Rules { address_field: "address".to_owned(), address: None, path: None, interval, timeout }
    }

    fn of(rules: &Rules, session: &Value) -> Result<Target, String> {
        rules.target(&ResourceId::new("a").unwrap(), session)
    }

    #[test]
    fn a_session_says_where_how_often_and_how_long() {
        let target = of(&rules(), &json!({ "address": "https://h:7777/api?x=1#f" })).unwrap();
        assert_eq!(target.url.as_str(), "https://h:7777/api?x=1");
        assert_eq!((target.interval.as_secs(), target.timeout.as_secs()), (10, 5));
        let session = json!({ "Address": "h:80", "pollInterval": "500ms", "pollTimeout": 2.5 });
        let target = of(&rules(), &session).unwrap();
        assert_eq!(target.url.as_str(), "http://h/");
        assert_eq!((target.interval.as_millis(), target.timeout.as_millis()), (500, 2500));
        let with =
            Rules { address: Some("http://{id}.in/".to_owned()), path: Some("/s?q".to_owned()), ..rules() };
        assert_eq!(of(&with, &json!({})).unwrap().url.as_str(), "http://a.in/s?q");
        assert_eq!(of(&with, &json!({ "address": "http://b/x" })).unwrap().url.as_str(), "http://b/s?q");
    }

    #[test]
    fn an_address_that_is_none_is_said_to_be_none_without_repeating_it() {
        let long = format!("http://hush/{}", "x".repeat(ADDRESS_MAX));
        for (session, said) in [
            (json!({}), "it has no address"),
            (json!({ "address": "" }), "it has no address"),
            (json!({ "address": 7 }), "is no text"),
            (json!({ "address": "http://" }), "is no URL"),
            (json!({ "address": "http://hush hush/" }), "is no URL"),
            (json!({ "address": "ftp://hush/" }), "only http and https"),
            (json!({ "address": "http://anna:hush@h/" }), "--header-file"),
            (json!({ "address": long }), "at most 2048"),
            (json!({ "address": "h", "pollInterval": "hourly" }), "no length of time"),
            (json!({ "address": "h", "pollInterval": 0 }), "between 10ms"),
            (json!({ "address": "h", "pollTimeout": -1 }), "between 10ms"),
            (json!({ "address": "h", "pollTimeout": [] }), "neither a number"),
        ] {
            let why = of(&rules(), &session).unwrap_err();
            assert!(why.contains(said) && !why.contains("hush"), "{session}: {why}");
        }
    }
}
