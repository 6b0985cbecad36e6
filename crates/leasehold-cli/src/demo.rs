//! `demo`: real members with real work on an embedded store; one joins, one is killed, one is frozen, one is
//! drained, before the viewer's eyes, and what the work itself wrote decides whether anything ran twice.

mod cast;
mod journal;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{self, Moment, SystemClock};
use leasehold::participant::Settings;
use leasehold::store::{MarkKind, Store, StoreUrl, open};
use leasehold::view::View;
use leasehold::{Pool, ResourceId};
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};

use self::cast::Cast;
pub(crate) use self::journal::work;
use crate::args::DemoArgs;
use crate::failure::{Failure, code};
use crate::operate::put_mark;
use crate::print;

const POOL: &str = "harbour";
const RESOURCES: [&str; 12] = [
    "crane-1", "crane-2", "crane-3", "crane-4", "gate-1", "gate-2", "gate-3", "gate-4", "pump-1", "pump-2",
    "pump-3", "pump-4",
];
/// How long any scene may take, at least.
const PATIENCE_MIN: Duration = Duration::from_secs(30);

pub(crate) fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    Settings::with_ttl(args.ttl).check().map_err(|error| Failure::usage(error.to_string()))?;
    crate::runtime()?.block_on(async {
        let directory =
            tempfile::tempdir().map_err(|error| Failure::system("no temporary directory", &error))?;
        let store_path = directory.path().join("demo.db");
        let store = open(&StoreUrl::Sqlite(store_path.clone())).await?;
        let pool = Pool::new(POOL).map_err(|error| Failure::usage(error.to_string()))?;
        let cast = Cast::new(directory.path(), &store_path, args.ttl);
        let view = View::new(pool.clone());
        let mut play = Play { store, pool, view, cast, ttl: args.ttl, started: clock::now() };
        tokio::select! {
            performed = play.perform() => performed,
            failed = interrupted() => Err(failed),
        }
    })
}

/// A viewer who has seen enough: everything is cleared away as at the end.
async fn interrupted() -> Failure {
    let (Ok(mut term), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return Failure::new(code::SYSTEM, "signals cannot be received");
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Failure::new(code::INTERRUPTED, "the demo was interrupted")
}

struct Play {
    store: Arc<dyn Store>,
    pool: Pool,
    view: View,
    cast: Cast,
    ttl: Duration,
    started: Moment,
}

impl Play {
    async fn perform(&mut self) -> Result<ExitCode, Failure> {
        self.say(&format!(
            "{} pieces of work, each a real process; leases of {:?} in an embedded store",
            RESOURCES.len(),
            self.ttl
        ))?;
        for name in ["anna", "bert", "cleo"] {
            self.cast.enter(name)?;
        }
        self.say("anna, bert and cleo start")?;
        self.until_even(&["anna", "bert", "cleo"]).await?;
        self.picture()?;

        self.say("dora joins: only her share moves")?;
        self.cast.enter("dora")?;
        let before = self.owners();
        self.until_even(&["anna", "bert", "cleo", "dora"]).await?;
        let moved = before.iter().filter(|(id, owner)| self.owners().get(*id) != Some(*owner)).count();
        self.say(&format!("{moved} leases moved to her, nothing else did"))?;
        self.picture()?;

        self.say("anna is killed with kill -9: nobody is told")?;
        self.strike("anna", Signal::SIGKILL, &["bert", "cleo", "dora"]).await?;

        self.say("bert is frozen with SIGSTOP: his children must be gone before others start theirs")?;
        self.strike("bert", Signal::SIGSTOP, &["cleo", "dora"]).await?;
        self.say("bert wakes up, finds that his leases are gone, and joins again")?;
        self.cast.signal("bert", Signal::SIGCONT)?;
        self.until_even(&["bert", "cleo", "dora"]).await?;
        self.picture()?;

        self.say("cleo is drained by an operator")?;
        let from = clock::now();
        put_mark(&*self.store, &self.pool, MarkKind::Drain, "cleo", Some("")).await?;
        self.until("cleo holds nothing and everything is owned", |play| {
            play.owners().values().all(|owner| owner != "cleo") && play.owners().len() == RESOURCES.len()
        })
        .await?;
        self.say(&format!("her work moved in {:.1?}", clock::now().since(from)))?;
        self.picture()?;

        self.say("everybody goes home")?;
        self.cast.leave(self.ttl)?;
        self.verdict()
    }

    /// Does something to a member and waits until the others own everything.
    async fn strike(&mut self, name: &str, signal: Signal, others: &[&str]) -> Result<(), Failure> {
        let held = self.owners().values().filter(|owner| *owner == name).count();
        let from = clock::now();
        self.cast.signal(name, signal)?;
        self.until("the others own everything", |play| {
            let owners = play.owners();
            owners.len() == RESOURCES.len() && owners.values().all(|owner| others.contains(&owner.as_str()))
        })
        .await?;
        self.say(&format!(
            "the others own its {held} pieces after {:.1?} (TTL {:?})",
            clock::now().since(from),
            self.ttl
        ))?;
        self.picture()
    }

    async fn until_even(&mut self, members: &[&str]) -> Result<(), Failure> {
        let share = RESOURCES.len() / members.len();
        self.until("the work is shared out", |play| {
            let owners = play.owners();
            let held = |name: &&str| owners.values().filter(|owner| owner == name).count();
            owners.len() == RESOURCES.len() && members.iter().all(|name| held(name) == share)
        })
        .await
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<(), Failure> {
        let patience = PATIENCE_MIN.max(self.ttl * 4);
        let deadline = clock::now().after(patience);
        loop {
            self.view.refresh(&*self.store, &SystemClock).await?;
            if holds(self) {
                return Ok(());
            }
            if clock::now() > deadline {
                self.picture()?;
                let said = format!("waited {patience:?} in vain until {what}; is the machine very busy?");
                return Err(Failure::new(code::NO, said));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn owners(&self) -> BTreeMap<ResourceId, String> {
        let resources = self.view.resources();
        let name = |id| self.view.sessions().get(id).map(|session| session.profile.name.to_string());
        let owned = resources.iter().filter_map(|r| Some((r.id.clone(), name(self.view.holder(&r.id)?)?)));
        owned.collect()
    }

    fn say(&self, sentence: &str) -> Result<(), Failure> {
        let seconds = clock::now().since(self.started).as_secs_f64();
        print::text(&format!("{seconds:6.1} s  {sentence}\n"))
    }

    fn picture(&self) -> Result<(), Failure> {
        let mut held: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (resource, owner) in self.owners() {
            held.entry(owner).or_default().push(resource.to_string());
        }
        let lines =
            held.iter().map(|(owner, resources)| format!("            {owner:<5} {}\n", resources.join(" ")));
        print::text(&lines.collect::<String>())
    }

    /// What the work wrote decides.
    fn verdict(&self) -> Result<ExitCode, Failure> {
        let stretches = self.cast.journals()?;
        let overlap = journal::overlap(&stretches);
        let falls = journal::falls(&stretches);
        self.say(&format!(
            "{} stretches of work, {} tokens that fell or repeated, overlap {} s",
            stretches.len(),
            falls,
            overlap.as_secs_f64()
        ))?;
        let clean = overlap.is_zero() && falls == 0 && !stretches.is_empty();
        Ok(if clean { ExitCode::SUCCESS } else { ExitCode::from(code::NO) })
    }
}
