//! The stage: the store, the members and their work, looked at again and again, and acted upon. Both ways to
//! show the demo stand before the same stage.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold::Pool;
use leasehold::clock::{self, Moment, SystemClock};
use leasehold::store::{MarkKind, Store, StoreUrl, open};
use leasehold::view::View;
use leasehold_server::{Running, Settings};

use super::act::{Act, Caption, Deed, Done};
use super::cast::{Cast, Fate, Player, runs};
use super::feed::{self, Entry};
use super::journal::{Journals, Stretch, overlap};
use super::picture::{MemberRow, MemberState, ResourceRow, WorkState};
use super::{POOL, RESOURCES};
use crate::failure::Failure;
use crate::operate::put_mark;

/// The most members there may be at once.
pub(super) const MEMBERS_MAX: usize = 8;
/// Who may enter. First letters differ: they are the signs in the picture.
const NAMES: [&str; 16] = [
    "anna", "bert", "cleo", "dora", "emil", "fina", "gero", "hana", "igor", "jule", "kira", "lars", "mona",
    "nils", "olga", "paul",
];
/// How long the dead are shown.
const REMEMBERED: Duration = Duration::from_secs(20);
/// How long the store may fail to answer before the demo gives up.
const STORE_PATIENCE: Duration = Duration::from_secs(15);

pub(super) struct Stage {
    pub(super) started: Moment,
    pub(super) ttl: Duration,
    pub(super) store: Arc<dyn Store>,
    pub(super) pool: Pool,
    /// Where the page is, for as long as the demo lasts.
    pub(super) page: String,
    _served: Running,
    view: View,
    cast: Cast,
    journals: Journals,
    /// When everything was looked at last.
    pub(super) now: Moment,
    acts: Vec<Done>,
    sums: Vec<Entry>,
    /// The first act since the work was shared out last.
    upset_at: Option<Moment>,
    entrances: usize,
}

impl Stage {
    pub(super) async fn set(directory: &Path, ttl: Duration, page: SocketAddr) -> Result<Self, Failure> {
        let path = directory.join("demo.db");
        let journals = directory.join("journals");
        std::fs::create_dir(&journals).map_err(|error| Failure::system("no place for journals", &error))?;
        let pool = Pool::new(POOL).map_err(|error| Failure::usage(error.to_string()))?;
        let now = clock::now();
        let store = open(&StoreUrl::Sqlite(path.clone())).await?;
        // Only this machine can look, so nobody is asked for a key.
        let served = leasehold_server::start(Settings::at(page), Arc::clone(&store)).await;
        let served = served.map_err(|error| Failure::system("the page cannot be served", &error))?;
        Ok(Self {
            started: now,
            ttl,
            store,
            page: format!("http://{}/", served.address()),
            _served: served,
            view: View::new(pool.clone()),
            pool,
            cast: Cast::new(directory, &path, ttl),
            journals: Journals::new(&journals),
            now,
            acts: Vec::new(),
            sums: Vec::new(),
            upset_at: None,
            entrances: 0,
        })
    }

    /// Looks at everything.
    pub(super) async fn look(&mut self) -> Result<(), Failure> {
        let seen = self.view.refresh(&*self.store, &SystemClock).await;
        let now = clock::now();
        match seen {
            Err(error) if now.since(self.now) > STORE_PATIENCE => return Err(error.into()),
            // On a very busy machine it may take a while.
            Err(_) => return Ok(()),
            Ok(_) => self.now = now,
        }
        self.journals.read(now)?;
        if let Some(text) = self.cast.notice() {
            self.sums.push(Entry { at: now, text });
        }
        if let Some(since) = self.upset_at.filter(|_| self.is_settled()) {
            self.upset_at = None;
            let moves = feed::moves(self.stretches(), &self.acts);
            self.sums.push(Entry { at: now, text: feed::sum(&moves, since) });
        }
        Ok(())
    }

    /// Why something cannot be done, if so.
    pub(super) fn refusal(&self, act: &Act) -> Option<Caption> {
        let name = &act.member;
        let able = |player: &&Player| self.is_able(player);
        let others = self.cast.players().iter().filter(able).any(|player| player.name != *name);
        let lives = self.cast.player(name).is_some_and(Player::lives);
        match act.deed {
            Deed::Join if self.living() >= MEMBERS_MAX => {
                let what = format!("{MEMBERS_MAX} members are as many as fit here");
                Some(Caption::new(&what, "kill one first (k)"))
            }
            Deed::Join => None,
            _ if !lives => {
                Some(Caption::new(&format!("{name} is not there any more"), "select another (tab)"))
            }
            Deed::Kill | Deed::Freeze | Deed::Drain if !others => {
                let what = format!("without {name} nobody would be left to work");
                Some(Caption::new(&what, "add somebody first (a), thaw (f) or undrain (d)"))
            }
            _ => None,
        }
    }

    pub(super) async fn perform(&mut self, act: &Act) -> Result<(), Failure> {
        let name = act.member.as_str();
        let at = clock::now();
        match act.deed {
            Deed::Join => {
                self.cast.enter(name, &self.journals.of(name))?;
                self.entrances += 1;
            }
            Deed::Kill => {
                self.cast.kill(name)?;
                // The mark is on the name, which somebody else may bear some day.
                self.mark(name, None).await?;
            }
            Deed::Freeze => self.cast.freeze(name)?,
            Deed::Thaw => self.cast.thaw(name)?,
            Deed::Drain => self.mark(name, Some("")).await?,
            Deed::Undrain => self.mark(name, None).await?,
        }
        self.acts.push(Done { act: act.clone(), at });
        self.upset_at.get_or_insert(at);
        Ok(())
    }

    async fn mark(&self, name: &str, value: Option<&str>) -> Result<(), Failure> {
        Ok(put_mark(&*self.store, &self.pool, MarkKind::Drain, name, value).await?)
    }

    /// Sends everybody home, waits until no process is left, and reads all that was written.
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        self.cast.leave();
        self.journals.read_all()?;
        let give_up_at = clock::now().after(self.ttl);
        while self.stretches().iter().any(|stretch| runs(stretch.pid)) && clock::now() < give_up_at {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.now = clock::now();
        self.journals.read_all()
    }

    pub(super) fn stretches(&self) -> &[Stretch] {
        self.journals.stretches()
    }

    pub(super) fn overlap(&self) -> Duration {
        overlap(self.stretches())
    }

    /// All that is worth telling so far.
    pub(super) fn entries(&self) -> Vec<Entry> {
        feed::entries(self.stretches(), &self.acts, &self.sums, self.now)
    }

    /// Whoever is next to enter.
    pub(super) fn newcomer(&self) -> Act {
        let names = NAMES.iter().cycle().skip(self.entrances % NAMES.len());
        let free = |name: &&&str| self.cast.player(name).is_none_or(|player| !player.lives());
        Act::new(Deed::Join, names.take(NAMES.len()).find(free).unwrap_or(&NAMES[0]))
    }

    /// Whether a member is there, awake and not drained.
    fn is_able(&self, player: &Player) -> bool {
        player.fate == Fate::Runs && !self.is_drained(&player.name)
    }

    pub(super) fn is_drained(&self, name: &str) -> bool {
        self.view.mark(MarkKind::Drain, name).is_some()
    }

    pub(super) fn is_frozen(&self, name: &str) -> bool {
        self.cast.player(name).is_some_and(|player| player.fate == Fate::Frozen)
    }

    fn living(&self) -> usize {
        self.cast.players().iter().filter(|player| player.lives()).count()
    }

    /// Who owns what, as the store says.
    fn owners(&self) -> BTreeMap<&str, &str> {
        let name = |id| self.view.sessions().get(id).map(|session| session.profile.name.as_str());
        let owned =
            self.view.leases().keys().filter_map(|id| Some((id.as_str(), name(self.view.holder(id)?)?)));
        owned.collect()
    }

    /// Who worked on a resource a moment ago.
    fn worker(&self, resource: &str) -> Option<&Stretch> {
        let fresh = |stretch: &&Stretch| self.now.since(stretch.to) < feed::OVER_AFTER;
        self.stretches().iter().rfind(|stretch| stretch.resource == resource).filter(fresh)
    }

    /// Whether every resource is worked on by its owner, and the able share them evenly.
    pub(super) fn is_settled(&self) -> bool {
        let owners = self.owners();
        let works =
            |name: &&str| owners.get(name).is_some_and(|o| self.worker(name).is_some_and(|w| w.member == *o));
        let held = |name: &str| owners.values().filter(|owner| **owner == name).count();
        let able: Vec<usize> =
            self.cast.players().iter().filter(|p| self.is_able(p)).map(|p| held(&p.name)).collect();
        let even = able.iter().max().unwrap_or(&0) - able.iter().min().unwrap_or(&0) <= 1;
        RESOURCES.iter().all(works) && even && able.iter().sum::<usize>() == RESOURCES.len()
    }

    /// The living, and the dead of late.
    pub(super) fn members(&self) -> Vec<MemberRow> {
        let owners = self.owners();
        let living = self.living();
        let mut room = MEMBERS_MAX - living.min(MEMBERS_MAX);
        let mut rows = Vec::new();
        for player in self.cast.players().iter().rev() {
            let load = owners.values().filter(|owner| **owner == player.name).count();
            if !player.lives() {
                if room == 0 || (self.now.since(player.since) > REMEMBERED && load == 0) {
                    continue;
                }
                room -= 1;
            }
            rows.push(MemberRow { name: player.name.clone(), state: self.state(player, load), load });
        }
        rows.sort_by(|one, two| one.name.cmp(&two.name));
        rows
    }

    fn state(&self, player: &Player, load: usize) -> MemberState {
        let settled = || {
            let mut sessions = self.view.sessions().values().filter(|session| !session.ended);
            sessions.any(|s| s.profile.name.as_str() == player.name && s.profile.settled)
        };
        match player.fate {
            Fate::Killed => MemberState::Killed,
            Fate::Gone => MemberState::Gone,
            Fate::Frozen => MemberState::Frozen,
            Fate::Runs if self.is_drained(&player.name) && load > 0 => MemberState::Draining,
            Fate::Runs if self.is_drained(&player.name) => MemberState::Drained,
            Fate::Runs if settled() => MemberState::Works,
            Fate::Runs => MemberState::Settling,
        }
    }

    pub(super) fn resources(&self) -> Vec<ResourceRow> {
        let owners = self.owners();
        let row = |name: &&str| {
            let owner = owners.get(name).map(|owner| (*owner).to_owned());
            let holds = |owner: &String| self.cast.player(owner).is_some_and(|p| p.fate == Fate::Runs);
            let state = match &owner {
                None => WorkState::Free,
                Some(owner) if self.worker(name).is_some_and(|work| work.member == *owner) => {
                    WorkState::Works
                }
                Some(owner) if holds(owner) => WorkState::Starts,
                Some(_) => WorkState::Waits,
            };
            let lease = self.view.leases().iter().find(|(id, _)| id.as_str() == *name);
            let token = lease.map_or(0, |(_, lease)| lease.token.0);
            let mine = self.stretches().iter().filter(|stretch| stretch.resource == *name);
            ResourceRow { name: (*name).to_owned(), owner, token, state, stretches: mine.cloned().collect() }
        };
        RESOURCES.iter().map(row).collect()
    }
}
