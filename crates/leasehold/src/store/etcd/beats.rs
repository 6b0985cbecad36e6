//! Heartbeats on their way.
//!
//! A heartbeat is one request if the handle knows how its session's record stands. On a slow line it may be given up before
//! it is answered, and the next one follows while it is still on its way.
//!
//! Invariant: a heartbeat runs to its end in a task of its own, so that what it learned is there for the next one, whoever
//! stops waiting for it. The next one of the same session waits a moment for it: sent at once it would find the record
//! changed, and need a second request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as Turn;

use super::keys::Key;
use super::mirror::{Campaign, Mirrors, Natives};
use super::transact::Engine;
use super::{record, sessions};
use crate::lease::{MemberId, Term};
use crate::store::{Answer, Pulse, StoreError};

/// How long a heartbeat waits for the one before. One that takes longer may never be answered.
const TURN_MAX: Duration = Duration::from_millis(500);

/// The heartbeats of a handle.
#[derive(Debug)]
pub(super) struct Beats {
    engine: Arc<Engine>,
    natives: Arc<Natives>,
    turns: Mutex<HashMap<MemberId, Arc<Turn<()>>>>,
}

impl Beats {
    pub(super) fn new(engine: Arc<Engine>, natives: Arc<Natives>) -> Self {
        Self { engine, natives, turns: Mutex::default() }
    }

    pub(super) async fn beat(
        &self,
        mirrors: Arc<Mirrors>,
        session: &MemberId,
        pulse: Pulse,
    ) -> Result<Answer<Vec<Term>>, StoreError> {
        let turn = Arc::clone(self.turns().entry(session.clone()).or_default());
        let waited = tokio::time::timeout(TURN_MAX, turn.lock()).await;
        let answer = self.send(mirrors, session, pulse).await;
        drop(waited);
        drop(turn);
        // Nobody else is waiting for those that only we knew.
        self.turns().retain(|_, turn| Arc::strong_count(turn) > 1);
        answer
    }

    async fn send(
        &self,
        mirrors: Arc<Mirrors>,
        session: &MemberId,
        pulse: Pulse,
    ) -> Result<Answer<Vec<Term>>, StoreError> {
        let native = self.natives.refresh(&self.engine.client, session).await;
        let campaign = Campaign { mirrors, native };
        let known = self.engine.of_session(session);
        let beat = self.engine.transact(&known, |step| sessions::beat(step, &campaign, session, pulse));
        let answer = beat.await?;
        if let (Some(native), Answer::Done(_)) = (native, &answer) {
            self.natives.carries_keys(session, native);
        }
        Ok(answer)
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<MemberId, Arc<Turn<()>>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// What this handle's earlier calls knew of the era and a session.
    pub(super) fn of_session(&self, session: &MemberId) -> Vec<Key> {
        let mut known = vec![self.keys.era(), self.keys.pool_of(session)];
        let place: Option<record::PoolValue> = self.known_value(&known[1]);
        known.extend(place.map(|place| self.keys.session(&place.pool, session)));
        known
    }
}
