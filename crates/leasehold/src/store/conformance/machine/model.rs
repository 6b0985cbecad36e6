//! The contract in miniature: what the store should know, and what it should answer.

use std::collections::{BTreeMap, BTreeSet};

use crate::lease::{BeatNumber, MemberId, Nonce, ResourceId, Term, Token};
use crate::store::{
    Acquired, Answer, EndSilent, Freed, LeaseRecord, Reasserted, Released, Revoked, SessionRecord,
};

/// Everything the store should know. A roll-back puts an older one in its place.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) nonce: Nonce,
    pub(super) frozen: bool,
    /// Every era this memory had before.
    pub(super) past: Vec<Nonce>,
    /// After a thaw tokens jump, by how much only the store knows.
    pub(super) thawed: bool,
    pub(super) sessions: BTreeMap<MemberId, Session>,
    pub(super) leases: BTreeMap<ResourceId, Lease>,
    /// Whose tombstones may be missing.
    retired: BTreeSet<MemberId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) beat: u64,
    pub(super) ended: bool,
    pub(super) reasserted: Option<Nonce>,
    pub(super) flaps: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) token: Token,
    pub(super) holder: Option<MemberId>,
    pub(super) revoked: bool,
}

impl Facts {
    pub(super) fn new(nonce: Nonce) -> Self {
        let (sessions, leases, retired) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { nonce, frozen: false, past: Vec::new(), thawed: false, sessions, leases, retired }
    }

    pub(super) fn freeze(&mut self, nonce: Nonce) {
        self.past.push(self.nonce);
        self.nonce = nonce;
        self.frozen = true;
    }

    /// What a session's call is answered before its own request is looked at.
    pub(super) fn meet(&self, id: &MemberId, era: Nonce) -> Answer<()> {
        let session = self.sessions.get(id);
        if session.is_some_and(|session| session.ended) {
            return Answer::Gone;
        }
        let belongs = era == self.nonce;
        match session {
            Some(session) if self.frozen && belongs && session.reasserted == Some(self.nonce) => {
                Answer::Done(())
            }
            _ if self.frozen => Answer::Frozen(self.nonce),
            Some(_) if belongs => Answer::Done(()),
            _ => Answer::Gone,
        }
    }

    pub(super) fn raise(&mut self, id: &MemberId, number: u64) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.beat = session.beat.max(number);
        }
    }

    fn has_ended(&self, id: &MemberId) -> bool {
        self.sessions.get(id).is_some_and(|session| session.ended)
    }

    /// Who keeps a resource from being granted.
    pub(super) fn keeper(&self, resource: &ResourceId) -> Option<Acquired> {
        let lease = self.leases.get(resource)?;
        let holder = lease.holder.clone().filter(|holder| !self.has_ended(holder))?;
        Some(Acquired::Held { by: holder, token: lease.token })
    }

    pub(super) fn token(&self, resource: &ResourceId) -> Token {
        self.leases.get(resource).map_or(Token(0), |lease| lease.token)
    }

    pub(super) fn grant(&mut self, id: &MemberId, term: &Term) {
        let lease = Lease { token: term.token, holder: Some(id.clone()), revoked: false };
        self.leases.insert(term.resource.clone(), lease);
    }

    pub(super) fn release(&mut self, id: &MemberId, term: &Term) -> Released {
        match self.leases.get_mut(&term.resource) {
            Some(lease) if lease.holder.as_ref() == Some(id) && lease.token == term.token => {
                (lease.holder, lease.revoked) = (None, false);
                Released::Freed
            }
            _ => Released::NotHeld,
        }
    }

    pub(super) fn end(&mut self, id: &MemberId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.ended = true;
        }
    }

    pub(super) fn retire(&mut self, id: &MemberId) {
        self.end(id);
        self.retired.insert(id.clone());
    }

    /// Whether a resource is free because its holder retired: its record may name that holder still, or nobody.
    pub(super) fn was_left(&self, resource: &ResourceId) -> bool {
        let holder = self.leases.get(resource).and_then(|lease| lease.holder.as_ref());
        holder.is_some_and(|holder| self.retired.contains(holder))
    }

    pub(super) fn end_silent(&mut self, id: &MemberId, heard: u64) -> EndSilent {
        match self.sessions.get(id) {
            Some(session) if session.ended => EndSilent::Ended,
            _ if self.frozen => EndSilent::Frozen(self.nonce),
            None => EndSilent::Absent,
            Some(session) if session.beat != heard => EndSilent::Alive(BeatNumber(session.beat)),
            Some(_) => {
                self.end(id);
                EndSilent::Ended
            }
        }
    }

    pub(super) fn revoke(&mut self, term: &Term) -> Revoked {
        if self.frozen {
            return Revoked::Frozen(self.nonce);
        }
        let held = self.keeper(&term.resource).is_some() && self.token(&term.resource) == term.token;
        match self.leases.get_mut(&term.resource) {
            Some(lease) if held => {
                lease.revoked = true;
                Revoked::Marked
            }
            _ => Revoked::NotHeld,
        }
    }

    pub(super) fn free_revoked(&mut self, term: &Term) -> Freed {
        if self.frozen {
            return Freed::Frozen(self.nonce);
        }
        match self.leases.get_mut(&term.resource) {
            Some(lease) if lease.revoked && lease.token == term.token && lease.holder.is_some() => {
                (lease.holder, lease.revoked) = (None, false);
                Freed::Freed
            }
            _ => Freed::Changed,
        }
    }

    pub(super) fn revoked_of(&self, id: &MemberId) -> Vec<Term> {
        let mine = self.leases.iter().filter(|(_, lease)| lease.revoked && lease.holder.as_ref() == Some(id));
        mine.map(|(resource, lease)| Term { resource: resource.clone(), token: lease.token }).collect()
    }

    pub(super) fn collect(&mut self, id: &MemberId) {
        if self.has_ended(id) {
            for lease in self.leases.values_mut().filter(|lease| lease.holder.as_ref() == Some(id)) {
                (lease.holder, lease.revoked) = (None, false);
            }
            self.sessions.remove(id);
        }
    }

    pub(super) fn reassert(
        &mut self,
        id: &MemberId,
        number: u64,
        flaps: u32,
        terms: &[Term],
    ) -> Answer<Vec<Reasserted>> {
        if !self.frozen || self.has_ended(id) {
            return Answer::Gone;
        }
        let beat = self.sessions.get(id).map_or(0, |session| session.beat).max(number);
        let reasserted = Some(self.nonce);
        self.sessions.insert(id.clone(), Session { beat, ended: false, reasserted, flaps });
        Answer::Done(terms.iter().map(|term| self.reassert_term(id, term)).collect())
    }

    fn reassert_term(&mut self, id: &MemberId, term: &Term) -> Reasserted {
        match self.leases.get(&term.resource) {
            Some(lease) if lease.token > term.token => return Reasserted::Lost,
            Some(lease) if lease.token == term.token && lease.holder.as_ref().is_some_and(|by| by != id) => {
                return Reasserted::Lost;
            }
            _ => self.grant(id, term),
        }
        Reasserted::Kept
    }

    /// Thaws and says who is over by it.
    pub(super) fn thaw(&mut self) {
        let nonce = self.nonce;
        self.frozen = false;
        self.thawed = true;
        for session in self.sessions.values_mut().filter(|session| session.reasserted != Some(nonce)) {
            session.ended = true;
        }
    }

    /// Compares with what the store shows. A revocation may or may not survive a reassertion.
    pub(super) fn compare(
        &mut self,
        sessions: Vec<SessionRecord>,
        leases: Vec<LeaseRecord>,
        reasserted: bool,
    ) -> Result<(), String> {
        let shown: BTreeMap<_, _> = sessions
            .into_iter()
            .map(|session| (session.id, (session.beat.0, session.ended, session.profile.flaps)))
            .collect();
        let nothing_left: Vec<_> =
            self.retired.iter().filter(|id| !shown.contains_key(*id)).cloned().collect();
        nothing_left.iter().for_each(|id| self.collect(id));
        let known: BTreeMap<_, _> = (self.sessions.iter())
            .map(|(id, session)| (id.clone(), (session.beat, session.ended, session.flaps)))
            .collect();
        if shown != known {
            return Err(format!("the store shows sessions {shown:?}, the contract says {known:?}"));
        }
        let shown: BTreeMap<_, _> = leases
            .into_iter()
            .map(|lease| {
                let revoked = lease.revoked;
                (lease.resource, Lease { token: lease.token, holder: lease.holder, revoked })
            })
            .collect();
        for (resource, lease) in &mut self.leases {
            let is_free = shown.get(resource).is_some_and(|shown| shown.holder.is_none());
            if is_free && lease.holder.as_ref().is_some_and(|holder| self.retired.contains(holder)) {
                (lease.holder, lease.revoked) = (None, false);
            }
        }
        for (resource, lease) in self.leases.iter_mut().filter(|_| reasserted) {
            lease.revoked = shown.get(resource).is_some_and(|shown| shown.revoked);
        }
        if shown != self.leases {
            return Err(format!("the store shows leases {shown:?}, the contract says {:?}", self.leases));
        }
        Ok(())
    }
}
