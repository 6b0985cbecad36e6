//! Whose cameras: from the tenant that a request names to the pools of the store.
//!
//! A tenant arises with its first camera, so there is none that does not exist; one that is not the caller's is unknown to it,
//! whether anybody else knows it or not.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use leasehold::{MemberName, Pool};

use crate::access::Identity;
use crate::app::App;
use crate::holders::Desk;
use crate::keys::check_tenant;
use crate::problem::{Answer, Problem};

/// The pool of a tenant's cameras, as the tenant calls it.
pub(crate) const CAMERAS: &str = "cameras";
/// What pools of runners, and of cameras that change hands, are called before the tenant. No key opens such a pool.
pub(super) const RUNNERS: &str = "_runners.";
const PENDING: &str = "_pending.";

/// A tenant that is open to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tenant {
    pub(super) id: String,
    /// The pool of its cameras and their leases.
    pub(super) cameras: Pool,
    /// The pool whose members are its runners.
    pub(super) runners: Pool,
    /// The pool in which cameras are held for those who are to have them next.
    pub(super) pending: Pool,
}

impl Tenant {
    /// The tenant of that id, if it is the caller's.
    pub(super) fn named(identity: &Identity, id: &str) -> Answer<Self> {
        check_tenant(id).map_err(|error| Problem::invalid(error.to_string()))?;
        let pool = match identity.tenant() {
            Some(own) if own != id => return Err(unknown(id)),
            Some(_) => identity.pool(CAMERAS),
            None => identity.pool(&format!("{id}.{CAMERAS}")),
        };
        let own = |prefix: &str| Pool::new(format!("{prefix}{id}")).map_err(|_| unknown(id));
        Ok(Self {
            id: id.to_owned(),
            cameras: pool.map_err(|_| unknown(id))?,
            runners: own(RUNNERS)?,
            pending: own(PENDING)?,
        })
    }

    /// The tenant that a request names, or the one of its key.
    pub(super) fn meant(identity: &Identity, id: Option<&str>) -> Answer<Self> {
        match id.or(identity.tenant()) {
            Some(id) => Self::named(identity, id),
            None => Err(Problem::invalid("tenant_id is missing: your key is for no tenant in particular")),
        }
    }

    /// Every tenant of the caller that this replica has heard of.
    pub(super) fn heard(app: &App, identity: &Identity) -> Vec<Self> {
        let desks = app.holders().desks();
        let ids: BTreeSet<&str> = desks.iter().filter_map(|desk| id_of(desk.pool())).collect();
        ids.into_iter().filter_map(|id| Self::named(identity, id).ok()).collect()
    }

    /// Those that a request can mean: the one that it names, or every one of the caller, those included that others made a
    /// moment ago.
    pub(super) async fn candidates(app: &App, identity: &Identity, named: Option<&str>) -> Answer<Vec<Self>> {
        app.holders().find().await?;
        match named {
            Some(id) => Ok(vec![Self::named(identity, id)?]),
            None => Ok(Self::heard(app, identity)),
        }
    }

    /// The desk of its cameras, made if there is none.
    pub(super) fn desk(&self, app: &App) -> Answer<Arc<Desk>> {
        app.desk(&self.cameras)
    }
}

/// What was found among the caller's tenants, if only one of them has such a thing.
pub(super) fn the_one<T>(mut found: Vec<T>, what: std::fmt::Arguments<'_>) -> Answer<Option<T>> {
    if found.len() > 1 {
        let said = format!("several tenants have {what}; say which in tenant_id");
        return Err(Problem::new(StatusCode::CONFLICT, "ambiguous", said));
    }
    Ok(found.pop())
}

/// The id of the tenant whose cameras or runners a pool has.
pub(super) fn id_of(pool: &Pool) -> Option<&str> {
    let cameras = pool.as_str().strip_suffix(CAMERAS).and_then(|id| id.strip_suffix('.'));
    let id = cameras.or_else(|| pool.as_str().strip_prefix(RUNNERS))?;
    (!id.is_empty() && !id.contains('.') && !id.starts_with('_')).then_some(id)
}

/// Whether a pool of the store has some tenant's cameras.
pub(crate) fn is_of_cameras(pool: &Pool) -> bool {
    pool.as_str().ends_with(CAMERAS) && id_of(pool).is_some()
}

/// The pool of the runners that work on the cameras of this one.
pub(super) fn runners_of(cameras: &Pool) -> Option<Pool> {
    id_of(cameras).and_then(|id| Pool::new(format!("{RUNNERS}{id}")).ok())
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
