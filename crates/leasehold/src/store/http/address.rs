//! Where the server is and how to speak to it.
//!
//! ```text
//! http[s]://host[:port][/prefix][?ca=FILE&cert=FILE&key=FILE&insecure=true]
//! ```

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Identity, Url};

use super::key::{ApiKey, KEY_FILE_VARIABLE, KEY_VARIABLE};
use super::wire;
use crate::store::{Host, ServerUrl, StoreError};

/// What an address may say besides where the server is.
const OPTIONS: [&str; 4] = ["ca", "cert", "key", "insecure"];
/// The longest that a connection takes to be made.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// A connection that nobody used for so long is not used again: the server gives it up soon after.
const IDLE_MAX: Duration = Duration::from_secs(8);
/// On a connection that many calls share, the server is asked this often whether it is still there, and has this long to
/// answer. Calls that have a connection each notice by themselves.
const ASKED_EVERY: Duration = Duration::from_secs(2);
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// A server's address, checked.
#[derive(Debug)]
pub(super) struct Address {
    /// How people are told of it.
    pub(super) place: String,
    /// Whether what is sent can be read on the way.
    pub(super) is_open_to_others: bool,
    /// What the calls' names are put behind.
    root: Url,
    pub(super) client: Client,
}

impl Address {
    pub(super) fn new(url: &ServerUrl, key: Option<&ApiKey>) -> Result<Self, StoreError> {
        url.check_only_options(&OPTIONS)?;
        if url.user().is_some() || url.password()?.is_some() {
            return Err(StoreError::misconfigured(format!(
                "the address of a server holds no user and no password; put the API key into {KEY_VARIABLE} or name a \
                 file with {KEY_FILE_VARIABLE}"
            )));
        }
        let [host] = url.hosts() else {
            return Err(StoreError::misconfigured(format!(
                "{}:// names one server; for several give the name that leads to all of them",
                url.scheme()
            )));
        };
        let secure = url.scheme() == "https";
        let place = url.to_string();
        refuse_in_clear(url, host, &place, secure, key.is_some())?;
        let root = root(url, host)?;
        let client = client(url, &place, secure)?;
        Ok(Self { place, is_open_to_others: !secure && !host.is_loopback(), root, client })
    }

    /// Where something is that the server has for stores.
    pub(super) fn path(&self, name: &str) -> Url {
        let mut url = self.root.clone();
        if let (false, Ok(mut parts)) = (name.is_empty(), url.path_segments_mut()) {
            parts.push(name);
        }
        url
    }
}

/// A key that travels in clear is everybody's on the way.
fn refuse_in_clear(
    url: &ServerUrl,
    host: &Host,
    place: &str,
    secure: bool,
    with_key: bool,
) -> Result<(), StoreError> {
    let allowed = match url.option("insecure") {
        None | Some("false") => false,
        Some("true") if !secure => true,
        Some("true") => {
            return Err(StoreError::misconfigured(
                "insecure=true allows a key over http://; an https:// server is always checked: name its authority \
                 with ca=FILE",
            ));
        }
        Some(_) => return Err(StoreError::misconfigured("insecure= is true or false")),
    };
    if secure || !with_key || allowed || host.is_loopback() {
        return Ok(());
    }
    Err(StoreError::misconfigured(format!(
        "the API key would travel to {place} in clear; use https://, or add ?insecure=true if nobody else can listen"
    )))
}

fn root(url: &ServerUrl, host: &Host) -> Result<Url, StoreError> {
    let prefix = url.path().trim_matches('/');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let dots = prefix.split('/').any(|part| matches!(part, "." | ".."));
    if dots || !prefix.bytes().all(plain) {
        return Err(StoreError::misconfigured(
            "what stands before the server's own paths is letters, digits, '-', '.', '_' and '~' between slashes",
        ));
    }
    let slash = if prefix.is_empty() { "" } else { "/" };
    let text = format!("{}://{host}{slash}{prefix}{}", url.scheme(), wire::ROOT);
    // A name with a slash or another sign in it would lead elsewhere.
    let parsed = Url::parse(&text).ok().filter(|parsed| {
        let name = host.name.to_ascii_lowercase();
        parsed.host_str().is_some_and(|host| host.trim_matches(['[', ']']) == name)
            || host.name.parse::<std::net::IpAddr>().is_ok()
    });
    parsed.ok_or_else(|| StoreError::misconfigured("the host in the address is no name and no address"))
}

fn client(url: &ServerUrl, place: &str, secure: bool) -> Result<Client, StoreError> {
    // Whoever embeds us may have chosen another provider of cryptography; that one serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cannot = |error: reqwest::Error| {
        StoreError::misconfigured(format!("the certificates or the key for {place} cannot be used"))
            .caused_by(error)
    };
    let mut builder = Client::builder()
        .user_agent(concat!("leasehold/", env!("CARGO_PKG_VERSION")))
        // A key follows nobody elsewhere, and what members agree upon takes no detours.
        .redirect(Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(CONNECT_MAX)
        .pool_idle_timeout(IDLE_MAX)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(ASKED_EVERY)
        .http2_keep_alive_timeout(ANSWERS_WITHIN)
        .http2_keep_alive_while_idle(true);
    let authority = url.file("ca", "the certificate of the authority")?;
    let certificate = url.file("cert", "the client's certificate")?;
    let key = url.file("key", "the client's key")?;
    if !secure {
        if authority.is_some() || certificate.is_some() || key.is_some() {
            return Err(StoreError::misconfigured("ca=, cert= and key= are for https://"));
        }
        // Nobody is asked for a certificate, and a machine without any authorities can do this too.
        builder = builder.tls_certs_only([]);
    }
    if let Some(authority) = authority {
        let authorities = Certificate::from_pem_bundle(&authority).map_err(cannot)?;
        if authorities.is_empty() {
            return Err(StoreError::misconfigured("the file that ca= names holds no certificate"));
        }
        builder = builder.tls_certs_only(authorities);
    }
    match (certificate, key) {
        (None, None) => {}
        (Some(mut both), Some(key)) => {
            both.push(b'\n');
            both.extend(key);
            builder = builder.identity(Identity::from_pem(&both).map_err(cannot)?);
        }
        _ => {
            return Err(StoreError::misconfigured(
                "a client's certificate needs its key: give both cert=FILE and key=FILE, or neither",
            ));
        }
    }
    builder.build().map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{StoreErrorKind, StoreUrl};

    fn address(text: &str, key: Option<&str>) -> Result<Address, StoreError> {
        let key = key.map(|key| ApiKey::new(key).unwrap());
        match text.parse() {
            Ok(StoreUrl::Http(url)) => Address::new(&url, key.as_ref()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_says_where_the_calls_are() {
        let path = |text: &str| address(text, None).unwrap().path("beat").to_string();
        assert_eq!(path("http://h:8080"), "http://h:8080/api/v1/store/beat");
        assert_eq!(path("http://h"), "http://h/api/v1/store/beat");
        assert_eq!(path("https://H/a/b/"), "https://h/a/b/api/v1/store/beat");
        assert_eq!(path("http://[::1]:7"), "http://[::1]:7/api/v1/store/beat");
        let about = address("http://h:1", None).unwrap().path("");
        assert_eq!(about.as_str(), "http://h:1/api/v1/store");
    }

    // proves C13, S15
    #[test]
    fn an_address_that_cannot_be_used_is_refused_with_a_sentence() {
        for (text, key, said) in [
            ("http://anna:hunter2@h", None, "put the API key into LEASEHOLD_API_KEY"),
            ("http://h?password-file=/x", None, "has no option \"password-file\""),
            ("http://h,i", None, "names one server"),
            ("http://h/a%20b", None, "before the server's own paths"),
            ("http://h/../x", None, "before the server's own paths"),
            ("http://a%2Fb", None, "no name and no address"),
            ("http://h?ca=/dev/null", None, "are for https://"),
            ("https://h?ca=/nowhere", None, "cannot be read"),
            ("https://h?ca=/dev/null", None, "holds no certificate"),
            ("https://h?cert=/dev/null", None, "needs its key"),
            ("https://h?insecure=true", None, "name its authority"),
            ("http://h?insecure=yes", None, "true or false"),
            ("http://h", Some("hunter2"), "would travel to http://h:80 in clear"),
            ("http://10.0.0.1", Some("hunter2"), "would travel"),
        ] {
            let error = address(text, key).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert!(error.to_string().contains(said), "{text}: {error}");
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
        }
        for text in ["http://localhost", "http://127.0.0.1:1", "http://[::1]", "http://h?insecure=true"] {
            address(text, Some("hunter2")).unwrap();
        }
    }
}
