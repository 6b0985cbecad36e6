//! A candidate: one that campaigns, observes and resigns.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::lead::Aborted;
use super::office::{Leadership, Office};
use super::{ElectionError, Key, Leaders, Seat};
use crate::clock::Moment;
use crate::lease::Token;
use crate::participant::{Running, State, Status};
use crate::store::Store;

/// A candidate of an election. Dropping it makes it leave.
#[derive(Debug)]
pub struct Candidate {
    pub(super) office: Arc<Office>,
    /// Gone when it has left.
    pub(super) member: Mutex<Option<Running>>,
    pub(super) status: watch::Receiver<Status>,
    pub(super) trust: watch::Receiver<Option<Moment>>,
    pub(super) leaders: Leaders,
    pub(super) key: Key,
    pub(super) _leading: Option<Aborted>,
    pub(super) _place: Place,
}

impl Candidate {
    /// The key of the election.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Campaigns until elected. Whoever stops waiting stops campaigning.
    pub async fn campaign(&self) -> Leadership {
        Arc::clone(&self.office).campaign().await
    }

    /// The token of the present leadership if this candidate leads and may act on it at this moment.
    #[must_use]
    pub fn is_leader(&self) -> Option<Token> {
        let lease = self.office.present()?;
        (lease.state() != State::Lost).then(|| lease.term().ok().map(|term| term.token)).flatten()
    }

    /// The leaders, one after the other, the present one first.
    #[must_use]
    pub fn observe(&self) -> Leaders {
        self.leaders.clone()
    }

    /// Who leads, as far as is known.
    #[must_use]
    pub fn seat(&self) -> Seat {
        self.leaders.now()
    }

    /// Gives the seat up and returns when the leader has stopped; another candidate leads a moment later. Answers whether
    /// this one led.
    pub async fn resign(&self) -> bool {
        let Some(lease) = self.office.present() else { return false };
        lease.give_up();
        self.office.given_back(lease.token()).await;
        true
    }

    /// What the candidate knows of itself, as it changes.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// The end of trust if nothing more is heard from the store, for whoever watches over work that goes on by itself.
    #[must_use]
    pub fn trusted_until(&self) -> watch::Receiver<Option<Moment>> {
        self.trust.clone()
    }

    /// Leaves in order: the leader stops, the seat goes to the next, the session closes.
    pub async fn leave(&self) {
        let member = self.member.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(member) = member {
            member.leave().await;
        }
    }
}

/// One candidate of a process for a key.
#[derive(Debug)]
pub(super) struct Place(usize, Key);

static PLACES: Mutex<Option<HashSet<(usize, Key)>>> = Mutex::new(None);

impl Place {
    pub(super) fn take(store: &Arc<dyn Store>, key: &Key) -> Result<Self, ElectionError> {
        // Elections of one key in two stores are two elections.
        let store = Arc::as_ptr(store).cast::<()>().addr();
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        if places.get_or_insert_default().insert((store, key.clone())) {
            Ok(Self(store, key.clone()))
        } else {
            Err(ElectionError::Twice(key.clone()))
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        places.get_or_insert_default().remove(&(self.0, self.1.clone()));
    }
}
