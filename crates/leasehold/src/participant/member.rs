//! The member: all that it has and knows between two passes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::pace::Pace;
use super::release::Returning;
use super::renew::Notice;
use super::session::Session;
use super::settings::Settings;
use super::work::{Ended, Lease, Manner, Work};
use super::{Identity, Participant, Status};
use crate::clock::{Clock, Moment};
use crate::discover::Source;
use crate::lease::{MemberId, MemberName, Nonce, Pool, ResourceId, Term, Token};
use crate::ledger::{Reason, Recorder};
use crate::listen::Listener;
use crate::plan::{Plan, Planner};
use crate::store::{Listing, ListingId, OpenSession, Store};
use crate::view::{News, View};

/// The most resources one call asks for or gives back, so that no call keeps the others' heartbeats waiting.
pub(super) const BATCH_MAX: usize = 256;

/// A lease this member holds.
#[derive(Debug)]
pub(super) struct Tenure {
    pub(super) lease: Lease,
    pub(super) granted_at: Moment,
    /// Set once the work was told to stop: what the release will say.
    pub(super) leaving: Option<Returning>,
}

pub(super) struct Member {
    pub(super) pool: Pool,
    pub(super) identity: Identity,
    pub(super) settings: Settings,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) recorder: Recorder,
    pub(super) work: Work,
    pub(super) manner: Manner,
    pub(super) source: Option<Arc<dyn Source>>,
    pub(super) listing: Option<watch::Receiver<Arc<Listing>>>,
    /// Set once the source has said its last word.
    pub(super) listing_is_final: bool,
    /// Set once nobody is left to change whether this member is ready.
    pub(super) ready_is_final: bool,
    pub(super) status: watch::Sender<Status>,
    pub(super) trust: watch::Sender<Option<Moment>>,
    pub(super) view: View,
    pub(super) listener: Listener,
    pub(super) session: Option<Arc<Session>>,
    pub(super) joined_at: Moment,
    pub(super) flaps: u32,
    pub(super) tenures: BTreeMap<ResourceId, Tenure>,
    /// What may be other in `tenures` or in the view since they were compared.
    pub(super) doubts: News,
    /// Whether the status tells of all `tenures` and of nothing else.
    pub(super) told: bool,
    /// Terms whose work has stopped and whose release the store has not answered yet.
    pub(super) returning: BTreeMap<Term, Returning>,
    /// Since when a free resource has been seen free.
    pub(super) free_since: HashMap<ResourceId, Moment>,
    /// Until when a resource whose work ended by itself is left to others, and how often that happened.
    pub(super) resting: HashMap<ResourceId, (Moment, u32)>,
    pub(super) members_changed_at: Moment,
    pub(super) member_ids: Vec<MemberId>,
    /// Whose turn may come before ours: the hashes of those who were heard lately.
    pub(super) awaited: Vec<u64>,
    /// To whom a resource was last offered, and how often it came back from there.
    pub(super) handed: HashMap<ResourceId, (MemberId, u32)>,
    /// The highest token we were given for a resource, whatever the store has forgotten since.
    pub(super) floors: HashMap<ResourceId, Token>,
    /// A session that was asked for and not answered, and when that was first sent.
    pub(super) opening: Option<(OpenSession, Moment)>,
    pub(super) leaving: bool,
    pub(super) stopped_at: Option<Moment>,
    pub(super) ended: (mpsc::UnboundedSender<Ended>, mpsc::UnboundedReceiver<Ended>),
    pub(super) notices: (mpsc::UnboundedSender<Notice>, mpsc::UnboundedReceiver<Notice>),
    /// What our source listed last, and its id.
    pub(super) listed: Option<(Arc<Listing>, ListingId)>,
    /// The listing that was published last, and the era of the store that took it.
    pub(super) published: Option<(ListingId, Nonce)>,
    /// The facts as they were when it was last planned.
    pub(super) planner: Planner,
    /// The plan, until it is spent.
    pub(super) planned: Option<Plan>,
    pub(super) trouble: String,
    pub(super) pace: Pace,
}

impl Member {
    /// A member before its first pass, and the task that writes its rows of the ledger. Its `listing` is what its source
    /// says.
    pub(super) fn new(
        participant: Participant,
        work: Work,
        listing: Option<watch::Receiver<Arc<Listing>>>,
    ) -> (Self, JoinHandle<()>) {
        let Participant {
            store,
            pool,
            name,
            capacity,
            labels,
            settings,
            clock,
            generate,
            aborts,
            ready,
            source,
        } = participant;
        let name = name.unwrap_or_else(MemberName::of_host);
        let (recorder, ledger) =
            Recorder::new(pool.clone(), name.clone(), Arc::clone(&clock), Arc::clone(&store));
        let view = View::new(pool.clone());
        let member = Self {
            planner: Planner::new(view.facts(settings.budget)),
            planned: None,
            view,
            pool,
            identity: Identity { name, capacity, labels, ready: ready.subscribe(), generate },
            manner: Manner { grace: settings.grace, aborts },
            settings,
            store,
            clock,
            recorder,
            work,
            source,
            listing,
            listing_is_final: false,
            ready_is_final: false,
            status: watch::Sender::new(Status::NOTHING),
            trust: watch::Sender::new(None),
            listener: Listener::default(),
            session: None,
            joined_at: Moment::default(),
            flaps: 0,
            tenures: BTreeMap::new(),
            doubts: News::Anything,
            told: false,
            returning: BTreeMap::new(),
            free_since: HashMap::new(),
            resting: HashMap::new(),
            members_changed_at: Moment::default(),
            member_ids: Vec::new(),
            awaited: Vec::new(),
            handed: HashMap::new(),
            floors: HashMap::new(),
            opening: None,
            leaving: false,
            stopped_at: None,
            ended: mpsc::unbounded_channel(),
            notices: mpsc::unbounded_channel(),
            listed: None,
            published: None,
            trouble: String::new(),
            pace: Pace::default(),
        };
        (member, ledger)
    }

    /// The most resources that one call to this store is about.
    pub(super) fn batch_max(&self) -> usize {
        BATCH_MAX.min(self.store.capabilities().batch_max)
    }
}

impl Drop for Member {
    /// Nobody is left to act for the session, so nothing may keep it alive.
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.end(Reason::Shutdown);
        }
    }
}
