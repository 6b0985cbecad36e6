//! What the environment says.

use std::str::FromStr;
use std::time::Duration;

use leasehold::election::Key;
use leasehold::store::StoreUrl;

/// A variable says something that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{name}={value:?}: {why}")]
pub struct ConfigError {
    name: &'static str,
    value: String,
    why: String,
}

/// How this replica runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// All endpoints of the cluster, each as `host:port`: `ETCD_ENDPOINTS`, or else `ETCD_HOST` and `ETCD_PORT`.
    pub endpoints: Vec<String>,
    /// Where the leases are: on the same cluster.
    pub store: StoreUrl,
    /// `LEADER_LEASE_TTL`, in seconds.
    pub ttl: Duration,
    /// `LEADER_KEY`: the scheduler's election.
    pub leader_key: Key,
    /// `RECONCILE_INTERVAL`, in seconds.
    pub reconcile_every: Duration,
    /// `SCHEDULER_INSTANCE_ID`; without one, the host's name.
    pub name: Option<String>,
}

impl Config {
    /// Reads the variables.
    ///
    /// # Errors
    /// Says which one cannot be used, and why.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let or = |name: &'static str, default: &str| variable(name).unwrap_or_else(|| default.to_owned());
        let endpoints = match variable("ETCD_ENDPOINTS") {
            Some(list) => endpoints(&list)?,
            None => vec![format!("{}:{}", or("ETCD_HOST", "127.0.0.1"), or("ETCD_PORT", "2379"))],
        };
        Ok(Self {
            store: parse("ETCD_ENDPOINTS", &format!("etcd://{}", endpoints.join(",")))?,
            endpoints,
            ttl: seconds("LEADER_LEASE_TTL", &or("LEADER_LEASE_TTL", "15"))?,
            leader_key: parse("LEADER_KEY", &or("LEADER_KEY", "/ccm/scheduler/leader"))?,
            reconcile_every: seconds("RECONCILE_INTERVAL", &or("RECONCILE_INTERVAL", "30"))?,
            name: variable("SCHEDULER_INSTANCE_ID"),
        })
    }
}

/// `host:port,…`, each with `http://` in front or without.
fn endpoints(list: &str) -> Result<Vec<String>, ConfigError> {
    let wrong =
        |why: &str| ConfigError { name: "ETCD_ENDPOINTS", value: list.to_owned(), why: why.to_owned() };
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    let found: Vec<String> = parts
        .map(|part| match part.strip_prefix("http://").unwrap_or(part).trim_end_matches('/') {
            rest if rest.contains("://") => Err(wrong("this example speaks plain http only")),
            rest if rest.contains(['/', '?', '@']) => Err(wrong("give nothing but host:port")),
            host => Ok(host.to_owned()),
        })
        .collect::<Result<_, _>>()?;
    match found.is_empty() {
        true => Err(wrong("give at least one endpoint, as in http://127.0.0.1:2379")),
        false => Ok(found),
    }
}

fn seconds(name: &'static str, value: &str) -> Result<Duration, ConfigError> {
    match parse(name, value)? {
        0 => Err(ConfigError { name, value: value.to_owned(), why: "give at least 1 second".to_owned() }),
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

fn parse<T: FromStr<Err: ToString>>(name: &'static str, value: &str) -> Result<T, ConfigError> {
    value.parse().map_err(|error: T::Err| ConfigError {
        name,
        value: value.to_owned(),
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Config, String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Config::read(variable).map_err(|error| error.to_string())
    }

    // proves U15, R115, R126
    #[test]
    fn the_defaults_are_those_of_the_design_and_every_variable_counts() {
        let config = read(&[]).unwrap();
        assert_eq!(config.endpoints, ["127.0.0.1:2379"]);
        assert_eq!((config.ttl.as_secs(), config.reconcile_every.as_secs()), (15, 30));
        assert_eq!(config.leader_key.as_str(), "/ccm/scheduler/leader");
        let config = read(&[("ETCD_HOST", "e1"), ("ETCD_PORT", "4001"), ("LEADER_KEY", "/x")]).unwrap();
        assert_eq!((config.endpoints, config.leader_key.as_str()), (vec!["e1:4001".to_owned()], "/x"));
        let config =
            read(&[("ETCD_ENDPOINTS", "http://e1:2379/,e2:2379"), ("LEADER_LEASE_TTL", "5")]).unwrap();
        assert_eq!((config.endpoints.join(" "), config.ttl.as_secs()), ("e1:2379 e2:2379".to_owned(), 5));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_name() {
        for (name, value, words) in [
            ("LEADER_LEASE_TTL", "soon", "invalid digit"),
            ("RECONCILE_INTERVAL", "0", "at least 1 second"),
            ("ETCD_ENDPOINTS", " , ", "at least one endpoint"),
            ("ETCD_ENDPOINTS", "https://e1:2379", "plain http only"),
            ("ETCD_ENDPOINTS", "e1:2379/jobs", "nothing but host:port"),
            ("LEADER_KEY", "", "empty"),
        ] {
            let said = read(&[(name, value)]).unwrap_err();
            assert!(said.contains(name) && said.contains(words), "{said}");
        }
    }
}
