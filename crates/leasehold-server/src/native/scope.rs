//! What of the store is the caller's. Every call passes through here with the pool or the session that it touches.
//!
//! Most calls of a session name no pool. For keys that not all pools are open to, the session is looked for in theirs; where
//! it was found is remembered. Only what the store answered counts: what a caller says about a session teaches nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use leasehold::store::Cursor;
use leasehold::{MemberId, Pool};

use crate::access::Identity;
use crate::app::App;
use crate::keys::Role;
use crate::problem::{Answer, Problem};

/// The most sessions that are remembered, twice.
const SESSIONS_MAX: usize = 100_000;

/// Which pool a session is in, for those that were heard of lately.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Generations>);

/// What was heard of since the last change of generations, and in the one before.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<MemberId, Pool>,
    old: HashMap<MemberId, Pool>,
}

impl Sessions {
    fn learn(&self, session: &MemberId, pool: &Pool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.young.len() >= SESSIONS_MAX && !known.young.contains_key(session) {
            known.old = std::mem::take(&mut known.young);
        }
        known.young.insert(session.clone(), pool.clone());
    }

    fn pool_of(&self, session: &MemberId) -> Option<Pool> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.young.get(session).or_else(|| known.old.get(session)).cloned()
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

    /// The session that a call is about, if the caller may touch it. Otherwise one that nobody has: the call is answered as
    /// if there were no such session.
    pub(super) async fn session(&self, session: &MemberId) -> Answer<MemberId> {
        if self.is_whole() || self.is_own(session).await? {
            Ok(session.clone())
        } else {
            Ok(MemberId::generate())
        }
    }

    /// Whether a session is in one of the caller's pools.
    async fn is_own(&self, session: &MemberId) -> Answer<bool> {
        if let Some(pool) = self.app.sessions().pool_of(session) {
            return Ok(self.identity.name_of(&pool).is_some());
        }
        for pool in self.app.store().pools().await? {
            if self.identity.name_of(&pool).is_none() {
                continue;
            }
            let read = self.app.store().sessions(&pool, Cursor::START).await?;
            read.items.iter().for_each(|found| self.learn(&found.id, &pool));
            if read.items.iter().any(|found| found.id == *session) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses to open a session under the id of somebody else's.
    pub(super) fn new_session(&self, session: &MemberId) -> Answer<()> {
        let known = self.app.sessions().pool_of(session);
        if known.is_some_and(|pool| self.identity.name_of(&pool).is_none()) {
            return Err(Problem::invalid("another session has this id; a new one needs an id of its own"));
        }
        Ok(())
    }

    /// Whether all of the store is open to the caller.
    pub(super) fn is_whole(&self) -> bool {
        self.identity.whole_store().is_ok()
    }

    /// A session was read in a pool of the store.
    pub(super) fn learn(&self, session: &MemberId, pool: &Pool) {
        self.app.sessions().learn(session, pool);
    }

    /// What of these pools of the store the caller may know of, by the names that it knows.
    pub(super) fn visible(&self, pools: Vec<Pool>) -> Vec<Pool> {
        pools.iter().filter_map(|pool| Pool::new(self.identity.name_of(pool)?).ok()).collect()
    }
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
        let pool = Pool::new("work").unwrap();
        let id = |number: usize| MemberId::new(format!("m-{number}")).unwrap();
        for number in 0..=2 * SESSIONS_MAX {
            sessions.learn(&id(number), &pool);
        }
        assert_eq!(sessions.pool_of(&id(2 * SESSIONS_MAX)), Some(pool.clone()));
        assert_eq!(sessions.pool_of(&id(SESSIONS_MAX)), Some(pool), "the generation before is still known");
        assert_eq!(sessions.pool_of(&id(0)), None, "the one before that is not");
        let known = sessions.0.lock().unwrap();
        assert!(known.young.len() + known.old.len() <= 2 * SESSIONS_MAX);
    }
}
