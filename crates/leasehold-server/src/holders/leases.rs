//! What a holder asks for: a lease, more time, an end.

use std::time::Duration;

use leasehold::clock::Moment;
use leasehold::lease::{BeatNumber, Term};
use leasehold::ledger::{Entry, Event, Reason};
use leasehold::store::{
    Answer, Claimed, LeaseRecord, OpenSession, Pulse, Reasserted, SessionRecord, StoreError, Wanted,
};
use leasehold::{MemberId, ResourceId, Token};

use super::desk::{Desk, Known};
use super::holder::{Holder, RESOURCE};
use super::kept::Kept;

/// How often others are told that a lease is renewed, after the first time.
const TELL_EVERY: Duration = Duration::from_secs(3600);

/// Who holds a resource.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// The session, or the member.
    pub(crate) session: MemberId,
    /// What it calls itself.
    pub(crate) holder_id: String,
    /// The holder, if it has no member.
    pub(crate) holder: Option<Holder>,
    /// Under which token.
    pub(crate) token: Token,
    /// When it must have renewed, as wall time, for people.
    pub(crate) expires_nanos: u64,
    revoked: bool,
    beat: BeatNumber,
}

impl Standing {
    pub(super) fn of_kept(kept: &Kept) -> Self {
        let holder = kept.holder.clone();
        let ttl_nanos = u64::try_from(holder.ttl.as_nanos()).unwrap_or(u64::MAX);
        Self {
            session: kept.session.id.clone(),
            holder_id: holder.id.to_string(),
            token: kept.term.token,
            expires_nanos: kept.wall_nanos.saturating_add(ttl_nanos),
            revoked: false,
            beat: kept.beat,
            holder: Some(holder),
        }
    }

    /// One that is over.
    pub(crate) fn past(session: MemberId, holder: Holder, token: Token, expires_nanos: u64) -> Self {
        let (holder_id, beat) = (holder.id.to_string(), BeatNumber(0));
        Self { session, holder_id, holder: Some(holder), token, expires_nanos, revoked: false, beat }
    }

    /// Whether it was taken back: its holder is to stop.
    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked
    }

    /// The same, if it is the caller's.
    fn of(self, caller: &Caller<'_>) -> Result<Self, Lost> {
        let named = self.holder.as_ref().is_some_and(|holder| holder.id.as_str() == caller.holder_id);
        let meant = caller.session.is_none_or(|session| *session == self.session);
        if !named || !meant || caller.token.is_some_and(|token| token != self.token) {
            return Err(Lost::NotHeld(Some(Box::new(self))));
        }
        let key = self.holder.as_ref().and_then(|holder| holder.key.as_deref());
        if key.is_some() && key != caller.key {
            return Err(Lost::Foreign);
        }
        Ok(self)
    }
}

/// What became of a claim.
#[derive(Debug)]
pub(crate) enum Claim {
    /// It is the caller's.
    Granted(Standing),
    /// Somebody has it.
    Held(Option<Standing>),
    /// The store grants nothing for now.
    Frozen,
}

/// What became of a renewal.
#[derive(Debug)]
pub(crate) enum Renewal {
    /// It has more time.
    Extended(Standing),
    /// It is lost, or never was.
    Lost(Lost),
    /// The store has forgotten, and so has this replica: unknown for now.
    Frozen,
}

/// Why a lease is not the caller's.
#[derive(Debug)]
pub(crate) enum Lost {
    /// Somebody else has it, or nobody.
    NotHeld(Option<Box<Standing>>),
    /// An operator revoked it.
    Revoked,
    /// It was acquired with another API key.
    Foreign,
}

/// Who says so: the holder, its token if it sent one, and the key it came with.
#[derive(Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) holder_id: &'a str,
    /// The lease it means, where it said so.
    pub(crate) session: Option<&'a MemberId>,
    pub(crate) token: Option<Token>,
    pub(crate) key: Option<&'a str>,
}

impl Desk {
    /// Who holds what a session was opened for, if that is known here: from the store, or from memory where that has forgotten.
    pub(crate) fn held_by(&self, known: &Known, id: &MemberId) -> Option<(ResourceId, Standing)> {
        let read = known.view.sessions().get(id).filter(|session| !session.ended);
        let read = read.and_then(|session| Holder::of(&session.profile)?.extra.get(RESOURCE)?.parse().ok());
        let from_store =
            read.and_then(|resource: ResourceId| Some((self.standing(known, &resource)?, resource)));
        if let Some((standing, resource)) = from_store.filter(|(standing, _)| standing.session == *id) {
            return Some((resource, standing));
        }
        // What was read says that it is over, unless it was read before the grant, or of a store that has forgotten.
        if known.view.sessions().contains_key(id) && !known.view.era().is_some_and(|era| era.frozen) {
            return None;
        }
        let memory = self.memory();
        let kept = memory.kept.get(id).filter(|kept| kept.stands(self.clock.now()))?;
        Some((kept.term.resource.clone(), Standing::of_kept(kept)))
    }

    /// When a lease was last renewed, as wall time, for people; `None` if that was not heard here.
    pub(crate) fn renewed_nanos(&self, id: &MemberId) -> Option<u64> {
        self.memory().kept.get(id).filter(|kept| kept.beat > BeatNumber(1)).map(|kept| kept.wall_nanos)
    }

    /// Who holds the resource, as far as `known` goes.
    pub(crate) fn standing(&self, known: &Known, resource: &ResourceId) -> Option<Standing> {
        let lease = known.view.leases().get(resource)?;
        let holder = known.view.holder(resource)?;
        let session = known.view.sessions().get(holder);
        Some(self.describe(lease, holder, session))
    }

    fn describe(&self, lease: &LeaseRecord, id: &MemberId, session: Option<&SessionRecord>) -> Standing {
        let holder = session.and_then(|session| Holder::of(&session.profile));
        let ttl = holder.as_ref().map_or(lease.ttl, |holder| holder.ttl);
        let wall_nanos =
            self.memory().kept.get(id).map_or_else(|| self.clock.wall_nanos(), |kept| kept.wall_nanos);
        Standing {
            session: id.clone(),
            holder_id: holder.as_ref().map_or_else(|| id.to_string(), |holder| holder.id.to_string()),
            holder,
            token: lease.token,
            expires_nanos: wall_nanos.saturating_add(u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX)),
            revoked: lease.revoked,
            beat: session.map_or(BeatNumber(0), |session| session.beat),
        }
    }

    /// Takes a resource for a holder, under a session of this id, which was never used before. A claim that is repeated under the same idempotency key is answered as before.
    pub(crate) async fn claim(
        &self,
        resource: &ResourceId,
        holder: Holder,
        weight: u32,
        id: MemberId,
    ) -> Result<Claim, StoreError> {
        let (seems_held, mut floor) = {
            let known = self.lately().await?;
            (self.seems_held(&known, resource), known.view.floor(resource))
        };
        // What was held a moment ago most likely still is: to look costs less than to ask in vain.
        if seems_held {
            let standing = {
                let known = self.fresh().await?;
                floor = known.view.floor(resource);
                self.standing(&known, resource)
            };
            if let Some(standing) = standing {
                // Boxed: it is the largest part of a claim, and seldom needed.
                return Box::pin(self.refuse(resource, standing, &holder)).await;
            }
        }
        let began = self.clock.now();
        let session = OpenSession {
            pool: self.pool.clone(),
            id,
            ttl: holder.patience(),
            profile: holder.profile(weight),
        };
        let wanted = Wanted { resource: resource.clone(), floor: floor.unwrap_or(Token(0)) };
        match self.call(self.store.claim(&session, &wanted)).await? {
            Answer::Done(Claimed::Granted { term, .. }) => {
                let wall_nanos = self.clock.wall_nanos();
                let (beat, since) = (BeatNumber(1), Some(began));
                let kept = Kept {
                    session,
                    holder,
                    term,
                    beat,
                    since,
                    granted: Some(self.clock.now()),
                    wall_nanos,
                    told: began,
                    extended: None,
                    unproven: None,
                };
                Ok(Claim::Granted(self.granted(kept)))
            }
            Answer::Done(Claimed::Held { .. }) => match self.read_standing(resource).await? {
                Some(standing) => Box::pin(self.refuse(resource, standing, &holder)).await,
                None => Ok(Claim::Held(None)),
            },
            Answer::Frozen(_) => Ok(Claim::Frozen),
            Answer::Gone => {
                Err(StoreError::unavailable("a session that was never used before has ended; try again"))
            }
        }
    }

    /// Whether somebody has the resource by what was read last, and did not let go through this replica since.
    fn seems_held(&self, known: &Known, resource: &ResourceId) -> bool {
        let Some(id) = known.view.holder(resource) else { return false };
        let session = known.view.sessions().get(id);
        let is_kept = session.is_some_and(|session| Holder::is_of(&session.profile));
        !is_kept || self.memory().kept.contains_key(id)
    }

    async fn read_standing(&self, resource: &ResourceId) -> Result<Option<Standing>, StoreError> {
        let known = self.fresh().await?;
        Ok(self.standing(&known, resource))
    }

    /// What is answered to a holder that wants what is held: the lease itself if it is this very request's. It is renewed for
    /// that, because whoever asks again counts from now on.
    async fn refuse(
        &self,
        resource: &ResourceId,
        standing: Standing,
        holder: &Holder,
    ) -> Result<Claim, StoreError> {
        let same = |before: &Holder| {
            before.id == holder.id && before.idempotency == holder.idempotency && before.key == holder.key
        };
        if holder.idempotency.is_none() || !standing.holder.as_ref().is_some_and(same) {
            return Ok(Claim::Held(Some(standing)));
        }
        let (token, key) = (Some(standing.token), holder.key.as_deref());
        match self
            .renew(resource, &Caller { holder_id: holder.id.as_str(), session: None, token, key })
            .await?
        {
            Renewal::Extended(standing) => Ok(Claim::Granted(standing)),
            Renewal::Lost(_) => Ok(Claim::Held(None)),
            Renewal::Frozen => Ok(Claim::Frozen),
        }
    }

    fn granted(&self, kept: Kept) -> Standing {
        let standing = Standing::of_kept(&kept);
        let (resource, ttl) = (kept.term.resource.clone(), kept.holder.ttl);
        let mut row = self.rows.row(&kept.session.id, &kept.holder.id, Event::Acquired);
        row.number = Some(1);
        row.token = Some(kept.term.token);
        row.ttl_ms = u64::try_from(ttl.as_millis()).ok();
        row.detail = kept.holder.detail();
        row.trusted_until = kept.since.map(|since| since.after(ttl));
        let lapsed = {
            let mut memory = self.memory();
            memory.keep(kept);
            memory.lapsed.remove(&resource)
        };
        if let Some(before) = lapsed {
            row.event = Event::TakenOver;
            self.superseded(&before, &standing);
        }
        row.resource = Some(resource);
        self.rows.write(&self.pool, row);
        standing
    }

    /// Tells whoever lapsed that another has what it held, where leases say more of themselves.
    fn superseded(&self, before: &Kept, now: &Standing) {
        let holder = &before.holder;
        let detail = holder.detail().filter(|_| holder.id.as_str() != now.holder_id);
        let Some(detail) = detail else { return };
        let mut row = self.rows.row(&before.session.id, &holder.id, Event::Lost);
        row.number = Some(2);
        row.resource = Some(before.term.resource.clone());
        row.token = Some(before.term.token);
        row.reason = Some(Reason::Superseded);
        row.other = Some(now.session.clone());
        row.detail = Some(detail);
        self.rows.write(&self.pool, row);
    }

    /// Which session a caller means: the one that holds the resource, if it is the caller's.
    fn own(&self, known: &Known, resource: &ResourceId, caller: &Caller<'_>) -> Result<Standing, Lost> {
        self.standing(known, resource).ok_or(Lost::NotHeld(None))?.of(caller)
    }

    /// The same from memory, for a lease of which nobody can have disposed meanwhile but its holder or an operator.
    fn own_lately(&self, resource: &ResourceId, caller: &Caller<'_>) -> Option<Standing> {
        let memory = self.memory();
        let kept = memory.holding(resource, self.clock.now())?;
        Standing::of_kept(kept).of(caller).ok()
    }

    /// Gives a lease more time.
    pub(crate) async fn renew(
        &self,
        resource: &ResourceId,
        caller: &Caller<'_>,
    ) -> Result<Renewal, StoreError> {
        let began = self.clock.now();
        let (standing, era) = {
            let known = self.fresh().await?;
            let era = known.view.era();
            // Fences refuse what is done under this term; the next one they will take.
            if known.view.is_below_floor(resource) {
                return Ok(Renewal::Lost(Lost::Revoked));
            }
            let standing = match self.own(&known, resource, caller) {
                Ok(standing) => Ok(standing),
                // A store that has forgotten does not know better than we do.
                Err(_) if era.is_some_and(|era| era.frozen) => self.remembered(resource, caller).ok_or(None),
                Err(lost) => Err(Some(lost)),
            };
            match standing {
                Ok(standing) => (standing, era),
                Err(None) => return Ok(Renewal::Frozen),
                Err(Some(lost)) => return Ok(Renewal::Lost(lost)),
            }
        };
        let Some(era) = era else { return Ok(Renewal::Frozen) };
        if standing.revoked {
            return Ok(Renewal::Lost(Lost::Revoked));
        }
        // A store that has less than it confirmed to us has forgotten, and is told so.
        let confirmed = self.memory().kept.get(&standing.session).map(|kept| kept.beat).unwrap_or_default();
        let number = BeatNumber(standing.beat.max(confirmed).0 + 1);
        let pulse = Pulse { era: era.nonce, number, confirmed };
        let answer = match self.call(self.store.beat(&standing.session, pulse)).await? {
            Answer::Frozen(nonce) => self.reassert(&standing, Pulse { era: nonce, ..pulse }).await?,
            answer => answer,
        };
        match answer {
            Answer::Done(revoked) if revoked.iter().any(|term| term.resource == *resource) => {
                Ok(Renewal::Lost(Lost::Revoked))
            }
            Answer::Done(_) => Ok(Renewal::Extended(self.extended(standing, number, began))),
            Answer::Gone => Ok(Renewal::Lost(Lost::NotHeld(None))),
            Answer::Frozen(_) => Ok(Renewal::Frozen),
        }
    }

    fn extended(&self, mut standing: Standing, number: BeatNumber, began: Moment) -> Standing {
        let wall_nanos = self.clock.wall_nanos();
        let Some(holder) = &standing.holder else { return standing };
        let ttl_nanos = u64::try_from(holder.ttl.as_nanos()).unwrap_or(u64::MAX);
        standing.expires_nanos = wall_nanos.saturating_add(ttl_nanos);
        if self.memory().renewed(&standing.session, number, began, wall_nanos, holder.ttl / 4) {
            let mut row = self.rows.row(&standing.session, &holder.id, Event::Renewed);
            row.number = Some(1);
            row.ttl_ms = u64::try_from(holder.ttl.as_millis()).ok();
            row.trusted_until = Some(began.after(holder.ttl));
            self.rows.write(&self.pool, row);
        }
        if let Some(detail) = holder.detail()
            && self.memory().tells(&standing.session, began, TELL_EVERY)
        {
            let mut row = self.rows.row(&standing.session, &holder.id, Event::Extended);
            row.number = Some(1);
            row.resource = holder.extra.get(RESOURCE).and_then(|resource| resource.parse().ok());
            row.token = Some(standing.token);
            row.detail = Some(detail);
            self.rows.write(&self.pool, row);
        }
        standing
    }

    /// What this replica remembers of a lease that the store does not know any more.
    fn remembered(&self, resource: &ResourceId, caller: &Caller<'_>) -> Option<Standing> {
        let memory = self.memory();
        let of_caller = |kept: &&Kept| {
            kept.term.resource == *resource
                && kept.session.profile.name.as_str() == caller.holder_id
                && caller.session.is_none_or(|session| *session == kept.session.id)
        };
        let kept = memory.kept.values().filter(of_caller).max_by_key(|kept| kept.term.token)?;
        Standing::of_kept(kept).of(caller).ok()
    }

    /// Says what a holder holds in a store that may have forgotten it, if nobody can have been granted it since.
    async fn reassert(&self, standing: &Standing, pulse: Pulse) -> Result<Answer<Vec<Term>>, StoreError> {
        let kept = self.memory().kept.get(&standing.session).cloned();
        let Some(kept) = kept.filter(|kept| kept.stands(self.clock.now())) else {
            return Ok(Answer::Frozen(pulse.era));
        };
        let terms = [kept.term.clone()];
        let answer = self.call(self.store.reassert(&kept.session, pulse, &terms)).await?;
        Ok(match answer {
            Answer::Done(outcomes) if outcomes == [Reasserted::Kept] => Answer::Done(Vec::new()),
            Answer::Done(_) | Answer::Gone => Answer::Gone,
            Answer::Frozen(nonce) => Answer::Frozen(nonce),
        })
    }

    /// Ends a lease. Says whether there was one.
    pub(crate) async fn release(
        &self,
        resource: &ResourceId,
        caller: &Caller<'_>,
    ) -> Result<Result<Standing, Lost>, StoreError> {
        let lately = self.own_lately(resource, caller);
        let standing = match lately {
            Some(standing) => standing,
            None => match self.own(&*self.fresh().await?, resource, caller) {
                Ok(standing) => standing,
                Err(lost) => return Ok(Err(lost)),
            },
        };
        self.prove_one(resource, &standing).await?;
        self.call(self.store.retire(&standing.session)).await?;
        self.memory().lose(&standing.session, self.clock.now());
        if let Some(holder) = &standing.holder {
            let row = self.rows.row(&standing.session, &holder.id, Event::Released);
            self.let_go(row, Some(resource.clone()), Some(standing.token), holder.detail());
        }
        Ok(Ok(standing))
    }

    /// Writes down that a lease was released of which the ledger has only the grant: whoever released it was gone before it
    /// could say so.
    pub(crate) fn release_late(&self, grant: &Entry) {
        let row = self.rows.row(&grant.member, &grant.name, Event::Released);
        self.let_go(row, grant.resource.clone(), grant.token, grant.detail.clone());
    }

    fn let_go(&self, row: Entry, resource: Option<ResourceId>, token: Option<Token>, detail: Option<String>) {
        let (number, reason) = (Some(2), Some(Reason::Voluntary));
        self.rows.write(&self.pool, Entry { number, resource, token, reason, detail, ..row });
    }
}
