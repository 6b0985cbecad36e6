//! Whose cameras: from the tenant that a request names to the pools of the store.
//!
//! A tenant arises with its first camera, so there is none that does not exist; one that is not the caller's is unknown to it,
//! whether anybody else knows it or not.

use std::sync::Arc;

use axum::http::StatusCode;
use leasehold::{MemberName, Pool};

use crate::access::Identity;
use crate::app::App;
use crate::holders::Desk;
use crate::problem::{Answer, Problem};

/// The pool of a tenant's cameras, as the tenant calls it.
pub(crate) const CAMERAS: &str = "cameras";

/// A tenant that is open to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tenant {
    pub(super) id: String,
    pub(super) cameras: Pool,
}

impl Tenant {
    /// The tenant of that id, if it is the caller's.
    pub(super) fn named(identity: &Identity, id: &str) -> Answer<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if id.is_empty() || id.len() > 64 || id.starts_with('_') || !id.bytes().all(plain) {
            let said = "tenant_id is up to 64 of the characters A-Z a-z 0-9 - _, not beginning with _";
            return Err(Problem::invalid(said));
        }
        let pool = match identity.tenant() {
            Some(own) if own != id => return Err(unknown(id)),
            Some(_) => identity.pool(CAMERAS),
            None => identity.pool(&format!("{id}.{CAMERAS}")),
        };
        let cameras = pool.map_err(|_| unknown(id))?;
        Ok(Self { id: id.to_owned(), cameras })
    }

    /// The tenant whose cameras a pool has, if it is the caller's.
    fn of(identity: &Identity, pool: &Pool) -> Option<Self> {
        let id = pool.as_str().strip_suffix(CAMERAS)?.strip_suffix('.')?;
        Self::named(identity, id).ok().filter(|tenant| tenant.cameras == *pool)
    }

    /// Every tenant of the caller that this replica has heard of.
    pub(super) fn heard(app: &App, identity: &Identity) -> Vec<(Self, Arc<Desk>)> {
        let desks = app.holders().desks().into_iter();
        let mut found: Vec<(Self, Arc<Desk>)> =
            desks.filter_map(|desk| Some((Self::of(identity, desk.pool())?, desk))).collect();
        found.sort_unstable_by(|(one, _), (two, _)| one.id.cmp(&two.id));
        found
    }

    /// Every tenant of the caller, those included that others made a moment ago.
    pub(super) async fn all(app: &App, identity: &Identity) -> Answer<Vec<(Self, Arc<Desk>)>> {
        app.holders().find().await?;
        Ok(Self::heard(app, identity))
    }

    /// The desk of its cameras, made if there is none.
    pub(super) fn desk(&self, app: &App) -> Answer<Arc<Desk>> {
        app.desk(&self.cameras)
    }
}

/// Whether a pool of the store has some tenant's cameras.
pub(super) fn is_of_cameras(pool: &Pool) -> bool {
    let tenant = pool.as_str().strip_suffix(CAMERAS).and_then(|id| id.strip_suffix('.'));
    tenant.is_some_and(|id| !id.is_empty() && !id.contains('.') && !id.starts_with('_'))
}

fn unknown(id: &str) -> Problem {
    let said = format!("there is no tenant {id:?} for your key");
    Problem::new(StatusCode::NOT_FOUND, "unknown_tenant", said)
}

/// A site's id, if it is one.
pub(super) fn site(id: &str) -> Answer<String> {
    MemberName::new(id)
        .map(|id| id.to_string())
        .map_err(|error| Problem::invalid(error.to_string().replacen("member name", "site_id", 1)))
}
