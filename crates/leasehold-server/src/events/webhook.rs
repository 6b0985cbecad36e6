//! Events to a receiver of HTTP requests: signed, and only where the settings allow.

mod address;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hmac::{Hmac, KeyInit, Mac};
use leasehold::clock;
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use sha2::Sha256;

use self::address::{Guarded, allowed};
use super::settings::{EventsError, SinkSettings, WebhookRules};
use super::sink::{Event, EventSink, SinkError};
use super::trust;

/// The header with the signature.
pub const SIGNATURE: &str = "X-Leasehold-Signature";
/// The header with the time of the request, in seconds since 1970.
pub const TIMESTAMP: &str = "X-Leasehold-Timestamp";
/// How long connecting, and a whole request, may take.
const CONNECT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(15);
/// A shorter secret can be guessed.
const SECRET_MIN: usize = 16;

/// A receiver of HTTP requests.
pub struct WebhookSink {
    shown: String,
    url: Url,
    secret: Vec<u8>,
    client: Client,
}

impl std::fmt::Debug for WebhookSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookSink").field("url", &self.shown).finish_non_exhaustive()
    }
}

impl WebhookSink {
    /// The receiver that the settings name, if the rules allow it. It is asked nothing yet.
    ///
    /// # Errors
    /// The rules do not allow it, or there is no secret.
    pub fn new(settings: &SinkSettings, rules: &WebhookRules) -> Result<Self, EventsError> {
        let refused = |why: String| EventsError::Refused { sink: settings.name().to_owned(), why };
        let url = settings.url.url().clone();
        let host = allowed(&url, rules).map_err(refused)?;
        let Some(path) = &settings.secret_file else {
            return Err(refused("a webhook needs secret_file, with what signs its requests".to_owned()));
        };
        let secret = read_secret(settings.name(), path)?;
        let client = Client::builder()
            .tls_backend_preconfigured(trust::client(settings.ca.as_deref())?)
            // Whoever is asked must not send us elsewhere, and nobody else shall ask for us: only here it is known
            // which addresses are allowed.
            .redirect(Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(Guarded::of(host)))
            .connect_timeout(CONNECT)
            .timeout(PATIENCE)
            .user_agent("leasehold")
            .build()
            .map_err(|error| refused(error.without_url().to_string()))?;
        Ok(Self { shown: settings.url.to_string(), url, secret, client })
    }

    fn fault(&self, error: impl std::fmt::Display) -> SinkError {
        SinkError::new(format_args!("{}: the receiver did not take events: {error}", self.shown))
    }
}

#[async_trait]
impl EventSink for WebhookSink {
    async fn publish(&self, events: &[Event]) -> Result<(), SinkError> {
        let body = serde_json::to_vec(events).map_err(|error| self.fault(error))?;
        let timestamp = (clock::unix_nanos() / 1_000_000_000).to_string();
        let signature = sign(&self.secret, &timestamp, &body);
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(TIMESTAMP, timestamp)
            .header(SIGNATURE, signature)
            .body(body);
        // The address may hold a password or a token.
        let response = request.send().await.map_err(|error| self.fault(reason(&error.without_url())))?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(self.fault(format_args!("it answered {status}"))) }
    }
}

/// An error with what caused it.
fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// `sha256=<hex>` over `timestamp.body`.
#[must_use]
pub fn sign(secret: &[u8], timestamp: &str, body: &[u8]) -> String {
    // A key of any length will do.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    digest.iter().fold("sha256=".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// The content of the file without the end of its line.
fn read_secret(sink: &str, path: &Path) -> Result<Vec<u8>, EventsError> {
    let fault = |why: String| EventsError::Secret { sink: sink.to_owned(), path: path.to_owned(), why };
    let text = std::fs::read(path).map_err(|error| fault(error.to_string()))?;
    let end = text.iter().rposition(|byte| !byte.is_ascii_whitespace()).map_or(0, |last| last + 1);
    if end < SECRET_MIN {
        return Err(fault(format!("it has {end} bytes; give at least {SECRET_MIN}")));
    }
    Ok(text.get(..end).unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_everybody_else() {
        // printf '1700000000.[]' | openssl dgst -sha256 -hmac 0123456789abcdef
        let expected = "sha256=c91545d09b999c13267144ab89f40da36c784c2397a9684263e82122a502a910";
        assert_eq!(sign(b"0123456789abcdef", "1700000000", b"[]"), expected);
    }

    #[test]
    fn what_is_not_allowed_is_not_built() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        let rules =
            WebhookRules { allow: vec!["https://hooks.example.org/".to_owned()], ..WebhookRules::default() };
        let of = |text: &str| WebhookSink::new(&SinkSettings::parse(text).unwrap(), &rules);
        let with = format!("#secret_file={}", file.display());
        let sink = of(&format!("https://hooks.example.org/a?token=hush{with}")).unwrap();
        assert_eq!(sink.secret, b"0123456789abcdef");
        assert!(!format!("{sink:?}").contains("hush") && !format!("{sink:?}").contains("0123"));
        assert!(of("https://hooks.example.org/a").is_err(), "without a secret");
        assert!(of(&format!("https://elsewhere.example.org/{with}")).is_err());
        std::fs::write(&file, "short\n").unwrap();
        assert!(of(&format!("https://hooks.example.org/a{with}")).is_err());
    }
}
