//! What of the store is the caller's. Every call passes through here with the pool or the session that it touches.
//!
//! Invariant: where keys are asked for, a session is acted for with the key that opened it and no other. The key's id is a
//! label of the session, which the control plane writes and callers cannot; so every replica finds it, and it stays when
//! the key is rotated.
//!
//! Most calls of a session name no pool. The session is looked for in what this replica hears; whose it is never
//! changes, so that is remembered. Only what the store answered counts: what a caller says about a session teaches nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use leasehold::lease::Nonce;
use leasehold::store::{self, OpenSession, Profile, Pulse, SessionRecord};
use leasehold::{MemberId, Pool};

use crate::access::Identity;
use crate::app::App;
use crate::holders::{KEY, RESERVED};
use crate::keys::Role;
use crate::problem::{Answer, Problem};

/// The most sessions that are remembered, twice.
const SESSIONS_MAX: usize = 100_000;

/// Where a session is, and whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(super) pool: Pool,
    /// The key that opened it; `None` for those that nobody opened with one: on the database itself, or before there
    /// were keys.
    key: Option<String>,
}

impl Owned {
    fn of(pool: &Pool, session: &SessionRecord) -> Self {
        Self { pool: pool.clone(), key: session.profile.labels.get(KEY).cloned() }
    }
}

/// Where sessions are and whose, for those that were heard of lately.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    known: Mutex<Generations>,
    /// What the store was last found frozen under.
    frozen: Mutex<Option<Nonce>>,
}

/// What was heard of since the last change of generations, and in the one before.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<MemberId, Arc<Owned>>,
    old: HashMap<MemberId, Arc<Owned>>,
}

impl Sessions {
    fn learn(&self, session: &MemberId, owned: Owned) -> Arc<Owned> {
        let owned = Arc::new(owned);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.young.len() >= SESSIONS_MAX && !known.young.contains_key(session) {
            known.old = std::mem::take(&mut known.young);
        }
        known.young.insert(session.clone(), Arc::clone(&owned));
        owned
    }

    fn of(&self, session: &MemberId) -> Option<Arc<Owned>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.young.get(session).or_else(|| known.old.get(session)).cloned()
    }

    /// Whether nobody was told of this freeze before.
    fn is_new_freeze(&self, nonce: Nonce) -> bool {
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        frozen.replace(nonce) != Some(nonce)
    }
}

/// Who asks, and what of the store is theirs.
pub(crate) struct Scope {
    identity: Identity,
    app: App,
}

impl Scope {
    /// The pool as the store knows it, if the caller may touch it.
    pub(super) fn pool(&self, name: &Pool) -> Answer<Pool> {
        self.identity.pool(name.as_str())
    }

    /// Who asks.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Refuses who may do less.
    pub(super) fn needs(&self, role: Role) -> Answer<()> {
        self.identity.needs(role)
    }

    /// Whether no key is asked for, and every caller is taken at its word.
    pub(super) fn is_open(&self) -> bool {
        self.identity.key().is_none()
    }

    /// The session that a call acts for, if it is the caller's own. In place of one that the caller cannot see, one that
    /// nobody has: the call is answered as if there were no such session.
    pub(super) async fn session(&self, session: &MemberId) -> Answer<MemberId> {
        let Some(key) = self.identity.key() else { return Ok(session.clone()) };
        match self.seen(session).await? {
            Some(owned) if owned.key.as_deref() == Some(key) => Ok(session.clone()),
            Some(_) => Err(foreign(session)),
            None => Ok(MemberId::generate()),
        }
    }

    /// Where a session is, if the caller can see it.
    pub(super) async fn seen(&self, session: &MemberId) -> Answer<Option<Arc<Owned>>> {
        let found = match self.lately(session).await? {
            Some(found) => Some(found),
            None => {
                let pools = self.app.store().pools().await?;
                let visible = pools.into_iter().filter(|pool| self.identity.name_of(pool).is_some());
                self.now(session, visible).await?
            }
        };
        Ok(found.filter(|owned| self.identity.name_of(&owned.pool).is_some()))
    }

    /// Refuses to open a session under the id of somebody else's, and writes down whose the new one is.
    pub(super) async fn new_session(&self, session: &mut OpenSession) -> Answer<()> {
        let Some(key) = self.identity.key() else { return Ok(()) };
        self.sign(&mut session.profile)?;
        let found = match self.lately(&session.id).await? {
            Some(found) => Some(found),
            None => self.now(&session.id, [session.pool.clone()]).await?,
        };
        match found {
            Some(owned) if owned.key.as_deref() != Some(key) => Err(foreign(&session.id)),
            _ => Ok(()),
        }
    }

    /// Writes the caller's key into what a session publishes about itself, where callers write nothing.
    pub(super) fn sign(&self, profile: &mut Profile) -> Answer<()> {
        let Some(key) = self.identity.key() else { return Ok(()) };
        if let Some(label) = profile.labels.keys().find(|label| label.starts_with(RESERVED)) {
            let said =
                format!("the label {label:?} is reserved; use one that does not begin with {RESERVED:?}");
            return Err(Problem::invalid(said));
        }
        profile.labels.insert(KEY.to_owned(), key.to_owned());
        Ok(())
    }

    /// What this replica has read of a session, in whichever pool.
    async fn lately(&self, session: &MemberId) -> Answer<Option<Arc<Owned>>> {
        if let Some(owned) = self.app.sessions().of(session) {
            return Ok(Some(owned));
        }
        for desk in self.app.holders().desks() {
            let known = desk.lately().await?;
            if let Some(found) = known.view.sessions().get(session) {
                return Ok(Some(self.app.sessions().learn(session, Owned::of(desk.pool(), found))));
            }
        }
        Ok(None)
    }

    /// What the store has of a session in these pools, now.
    async fn now(
        &self,
        session: &MemberId,
        pools: impl IntoIterator<Item = Pool>,
    ) -> Answer<Option<Arc<Owned>>> {
        for pool in pools {
            let desk = self.app.desk(&pool)?;
            let known = desk.fresh().await?;
            if let Some(found) = known.view.sessions().get(session) {
                return Ok(Some(self.app.sessions().learn(session, Owned::of(&pool, found))));
            }
        }
        Ok(None)
    }

    /// Says whose call found the store frozen first. What it named may never have been: nobody can tell that from a store
    /// that forgot, but an operator can tell who says so again and again.
    pub(super) fn note_freeze<T>(&self, session: &MemberId, pulse: Pulse, answer: &store::Answer<T>) {
        let (Some(key), store::Answer::Frozen(nonce)) = (self.identity.key(), answer) else { return };
        if self.app.sessions().is_new_freeze(*nonce) {
            metrics::counter!("leasehold_freezes_found_total", "key" => key.to_owned()).increment(1);
            tracing::warn!(
                key, session = session.as_str(), era = %pulse.era, beat = pulse.confirmed.0,
                "a call of this key found that the store has forgotten; if it was neither restored nor restarted, the key \
                 names what never was"
            );
        }
    }

    /// A session was read in a pool of the store.
    pub(super) fn learn(&self, session: &SessionRecord, pool: &Pool) {
        self.app.sessions().learn(&session.id, Owned::of(pool, session));
    }

    /// What of these pools of the store the caller may know of, by the names that it knows.
    pub(super) fn visible(&self, pools: Vec<Pool>) -> Vec<Pool> {
        pools.iter().filter_map(|pool| Pool::new(self.identity.name_of(pool)?).ok()).collect()
    }
}

fn foreign(session: &MemberId) -> Problem {
    let said =
        format!("the session {session} was opened with another key, or with none; open one of your own");
    Problem::new(StatusCode::FORBIDDEN, "not_your_session", said)
}

impl FromRequestParts<App> for Scope {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Answer<Self> {
        let identity = Identity::from_request_parts(parts, app).await?;
        Ok(Self { identity, app: app.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_remembered_within_a_bound() {
        let sessions = Sessions::default();
        let owned = Owned { pool: Pool::new("work").unwrap(), key: None };
        let id = |number: usize| MemberId::new(format!("m-{number}")).unwrap();
        for number in 0..=2 * SESSIONS_MAX {
            sessions.learn(&id(number), owned.clone());
        }
        assert_eq!(sessions.of(&id(2 * SESSIONS_MAX)), Some(Arc::new(owned.clone())));
        assert_eq!(
            sessions.of(&id(SESSIONS_MAX)),
            Some(Arc::new(owned)),
            "the generation before is still known"
        );
        assert_eq!(sessions.of(&id(0)), None, "the one before that is not");
        let known = sessions.known.lock().unwrap();
        assert!(known.young.len() + known.old.len() <= 2 * SESSIONS_MAX);
    }
}
