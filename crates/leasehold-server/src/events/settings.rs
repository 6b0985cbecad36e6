//! Where events shall go, as it is configured.

use std::fmt;
use std::path::PathBuf;

use url::Url;

/// What can be wrong with where events shall go.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventsError {
    /// The address is none.
    #[error("the address of an event sink cannot be read: {why}; give amqp(s)://, mqtt(s):// or https://")]
    Address {
        /// What is wrong, without the address: it may hold a password.
        why: String,
    },
    /// An option in the address is not known.
    #[error(
        "{sink}: there is no option {option:?} in the address of an event sink; after '#' there can be name, exchange, prefix, ca and secret_file"
    )]
    Option {
        /// The sink.
        sink: String,
        /// The option.
        option: String,
    },
    /// A password on the command line is seen by everybody on the machine.
    #[error(
        "{sink}: a password on the command line is seen by everybody on this machine; put the address into the configuration file or the environment"
    )]
    Seen {
        /// The sink.
        sink: String,
    },
    /// The name is not one.
    #[error("the name {0:?} of an event sink cannot be used; use 1 to 32 letters, digits, '_' and '-'")]
    Name(String),
    /// Two have the same name.
    #[error("two event sinks are named {0}; give each a name of its own: positions are kept under it")]
    Twice(String),
    /// Something does not belong to a sink of this kind.
    #[error("{sink}: {option} means nothing for a sink of this kind; remove it")]
    Foreign {
        /// The sink.
        sink: String,
        /// What does not belong there.
        option: &'static str,
    },
    /// A webhook must not go there.
    #[error("{sink}: {why}")]
    Refused {
        /// The sink.
        sink: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The secret cannot be read.
    #[error("{sink}: the secret in {path} cannot be used: {why}")]
    Secret {
        /// The sink.
        sink: String,
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Certificates cannot be used.
    #[error(transparent)]
    Trust(#[from] super::trust::TrustError),
    /// The relays cannot take part in their own pool.
    #[error(transparent)]
    Join(#[from] leasehold::participant::JoinError),
}

/// An address that may hold a password. What is shown of it never does.
#[derive(Clone, PartialEq, Eq)]
pub struct SinkUrl(Url);

impl SinkUrl {
    /// The address itself.
    pub(super) fn url(&self) -> &Url {
        &self.0
    }

    /// What speaks there.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.0.scheme() {
            "amqp" | "amqps" => Kind::Amqp,
            "mqtt" | "mqtts" => Kind::Mqtt,
            _ => Kind::Webhook,
        }
    }

    /// The host, without the brackets of an IPv6 address.
    pub(super) fn host(&self) -> String {
        self.0.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned()
    }

    /// The user and the password, if there are any.
    pub(super) fn credentials(&self) -> Option<(String, String)> {
        let user = decoded(self.0.username());
        let password = decoded(self.0.password().unwrap_or_default());
        (!user.is_empty() || !password.is_empty()).then_some((user, password))
    }

    /// The path as one name: a virtual host.
    pub(super) fn path(&self) -> Option<String> {
        Some(decoded(self.0.path().strip_prefix('/')?)).filter(|path| !path.is_empty())
    }
}

/// Percent-encoded text as it is meant.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = || u8::from_str_radix(std::str::from_utf8(tail.get(..2)?).ok()?, 16).ok();
        match (first, code()) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl SinkUrl {
    fn parse(text: &str) -> Result<Self, EventsError> {
        let url = Url::parse(text).map_err(|error| EventsError::Address { why: error.to_string() })?;
        let known = ["amqp", "amqps", "mqtt", "mqtts", "http", "https"].contains(&url.scheme());
        if !known {
            return Err(EventsError::Address { why: format!("there is no {}://", url.scheme()) });
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(EventsError::Address { why: "it names no host".to_owned() });
        }
        Ok(Self(url))
    }
}

/// Scheme, host, port and path. A query may hold a secret as well as what stands before the host.
impl fmt::Display for SinkUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(self.0.path())
    }
}

impl fmt::Debug for SinkUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// What speaks at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// RabbitMQ.
    Amqp,
    /// An MQTT broker.
    Mqtt,
    /// A receiver of HTTP requests.
    Webhook,
}

/// One place where events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkSettings {
    /// `amqp(s)://…`, `mqtt(s)://…` or `https://…`.
    pub url: SinkUrl,
    /// Its name in positions, logs and metrics; `amqp`, `mqtt` or `webhook` without one. Under a new name everything is
    /// delivered anew.
    pub name: Option<String>,
    /// RabbitMQ: the topic exchange, `status.topic` without this.
    pub exchange: Option<String>,
    /// MQTT: what topics begin with, `leasehold/events` without this.
    pub prefix: Option<String>,
    /// A file with certificates (PEM) to trust besides the system's.
    pub ca: Option<PathBuf>,
    /// Webhooks: the file whose content signs requests.
    pub secret_file: Option<PathBuf>,
}

impl SinkSettings {
    /// Reads an address with options behind a `#`, as in `amqp://broker#exchange=leases&name=one`. What is behind the `#` is
    /// never sent anywhere.
    ///
    /// # Errors
    /// Says what is wrong with it, without any password.
    pub fn parse(text: &str) -> Result<Self, EventsError> {
        let (address, options) = text.split_once('#').unwrap_or((text, ""));
        let url = SinkUrl::parse(address)?;
        let mut settings =
            Self { url, name: None, exchange: None, prefix: None, ca: None, secret_file: None };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let value = decoded(value);
            match key {
                "name" => settings.name = Some(value),
                "exchange" => settings.exchange = Some(value),
                "prefix" => settings.prefix = Some(value),
                "ca" => settings.ca = Some(value.into()),
                "secret_file" => settings.secret_file = Some(value.into()),
                _ => {
                    let (sink, option) = (settings.url.to_string(), key.to_owned());
                    return Err(EventsError::Option { sink, option });
                }
            }
        }
        Ok(settings)
    }

    /// The same for a command line, where a password is refused.
    ///
    /// # Errors
    /// As [`SinkSettings::parse`], and if there is a password.
    pub fn parse_argument(text: &str) -> Result<Self, EventsError> {
        let settings = Self::parse(text)?;
        if settings.url.url().password().is_some() {
            return Err(EventsError::Seen { sink: settings.url.to_string() });
        }
        Ok(settings)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(match self.url.kind() {
            Kind::Amqp => "amqp",
            Kind::Mqtt => "mqtt",
            Kind::Webhook => "webhook",
        })
    }

    fn check(&self) -> Result<(), EventsError> {
        let name = self.name();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > 32 || !name.chars().all(fits) {
            return Err(EventsError::Name(name.to_owned()));
        }
        let kind = self.url.kind();
        let foreign = [
            ("exchange", self.exchange.is_some() && kind != Kind::Amqp),
            ("prefix", self.prefix.is_some() && kind != Kind::Mqtt),
            ("secret_file", self.secret_file.is_some() && kind != Kind::Webhook),
        ];
        match foreign.iter().find(|(_, is)| *is) {
            Some((option, _)) => Err(EventsError::Foreign { sink: name.to_owned(), option }),
            None => Ok(()),
        }
    }
}

/// Where webhooks may go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebhookRules {
    /// Beginnings of addresses to which events may go: the same scheme, host and port, and a path that begins with whole
    /// steps of this one. Nothing else is allowed.
    pub allow: Vec<String>,
    /// Hosts that may have private addresses, as `allow` has them.
    pub private_hosts: Vec<String>,
}

/// Everything that is configured about events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventsSettings {
    /// Where events go.
    pub sinks: Vec<SinkSettings>,
    /// Where webhooks may go.
    pub webhooks: WebhookRules,
}

impl EventsSettings {
    /// Looks whether it can all be used together.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self) -> Result<(), EventsError> {
        for (place, sink) in self.sinks.iter().enumerate() {
            sink.check()?;
            if self.sinks.iter().take(place).any(|other| other.name() == sink.name()) {
                return Err(EventsError::Twice(sink.name().to_owned()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_the_address_and_are_not_part_of_it() {
        let sink =
            SinkSettings::parse("amqps://u:p%40ss@broker:5671/v%2fh?heartbeat=5#exchange=x.y&name=one")
                .unwrap();
        assert_eq!((sink.name(), sink.exchange.as_deref()), ("one", Some("x.y")));
        assert_eq!(sink.url.credentials(), Some(("u".to_owned(), "p@ss".to_owned())));
        assert_eq!(sink.url.path().as_deref(), Some("v/h"));
        assert_eq!(SinkSettings::parse("mqtt://[::1]:1883").unwrap().url.host(), "::1");
        assert_eq!(SinkSettings::parse("mqtt://b").unwrap().name(), "mqtt");
    }

    #[test]
    fn nothing_secret_is_shown() {
        let sink = SinkSettings::parse("https://u:hush@host/hook?token=hush").unwrap();
        let shown = format!(
            "{sink:?} {} {:?}",
            sink.url,
            SinkSettings::parse("https://u:hush@host/#x=hush").unwrap_err()
        );
        assert!(!shown.contains("hush"), "{shown}");
        for text in ["https://u:hush@ho st/", "gopher://u:hush@host", "hush", "amqp://u:hush@"] {
            let error = SinkSettings::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
        assert!(matches!(SinkSettings::parse_argument("amqp://u:p@h"), Err(EventsError::Seen { .. })));
        SinkSettings::parse_argument("amqp://u@h").unwrap();
    }

    #[test]
    fn names_are_unique_and_options_belong_to_their_kind() {
        let of = |urls: &[&str]| {
            let sinks = urls.iter().map(|url| SinkSettings::parse(url).unwrap()).collect();
            EventsSettings { sinks, ..EventsSettings::default() }.check()
        };
        of(&["amqp://a", "mqtt://b", "amqp://a#name=two"]).unwrap();
        assert!(matches!(of(&["amqp://a", "amqp://b"]), Err(EventsError::Twice(_))));
        assert!(matches!(of(&["amqp://a#name=a:b"]), Err(EventsError::Name(_))));
        assert!(matches!(of(&["amqp://a#prefix=x"]), Err(EventsError::Foreign { option: "prefix", .. })));
    }
}
