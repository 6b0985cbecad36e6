//! Where the resources come from, as the command line says it.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::ResourceId;
use leasehold::discover::{
    DirectorySource, FileSource, Fixed, Record, RedisCollection, RedisSessions, Source, SourceError, Targets,
};
use leasehold::store::{Listing, StoreUrl};
use tokio::io::AsyncReadExt;

use crate::args::{RunArgs, SessionArgs};
use crate::failure::Failure;

/// How long a command that lists resources may take.
const COMMAND_MAX: Duration = Duration::from_secs(10);
/// How often it is asked again.
const COMMAND_EVERY: Duration = Duration::from_secs(5);
/// The most bytes it may print.
const OUTPUT_MAX: u64 = 64 << 20;

/// The source that the command line names, read once: a list that cannot be used is refused before anything is
/// created or joined.
pub(crate) async fn of(args: &RunArgs) -> Result<Option<Arc<dyn Source>>, Failure> {
    let Some(source) = named(args).await? else { return Ok(None) };
    let first = Mutex::new(Some(source.list().await?));
    Ok(Some(Arc::new(Begun { first, source })))
}

async fn named(args: &RunArgs) -> Result<Option<Arc<dyn Source>>, Failure> {
    if !args.resources.is_empty() {
        let listing = Listing::new(args.resources.clone()).map_err(|twice| {
            Failure::usage(format!("resource {twice} is given twice in --resources; remove one"))
        })?;
        return Ok(Some(Arc::new(Fixed(listing))));
    }
    let Some(from) = &args.from else { return Ok(None) };
    let source: Arc<dyn Source> = match from.split_once(':') {
        Some(("file", path)) if !path.is_empty() => Arc::new(FileSource(path.into())),
        Some(("dir", path)) if !path.is_empty() => Arc::new(DirectorySource(path.into())),
        Some(("cmd", line)) if !line.trim().is_empty() => Arc::new(CommandSource(line.to_owned())),
        _ => match targets(from, &args.store.store, &args.sessions).await? {
            Some(targets) => targets,
            None => {
                let said = format!(
                    "--from {from:?} is no source; use file:PATH, dir:PATH or cmd:COMMAND, and on Redis redis-sessions, \
                     redis-set:KEY or redis-hash:KEY"
                );
                return Err(Failure::usage(said));
            }
        },
    };
    Ok(Some(source))
}

/// What `from` names on the store's own Redis; `None` if it names nothing of the kind.
pub(crate) async fn targets(
    from: &str,
    store: &StoreUrl,
    sessions: &SessionArgs,
) -> Result<Option<Arc<dyn Targets>>, Failure> {
    let is_redis =
        from == "redis-sessions" || from.starts_with("redis-set:") || from.starts_with("redis-hash:");
    if is_redis && !matches!(store, StoreUrl::Redis(_)) {
        return Err(Failure::usage(format!(
            "--from {from} looks on the store's own Redis, and {store} is none; give --store redis://…, or another source"
        )));
    }
    Ok(match from.split_once(':') {
        None if from == "redis-sessions" => {
            Some(Arc::new(RedisSessions::open(store, sessions.keys()).await?))
        }
        Some(("redis-set", key)) if !key.is_empty() => {
            Some(Arc::new(RedisCollection::set(store, key).await?))
        }
        Some(("redis-hash", key)) if !key.is_empty() => {
            Some(Arc::new(RedisCollection::hash(store, key).await?))
        }
        _ => None,
    })
}

/// The same with its first list read, and how many there are.
pub(crate) async fn begun_targets(targets: Arc<dyn Targets>) -> Result<(Arc<dyn Targets>, usize), Failure> {
    let first = targets.list().await?;
    let count = first.ids().len();
    Ok((Arc::new(Begun { first: Mutex::new(Some(first)), source: targets }), count))
}

/// A source whose first answer is known.
#[derive(Debug)]
struct Begun<S: ?Sized> {
    first: Mutex<Option<Listing>>,
    source: Arc<S>,
}

#[async_trait]
impl<S: Source + ?Sized> Source for Begun<S> {
    async fn list(&self) -> Result<Listing, SourceError> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        match first {
            Some(listing) => Ok(listing),
            None => self.source.list().await,
        }
    }

    fn period(&self) -> Option<Duration> {
        self.source.period()
    }

    async fn changed(&self) {
        self.source.changed().await;
    }

    fn is_certain(&self) -> bool {
        self.source.is_certain()
    }

    fn rests(&self, resource: &ResourceId) -> bool {
        self.source.rests(resource)
    }
}

#[async_trait]
impl Targets for Begun<dyn Targets> {
    async fn records(&self, ids: &[ResourceId]) -> Result<Vec<Record>, SourceError> {
        self.source.records(ids).await
    }
}

/// A command line whose output lists one id a line.
#[derive(Debug)]
struct CommandSource(String);

#[async_trait]
impl Source for CommandSource {
    async fn list(&self) -> Result<Listing, SourceError> {
        let from = format!("cmd:{}", self.0);
        let text = match tokio::time::timeout(COMMAND_MAX, output_of(&self.0)).await {
            Ok(Ok(text)) => text,
            Ok(Err(source)) => return Err(SourceError::Read { from, source }),
            Err(_) => return Err(SourceError::Other(format!("{from} did not end within {COMMAND_MAX:?}"))),
        };
        Listing::parse(&text).map_err(|source| SourceError::Content { from, source })
    }

    fn period(&self) -> Option<Duration> {
        Some(COMMAND_EVERY)
    }
}

async fn output_of(line: &str) -> std::io::Result<String> {
    let mut child = tokio::process::Command::new("sh")
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut text = String::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(OUTPUT_MAX).read_to_string(&mut text).await?;
    }
    let status = child.wait().await?;
    if status.success() { Ok(text) } else { Err(std::io::Error::other(format!("it ended with {status}"))) }
}
