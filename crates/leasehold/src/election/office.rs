//! The seat as one process sees it, and the leadership that is handed out for it.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::lease::{Term, Token};
use crate::ledger::Reason;
use crate::participant::{Lease, Lost};
use crate::store::{Guard, Store};

/// The seat, taken. Dropping it gives the seat back.
#[derive(Debug)]
pub struct Leadership {
    lease: Lease,
    office: Arc<Office>,
    _campaigning: Campaigning,
}

impl Leadership {
    /// The term, if it may be acted upon at this moment.
    ///
    /// # Errors
    /// [`Lost`] once trust has ended or somebody else leads.
    pub fn term(&self) -> Result<&Term, Lost> {
        self.lease.term()
    }

    /// The token, whether or not this leadership still stands. Use [`Leadership::term`] at the moment of use.
    #[must_use]
    pub fn token(&self) -> Token {
        self.lease.token()
    }

    /// Ends when the leader must stop, for whatever reason, and says why.
    pub async fn lost(&self) -> Reason {
        self.lease.lost().await
    }

    /// What a write to the store's own server can depend on, so that the server refuses it once another has been elected.
    /// `None` on stores where that cannot be had.
    #[must_use]
    pub fn guard(&self) -> Option<Guard> {
        self.lease.guard(&*self.office.store)
    }

    /// The lease of the seat.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        let token = self.lease.token();
        self.office.tenure.send_if_modified(|tenure| match tenure {
            Some(tenure) if tenure.lease.token() == token => {
                tenure.over = true;
                true
            }
            _ => false,
        });
    }
}

/// The seat as this process sees it while it has it.
pub(super) struct Office {
    tenure: watch::Sender<Option<Tenure>>,
    campaigners: watch::Sender<usize>,
    ready: watch::Sender<bool>,
    store: Arc<dyn Store>,
}

impl fmt::Debug for Office {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Office").field("tenure", &*self.tenure.borrow()).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Tenure {
    lease: Lease,
    /// Somebody has the leadership that this tenure is.
    taken: bool,
    /// Nobody has it any more, or ever will.
    over: bool,
}

impl Office {
    /// An empty one. Who does not campaign is not ready to be elected.
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        let (tenure, campaigners) = (watch::Sender::new(None), watch::Sender::new(0));
        Self { tenure, campaigners, ready: watch::Sender::new(false), store }
    }

    /// Says whether this process can be elected.
    pub(super) fn ready(&self) -> watch::Sender<bool> {
        self.ready.clone()
    }

    /// The work of the lease: it goes on until the leadership has been dropped. One that nobody takes goes back.
    pub(super) async fn hold(self: Arc<Self>, lease: Lease) {
        self.tenure.send_replace(Some(Tenure { lease: lease.clone(), taken: false, over: false }));
        let mut tenure = self.tenure.subscribe();
        let mut campaigners = self.campaigners.subscribe();
        let unwanted = async {
            tokio::select! {
                _ = lease.lost() => {}
                _ = campaigners.wait_for(|count| *count == 0) => {}
            }
            if !self.change(|tenure| tenure.over = true) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = tenure.wait_for(|tenure| tenure.as_ref().is_none_or(|tenure| tenure.over)) => {}
            () = unwanted => {}
        }
        self.tenure.send_replace(None);
    }

    /// Changes a tenure that nobody has taken yet; answers whether there was one.
    fn change(&self, change: impl FnOnce(&mut Tenure)) -> bool {
        self.tenure.send_if_modified(|tenure| match tenure {
            Some(tenure) if !tenure.taken && !tenure.over => {
                change(tenure);
                true
            }
            _ => false,
        })
    }

    /// The lease of the present leadership.
    pub(super) fn present(&self) -> Option<Lease> {
        let tenure = self.tenure.borrow();
        tenure.as_ref().filter(|tenure| tenure.taken && !tenure.over).map(|tenure| tenure.lease.clone())
    }

    /// Ends when the leadership with this token has been dropped.
    pub(super) async fn given_back(&self, token: Token) {
        let mut tenure = self.tenure.subscribe();
        let other = |tenure: &Tenure| tenure.over || tenure.lease.token() != token;
        let _ = tenure.wait_for(|tenure| tenure.as_ref().is_none_or(other)).await;
    }

    pub(super) async fn campaign(self: Arc<Self>) -> Leadership {
        let campaigning = Campaigning::begin(&self);
        let mut tenure = self.tenure.subscribe();
        loop {
            let mut taken = None;
            self.change(|tenure| {
                tenure.taken = true;
                taken = Some(tenure.lease.clone());
            });
            if let Some(lease) = taken {
                return Leadership { lease, office: self, _campaigning: campaigning };
            }
            if tenure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn count(&self, change: impl FnOnce(usize) -> usize) {
        self.campaigners.send_modify(|count| {
            *count = change(*count);
            self.ready.send_replace(*count > 0);
        });
    }
}

/// While one of these is there, the candidate can be elected.
#[derive(Debug)]
pub(super) struct Campaigning(Arc<Office>);

impl Campaigning {
    pub(super) fn begin(office: &Arc<Office>) -> Self {
        office.count(|count| count + 1);
        Self(Arc::clone(office))
    }
}

impl Drop for Campaigning {
    fn drop(&mut self) {
        self.0.count(|count| count - 1);
    }
}
