//! The address of a store that is a server, as people write it.
//!
//! ```text
//! scheme://[user[:password]@]host[:port][,host[:port] …][/path][?option=value&…]
//! ```
//!
//! Invariant: a password leaves only through [`ServerUrl::password`]. It is neither shown nor logged, and no error
//! repeats the text that it stood in.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::StoreError;

/// The most that a file with a password or a certificate may hold.
const FILE_MAX: u64 = 1 << 20;

/// Where a server is and how to speak to it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    scheme: String,
    user: Option<String>,
    password: Option<String>,
    hosts: Vec<Host>,
    path: String,
    options: BTreeMap<String, String>,
}

/// One address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// A name or an address, without brackets.
    pub name: String,
    /// The port, or the one that is usual for the server.
    pub port: u16,
}

impl Host {
    /// Whether it can only be this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.name == "localhost"
            || self.name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// A server's address cannot be understood. Says nothing of what stood there: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerUrlError {
    /// There is no `//`.
    #[error("an address begins with two slashes, as in {0}://localhost")]
    Slashes(String),
    /// No host.
    #[error("there is no host in the address")]
    Host,
    /// A port that is none.
    #[error(
        "a port is a number from 1 to 65535; where a password holds @, / or :, write them as %40, %2F and %3A"
    )]
    Port,
    /// `%` and not two hexadecimal digits.
    #[error("a % must be followed by two hexadecimal digits, and be text; a % itself is written %25")]
    Percent,
    /// An option without `=`, or one that was given twice.
    #[error("options are written name=value with & between them, each once")]
    Option,
}

impl ServerUrl {
    /// Takes an address apart. `rest` is what follows `scheme:`.
    pub(super) fn parse(scheme: &str, rest: &str, port: u16) -> Result<Self, ServerUrlError> {
        let rest = rest.strip_prefix("//").ok_or_else(|| ServerUrlError::Slashes(scheme.to_owned()))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user_info, hosts) = match authority.rsplit_once('@') {
            Some((user_info, hosts)) => (Some(user_info), hosts),
            None => (None, authority),
        };
        let (user, password) = match user_info.map(|info| info.split_once(':').ok_or(info)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(decode(user)?), Some(decode(password)?)),
            Some(Err(user)) => (Some(decode(user)?), None),
        };
        let mut options = BTreeMap::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or(ServerUrlError::Option)?;
            if options.insert(decode(name)?, decode(value)?).is_some() {
                return Err(ServerUrlError::Option);
            }
        }
        let hosts = match hosts {
            "" => Vec::new(),
            hosts => hosts.split(',').map(|host| parse_host(host, port)).collect::<Result<_, _>>()?,
        };
        // A directory with a socket takes the place of a host.
        if hosts.is_empty() && !options.contains_key("host") {
            return Err(ServerUrlError::Host);
        }
        let user = user.filter(|user| !user.is_empty());
        Ok(Self { scheme: scheme.to_owned(), user, password, hosts, path: decode(path)?, options })
    }

    /// What stands before `://`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Whom to be.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Where the server is. Empty where only an option says it.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// What follows the hosts, without its first slash.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// An option's value.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// The password: the one in the address, or what stands in the file that `password-file` names.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn password(&self) -> Result<Option<String>, StoreError> {
        match self.option("password-file") {
            None => Ok(self.password.clone()),
            Some(path) => {
                let text = read(path, "the password file")?;
                let text = String::from_utf8(text).map_err(|_| {
                    StoreError::misconfigured(format!("the password file {path} is not text"))
                })?;
                Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
            }
        }
    }

    /// What stands in the file that an option names, if it is given.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn file(&self, option: &str, what: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.option(option).map(|path| read(path, what)).transpose()
    }

    /// Refuses options that nobody would look at. `password-file` is always known.
    ///
    /// # Errors
    /// Names the first unknown option and those that are known.
    pub fn check_options(&self, known: &[&str]) -> Result<(), StoreError> {
        let mut known = known.to_vec();
        known.push("password-file");
        self.check_only_options(&known)
    }

    /// The same where `password-file` says nothing.
    ///
    /// # Errors
    /// Names the first unknown option and those that are known.
    pub fn check_only_options(&self, known: &[&str]) -> Result<(), StoreError> {
        let Some(unknown) = self.options.keys().find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        Err(StoreError::misconfigured(format!(
            "{}: has no option {unknown:?}; it knows {}",
            self.scheme,
            known.join(", ")
        )))
    }
}

fn read(path: &str, what: &str) -> Result<Vec<u8>, StoreError> {
    use std::io::Read;

    let cannot = |error: std::io::Error| {
        let path = PathBuf::from(path);
        StoreError::misconfigured(format!("{what} {} cannot be read", path.display())).caused_by(error)
    };
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(FILE_MAX + 1).read_to_end(&mut text).map_err(cannot)?;
    if text.len() as u64 > FILE_MAX {
        return Err(StoreError::misconfigured(format!("{what} {path} is larger than {FILE_MAX} bytes")));
    }
    Ok(text)
}

fn parse_host(text: &str, usual: u16) -> Result<Host, ServerUrlError> {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, rest)) => (name, Some(rest.strip_prefix(':').ok_or(ServerUrlError::Port)?)),
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map_or(Some(usual), |port| port.parse().ok().filter(|port| *port > 0));
    if name.is_empty() {
        return Err(ServerUrlError::Host);
    }
    Ok(Host { name: decode(name)?, port: port.ok_or(ServerUrlError::Port)? })
}

fn decode(text: &str) -> Result<String, ServerUrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit().ok_or(ServerUrlError::Percent)?, digit().ok_or(ServerUrlError::Percent)?);
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| ServerUrlError::Percent)?);
    }
    String::from_utf8(bytes).map_err(|_| ServerUrlError::Percent)
}

/// Where the server is, for people: no user, no password, no options.
impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        write!(f, "{}://{}", self.scheme, hosts.join(","))?;
        if !self.path.is_empty() {
            write!(f, "/{}", self.path)?;
        }
        Ok(())
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ServerUrl, ServerUrlError> {
        let (scheme, rest) = text.split_once(':').unwrap();
        ServerUrl::parse(scheme, rest, 5432)
    }

    #[test]
    fn an_address_is_taken_apart() {
        let url = parse("postgres://anna:s%40cret@db1,db2:6000,[::1]:7/work%2Fa?ca=a%26b&x=").unwrap();
        assert_eq!((url.scheme(), url.user(), url.path()), ("postgres", Some("anna"), "work/a"));
        assert_eq!(url.password().unwrap().as_deref(), Some("s@cret"));
        let hosts: Vec<String> = url.hosts().iter().map(Host::to_string).collect();
        assert_eq!(hosts, ["db1:5432", "db2:6000", "[::1]:7"]);
        assert_eq!((url.option("ca"), url.option("x"), url.option("y")), (Some("a&b"), Some(""), None));
        assert!(parse("redis://:only@h").unwrap().user().is_none());
        assert!(parse("postgres:///work?host=%2Frun").unwrap().hosts().is_empty());
    }

    // proves S15
    #[test]
    fn a_password_is_never_shown() {
        let url = parse("redis://anna:hunter2@h/0?token=hunter2").unwrap();
        assert_eq!(
            (format!("{url}"), format!("{url:?}")),
            ("redis://h:5432/0".into(), "ServerUrl(redis://h:5432/0)".into())
        );
        for wrong in [
            "redis:hunter2@h",
            "redis://a:hunter2@",
            "redis://a:hun/ter2@h:x",
            "redis://a:hunter%2@h",
            "redis://h?hunter2",
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error}");
        }
    }

    #[test]
    fn hosts_that_can_only_be_this_machine_are_known() {
        let loopback = |name: &str| Host { name: name.into(), port: 1 }.is_loopback();
        assert!(loopback("localhost") && loopback("127.0.0.9") && loopback("::1"));
        assert!(!loopback("db") && !loopback("10.0.0.1") && !loopback("127.0.0.1.example.org"));
    }

    #[test]
    fn a_password_may_stand_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2\n").unwrap();
        let url = parse(&format!("redis://h?password-file={}", file.path().display())).unwrap();
        assert_eq!(url.password().unwrap().as_deref(), Some("hunter2"));
        let error = parse("redis://h?password-file=/nowhere").unwrap().password().unwrap_err();
        assert!(error.to_string().contains("the password file /nowhere cannot be read"), "{error}");
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_known_ones() {
        let error = parse("redis://h?cA=x").unwrap().check_options(&["ca"]).unwrap_err();
        assert_eq!(error.to_string(), "redis: has no option \"cA\"; it knows ca, password-file");
    }
}
