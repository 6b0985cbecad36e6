//! Where the server is, how to speak to it, and what its keys are called.
//!
//! ```text
//! redis[s]://[user[:password]@]host[:port][/db][?option=value&…]
//! redis[s]+sentinel://[user[:password]@]sentinel[:port][,sentinel[:port] …]/service[/db][?option=value&…]
//! ```

use redis::{Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates};

use super::{failure, tls};
use crate::lease::Pool;
use crate::store::{Host, ServerUrl, StoreError};

/// What an address may say besides where the server is.
const OPTIONS: [&str; 8] =
    ["prefix", "wait", "ca", "cert", "key", "mirror", "poll", "sentinel-password-file"];
/// The usual prefix of keys, and the one that others know the mirror by.
const PREFIX: &str = "leasehold";
const POLL: &str = "poll";
/// The pool whose leases others can see.
const MIRRORED: &str = "endpoints";

/// A server's address, checked.
#[derive(Clone)]
pub(super) struct Address {
    /// How people are told of it: without a password.
    pub(super) place: String,
    pub(super) hosts: Vec<Host>,
    /// The name by which sentinels know the primary; `None` where the host is the primary itself.
    pub(super) service: Option<String>,
    user: Option<String>,
    password: Option<String>,
    sentinel_password: Option<String>,
    tls: Option<TlsCertificates>,
    pub(super) database: i64,
    pub(super) prefix: String,
    /// The pool that is mirrored, and the prefix of the mirror's keys.
    pub(super) mirrored: Pool,
    pub(super) poll: String,
    /// How many replicas must have a write before it counts as confirmed.
    pub(super) wait: u32,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({})", self.place)
    }
}

impl Address {
    pub(super) fn new(url: &ServerUrl) -> Result<Self, StoreError> {
        url.check_options(&OPTIONS)?;
        let sentinel = url.scheme().ends_with("+sentinel");
        let (service, database) = if sentinel { service(url.path())? } else { (None, url.path()) };
        if !sentinel && url.hosts().len() != 1 {
            return Err(StoreError::misconfigured(
                "redis:// names one server; for several behind sentinels use redis+sentinel://host,host/service",
            ));
        }
        let prefix = name(url.option("prefix"), PREFIX, "prefix")?;
        // Stores that share a database must not share a mirror: each would take the other's members for foreigners.
        let usual_poll = if prefix == PREFIX { POLL.to_owned() } else { format!("{prefix}:{POLL}") };
        let poll = match url.option("poll") {
            None => usual_poll,
            Some(poll) => name(Some(poll), POLL, "poll")?,
        };
        let mirrored = url.option("mirror").unwrap_or(MIRRORED);
        let mirrored = Pool::new(mirrored)
            .map_err(|error| StoreError::misconfigured("mirror= names no pool").caused_by(error))?;
        let tls = match url.scheme().starts_with("rediss") {
            false => None,
            true => {
                tls::install_provider();
                Some(tls::certificates(url)?)
            }
        };
        Ok(Self {
            place: url.to_string(),
            hosts: url.hosts().to_vec(),
            service,
            user: url.user().map(str::to_owned),
            password: url.password()?,
            sentinel_password: sentinel_password(url)?,
            tls,
            database: self::database(database)?,
            prefix,
            mirrored,
            poll,
            wait: wait(url.option("wait"))?,
        })
    }

    /// A client of the server at `host`.
    pub(super) fn client(&self, host: &Host) -> Result<Client, StoreError> {
        let mut settings = RedisConnectionInfo::default().set_db(self.database).set_skip_set_lib_name();
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        self.client_with(host, settings)
    }

    /// A client of the sentinel at `host`.
    pub(super) fn sentinel(&self, host: &Host) -> Result<Client, StoreError> {
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = &self.sentinel_password {
            settings = settings.set_password(password);
        }
        self.client_with(host, settings)
    }

    fn client_with(&self, host: &Host, settings: RedisConnectionInfo) -> Result<Client, StoreError> {
        let (name, port) = (host.name.clone(), host.port);
        let address = match self.tls {
            None => ConnectionAddr::Tcp(name, port),
            Some(_) => ConnectionAddr::TcpTls { host: name, port, insecure: false, tls_params: None },
        };
        let client = address.into_connection_info().and_then(|information| {
            let tcp = information.tcp_settings().clone().set_nodelay(true);
            let information = information.set_tcp_settings(tcp).set_redis_settings(settings);
            match &self.tls {
                None => Client::open(information),
                Some(certificates) => Client::build_with_tls(information, certificates.clone()),
            }
        });
        client.map_err(|error| {
            let said = format!("the certificates for {} cannot be used", self.place);
            match error.kind() {
                redis::ErrorKind::Io => StoreError::misconfigured(said).caused_by(error),
                _ => failure::told(&self.place, error),
            }
        })
    }

    /// Whether what is sent can be read on the way.
    pub(super) fn is_open_to_others(&self) -> bool {
        self.tls.is_none() && !self.hosts.iter().all(Host::is_loopback)
    }

    /// A key of the whole store.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// Where hints about the whole store are told.
    pub(super) fn channel(&self) -> String {
        format!("{}:changed:{}", self.prefix, self.database)
    }
}

/// `service[/db]`.
fn service(path: &str) -> Result<(Option<String>, &str), StoreError> {
    let (service, database) = path.split_once('/').unwrap_or((path, ""));
    if service.is_empty() {
        return Err(StoreError::misconfigured(
            "the address of sentinels ends with the name of the service, as in redis+sentinel://host/mymaster",
        ));
    }
    Ok((Some(service.to_owned()), database))
}

fn database(text: &str) -> Result<i64, StoreError> {
    match text {
        "" => Ok(0),
        text => text
            .parse::<u16>()
            .map(i64::from)
            .map_err(|_| StoreError::misconfigured("the database is a number, as in redis://localhost/0")),
    }
}

fn wait(text: Option<&str>) -> Result<u32, StoreError> {
    let Some(text) = text else { return Ok(0) };
    text.parse()
        .map_err(|_| StoreError::misconfigured("wait= is how many replicas must have a write, as in wait=1"))
}

/// A name that keys begin with. What stands in patterns and between names must not stand in it.
fn name(given: Option<&str>, usual: &str, option: &str) -> Result<String, StoreError> {
    let given = given.unwrap_or(usual);
    Pool::new(given).map(String::from).map_err(|error| {
        StoreError::misconfigured(format!("{option}= cannot begin the names of keys")).caused_by(error)
    })
}

fn sentinel_password(url: &ServerUrl) -> Result<Option<String>, StoreError> {
    let text = url.file("sentinel-password-file", "the sentinels' password file")?;
    let Some(text) = text else { return Ok(None) };
    let text = String::from_utf8(text)
        .map_err(|_| StoreError::misconfigured("the sentinels' password file is not text"))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Result<Address, StoreError> {
        match text.parse() {
            Ok(crate::store::StoreUrl::Redis(url)) => Address::new(&url),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_says_where_the_server_is_and_what_its_keys_are_called() {
        let plain = address("redis://h").unwrap();
        assert_eq!((plain.database, plain.prefix.as_str(), plain.poll.as_str()), (0, "leasehold", "poll"));
        assert_eq!((plain.wait, plain.service, plain.mirrored.as_str()), (0, None, "endpoints"));
        let other = address("redis://h/3?prefix=staging&wait=2").unwrap();
        assert_eq!((other.database, other.poll.as_str(), other.wait), (3, "staging:poll", 2));
        assert_eq!(other.key("era"), "staging:era");
        let sentinel = address("redis+sentinel://a,b:7/mymaster/4").unwrap();
        assert_eq!((sentinel.service.as_deref(), sentinel.database), (Some("mymaster"), 4));
        assert_eq!((sentinel.hosts[0].port, sentinel.hosts[1].port), (26379, 7));
    }

    #[test]
    fn an_address_that_cannot_be_used_is_refused_with_a_sentence() {
        for (text, said) in [
            ("redis://h/x", "the database is a number"),
            ("redis://h,i", "names one server"),
            ("redis+sentinel://h", "name of the service"),
            ("redis://h?wait=some", "how many replicas"),
            ("redis://h?prefix=a*b", "begin the names of keys"),
            ("redis://h?mirror=a:b", "names no pool"),
            ("redis://h?tls=yes", "has no option \"tls\""),
            ("rediss://h?ca=/nowhere", "cannot be read"),
            ("rediss://h?cert=/dev/null", "needs its key"),
        ] {
            let error = address(text).unwrap_err();
            assert_eq!(error.kind(), crate::store::StoreErrorKind::Misconfigured);
            assert!(error.to_string().contains(said), "{text}: {error}");
        }
    }

    // proves S15
    #[test]
    fn a_password_is_not_shown() {
        let shown = format!("{:?}", address("redis://anna:hunter2@h").unwrap());
        assert_eq!(shown, "Address(redis://h:6379)");
    }
}
