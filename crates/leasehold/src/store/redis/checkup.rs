//! What the server's own settings say about how well it keeps its word.

use redis::Value;

use super::call::Shared;
use super::connect::field;
use crate::store::{Checkup, Finding, Grade, StoreError};

/// What was found, and the best grade that it allows.
type Found = (Finding, Grade);

/// Looks the server over.
pub(super) async fn look_over(shared: &Shared) -> Result<Checkup, StoreError> {
    let information = shared.query(redis::cmd("INFO")).await?;
    let information = text(&information);
    let settings = Settings::read(shared, &information).await?;
    let version = field(&information, "redis_version").unwrap_or("?");
    let mut found = vec![
        persistence(&settings),
        eviction(&settings),
        replicas(&settings, &information, shared.address.wait),
    ];
    if settings.unseen {
        found.push((
            Finding::weak(
                "some settings could not be looked at: this user may not run CONFIG GET",
                "grant +config|get, or look at appendonly, appendfsync and save yourself",
            ),
            Grade::MayLoseWrites,
        ));
    }
    if shared.address.is_open_to_others() {
        found.push((
            Finding::weak(
                "the connection is not encrypted, and the server is on another machine",
                "use rediss:// with ca=FILE",
            ),
            Grade::DurableOnOneNode,
        ));
    }
    let grade = found.iter().map(|(_, grade)| *grade).min().unwrap_or(Grade::MayLoseWrites);
    let findings = found.into_iter().map(|(finding, _)| finding).collect();
    Ok(Checkup { server: format!("Redis {version}"), grade, findings })
}

/// The settings that matter.
struct Settings {
    appends: bool,
    fsync: Option<String>,
    saves: Option<bool>,
    maxmemory: u64,
    policy: String,
    min_replicas: Option<u64>,
    /// Whether the server did not tell all of them.
    unseen: bool,
}

impl Settings {
    async fn read(shared: &Shared, information: &str) -> Result<Self, StoreError> {
        let fsync = setting(shared, "appendfsync").await?;
        let save = setting(shared, "save").await?;
        let min_replicas = setting(shared, "min-replicas-to-write").await?;
        let of = |name| field(information, name).unwrap_or_default();
        Ok(Self {
            appends: of("aof_enabled") == "1",
            unseen: fsync.is_none() || save.is_none(),
            fsync,
            saves: save.map(|save| !save.is_empty()),
            maxmemory: of("maxmemory").parse().unwrap_or(0),
            policy: of("maxmemory_policy").to_owned(),
            min_replicas: min_replicas.and_then(|number| number.parse().ok()),
        })
    }
}

/// One setting; `None` if the server does not tell.
async fn setting(shared: &Shared, name: &str) -> Result<Option<String>, StoreError> {
    let mut question = redis::cmd("CONFIG");
    question.arg("GET").arg(name);
    match shared.query(question).await {
        Ok(Value::Array(pair)) => Ok(pair.get(1).map(text)),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == crate::store::StoreErrorKind::Misconfigured => Ok(None),
        Err(error) => Err(error),
    }
}

fn persistence(settings: &Settings) -> Found {
    let advice = "set appendonly yes and appendfsync always";
    match (settings.appends, settings.fsync.as_deref(), settings.saves) {
        (true, Some("always"), _) => (
            Finding::good("every write is on the disk before it is answered (appendfsync always)"),
            Grade::DurableOnOneNode,
        ),
        (true, Some("everysec"), _) => {
            let what = "a crash of the machine loses up to a second of writes (appendfsync everysec)";
            (Finding::weak(what, "set appendfsync always"), Grade::MayLoseWrites)
        }
        (true, _, _) => {
            let what = "a crash of the machine loses what the system had not written yet";
            (Finding::weak(what, "set appendfsync always"), Grade::MayLoseWrites)
        }
        (false, _, Some(false)) => {
            let what = "nothing is kept on the disk: a restart loses everything, and holders must say again what they hold";
            (Finding::weak(what, advice), Grade::MayLoseWrites)
        }
        (false, _, _) => {
            let what =
                "a restart loses everything since the last dump, and holders must say again what they hold";
            (Finding::weak(what, advice), Grade::MayLoseWrites)
        }
    }
}

fn eviction(settings: &Settings) -> Found {
    let Settings { maxmemory, policy, .. } = settings;
    if *maxmemory == 0 || policy == "noeviction" {
        return (Finding::good("no key is evicted for want of memory"), Grade::DurableOnOneNode);
    }
    let advice = "set maxmemory-policy noeviction";
    if policy.starts_with("volatile-") {
        let what = format!(
            "keys that expire may be evicted ({policy}): others may take a lease whose mirror is gone, members may not"
        );
        return (Finding::weak(what, advice), Grade::DurableOnOneNode);
    }
    let what = format!("any key may be evicted for want of memory ({policy}), and with it who holds what");
    (Finding::weak(what, advice), Grade::Volatile)
}

fn replicas(settings: &Settings, information: &str, wait: u32) -> Found {
    let count: u32 = field(information, "connected_slaves").and_then(|count| count.parse().ok()).unwrap_or(0);
    let min = settings.min_replicas.unwrap_or(0);
    if count == 0 && wait == 0 {
        return (
            Finding::good("it has no replicas that could be promoted without a write"),
            Grade::DurableOnOneNode,
        );
    }
    if wait > 0 && wait >= count {
        let what = format!("a write counts only when {wait} replicas have it; there are {count}");
        return (Finding::good(what), Grade::DurableOnOneNode);
    }
    let what = match min {
        0 => format!(
            "{count} replicas follow at a distance: a failover loses the last writes, and an isolated primary goes on confirming them"
        ),
        min => format!(
            "{count} replicas follow at a distance: a failover loses the last writes; without {min} replicas the primary stops"
        ),
    };
    let advice = format!("add wait={count} to the address and set min-replicas-to-write 1");
    (Finding::weak(what, advice), Grade::MayLoseWrites)
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}
