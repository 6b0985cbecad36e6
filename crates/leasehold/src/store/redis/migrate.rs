//! From an empty server, or one that an earlier version wrote, to one that is as we write it.
//!
//! Invariant: at every moment the server is whole as one version or the other has it, and whoever asks it goes by the version it
//! finds in the same step. Who does not know that version does nothing.

use super::address::Address;
use super::args::Args;
use super::call::{Kind, Shared};
use super::reply::{Fields, Reply};
use super::{connect, scripts};
use crate::store::{Begin, Migrated, ServerUrl, StoreError};

/// How many leases are looked at in one call.
const STEP: u64 = 500;

/// A server with an era, and how it was found.
#[derive(Debug)]
pub(super) struct Prepared {
    shared: Shared,
    pub(super) migrated: Migrated,
    /// An earlier version's records are still there, which nobody reads.
    leftover: bool,
}

/// Writes the first era, if there is none.
pub(super) async fn prepare(url: &ServerUrl, begin: Begin) -> Result<Prepared, StoreError> {
    let shared = Shared::new(Address::new(url)?);
    shared.open().await?;
    let frozen = if begin == Begin::Frozen { "1" } else { "0" };
    let mut reply = shared.run(Kind::Write, &scripts::MIGRATE, Args::of([frozen])).await?;
    let (migrated, leftover) = match reply.word.as_str() {
        "created" => (Migrated { before: None, now: connect::VERSION }, false),
        "found" => {
            let before = u32::try_from(reply.rest.number()?).map_err(|_| reply.strange())?;
            (Migrated { before: Some(before), now: before }, reply.rest.flag()?)
        }
        _ => return Err(reply.strange()),
    };
    Ok(Prepared { shared, migrated, leftover })
}

impl Prepared {
    /// Brings it to the newest version, and takes away what the version before left.
    pub(super) async fn upgrade(mut self) -> Result<Migrated, StoreError> {
        if self.migrated.now < connect::VERSION {
            self.change_layout().await?;
            self.migrated.now = connect::VERSION;
            self.leftover = true;
        }
        if self.leftover {
            self.sweep().await?;
        }
        Ok(self.migrated)
    }

    async fn ask(&self, script: &scripts::Script, args: Args) -> Result<Reply, StoreError> {
        let reply = self.shared.run(Kind::Write, script, args).await?;
        if matches!(reply.word.as_str(), "more" | "done") { Ok(reply) } else { Err(reply.strange()) }
    }

    async fn change_layout(&self) -> Result<(), StoreError> {
        let mut reached: Vec<(String, u64)> = Vec::new();
        loop {
            let args = reached
                .iter()
                .fold(Args::default().number(STEP), |args, (pool, number)| args.text(pool).number(*number));
            let mut reply = self.ask(&scripts::UPGRADE, args).await?;
            if reply.word == "done" {
                return Ok(());
            }
            reached = reply.rest.list(|step| Ok((step.text()?, step.number()?)))?;
        }
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let mut pools = self.shared.run(Kind::Read, &scripts::POOLS, Args::default()).await?;
        for pool in pools.rest.list(Fields::text)? {
            let mut reached = 0;
            loop {
                let args = Args::of([pool.as_str()]).number(reached).number(STEP);
                let mut part = self.ask(&scripts::SWEEP, args).await?;
                if part.word == "done" {
                    break;
                }
                reached = part.rest.number()?;
            }
        }
        self.ask(&scripts::SWEEP, Args::default()).await.map(drop)
    }
}
