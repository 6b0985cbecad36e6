//! Who asks.
//!
//! A tenant's pool `scenes` is the store's pool `acme.scenes`: the prefix is added here on the way in and taken off here on
//! the way out. What is not the caller's has no name for it, so it cannot be asked for.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use leasehold::Pool;

use crate::keys::{Record, Role};
use crate::problem::{Answer, Problem};
use crate::routes::RESERVED;

/// Who asks. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Identity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    role: Role,
    key: Option<String>,
    pools: Option<BTreeSet<String>>,
    tenant: Option<String>,
    /// What people call the key.
    name: Option<String>,
    /// The log-in that came in the key's place: its id, and what else our own page sends.
    session: Option<(String, String)>,
}

impl Identity {
    /// Somebody on this machine, where no key was ever made.
    pub(crate) fn open() -> Self {
        static OPEN: LazyLock<Identity> = LazyLock::new(|| {
            let (key, pools, tenant, name, session) = Default::default();
            Identity(Arc::new(Inner { role: Role::Admin, key, pools, tenant, name, session }))
        });
        OPEN.clone()
    }

    /// Whoever has this key.
    pub(crate) fn of(id: &str, record: &Record) -> Self {
        Self(Arc::new(Inner {
            role: record.role,
            key: Some(id.to_owned()),
            pools: record.pools.clone(),
            tenant: record.tenant.clone(),
            name: Some(record.name.clone()).filter(|name| !name.is_empty()),
            session: None,
        }))
    }

    /// The same, logged in.
    pub(crate) fn in_session(&self, id: &str, csrf: String) -> Self {
        let Inner { role, key, pools, tenant, name, .. } = &*self.0;
        Self(Arc::new(Inner {
            role: *role,
            key: key.clone(),
            pools: pools.clone(),
            tenant: tenant.clone(),
            name: name.clone(),
            session: Some((id.to_owned(), csrf)),
        }))
    }

    /// What one may do.
    pub(crate) fn role(&self) -> Role {
        self.0.role
    }

    /// What people call the key.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Of whoever logged in: the id of the log-in, and what a request that changes something must carry.
    pub(crate) fn session(&self) -> Option<(&str, &str)> {
        self.0.session.as_ref().map(|(id, csrf)| (id.as_str(), csrf.as_str()))
    }

    /// Who it is, in words for the ledger.
    pub(crate) fn who(&self) -> String {
        match (self.key(), self.name()) {
            (None, _) => "somebody on the control plane's machine".to_owned(),
            (Some(key), None) => format!("key {key}"),
            (Some(key), Some(name)) => format!("{name} (key {key})"),
        }
    }

    /// The id of the API key; `None` where none is asked for.
    pub(crate) fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Whose pools.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.0.tenant.as_deref()
    }

    /// In which pools, by the tenant's names; `None` for all.
    pub(crate) fn pools(&self) -> Option<&BTreeSet<String>> {
        self.0.pools.as_ref()
    }

    /// Refuses who may do less.
    pub(crate) fn needs(&self, role: Role) -> Answer<()> {
        if self.0.role >= role {
            return Ok(());
        }
        let said = format!("this needs a key with the role {role}; yours has the role {}", self.0.role);
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", said))
    }

    /// Refuses whom only a part of the store is open to, where the whole is concerned.
    pub(crate) fn whole_store(&self) -> Answer<()> {
        if self.0.tenant.is_none() && self.0.pools.is_none() {
            return Ok(());
        }
        let said = "this concerns the whole store: it needs a key without a tenant and for all pools";
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", said))
    }

    fn covers(&self, name: &str) -> bool {
        self.0.pools.as_ref().is_none_or(|pools| pools.contains(name))
    }

    /// What the caller knows a pool of the store as; `None` if it may not know of it.
    pub(crate) fn name_of(&self, pool: &Pool) -> Option<String> {
        let name = match &self.0.tenant {
            None => pool.as_str(),
            Some(tenant) => pool.as_str().strip_prefix(tenant.as_str())?.strip_prefix('.')?,
        };
        (!name.is_empty() && !name.starts_with('_') && self.covers(name)).then(|| name.to_owned())
    }

    /// The pool of that name, as the store knows it. Whether there is one makes no difference to the answer.
    pub(crate) fn pool(&self, name: &str) -> Answer<Pool> {
        // What is written in a path must not mean the path.
        if RESERVED.contains(&name) || name.starts_with('_') || [".", ".."].contains(&name) {
            return Err(Problem::invalid(format!("{name:?} cannot be the name of a pool; it is reserved")));
        }
        let invalid = |error: leasehold::lease::IdError| Problem::invalid(error.to_string());
        Pool::new(name).map_err(invalid)?;
        if !self.covers(name) {
            let said = format!("your key is not for the pool {name}");
            return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", said));
        }
        match &self.0.tenant {
            None => Pool::new(name).map_err(invalid),
            Some(tenant) => Pool::new(format!("{tenant}.{name}")).map_err(invalid),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Identity {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        parts.extensions.get().cloned().ok_or_else(Problem::nobody)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(tenant: Option<&str>, pools: Option<&[&str]>) -> Identity {
        let pools = pools.map(|pools| pools.iter().map(|&pool| pool.to_owned()).collect());
        let tenant = tenant.map(str::to_owned);
        let (role, key) = (Role::Member, Some("k".to_owned()));
        Identity(Arc::new(Inner { role, key, pools, tenant, name: None, session: None }))
    }

    fn pool(name: &str) -> Pool {
        Pool::new(name).unwrap()
    }

    #[test]
    fn a_tenant_sees_its_own_pools_under_its_own_names() {
        let acme = identity(Some("acme"), None);
        assert_eq!(acme.pool("scenes").unwrap(), pool("acme.scenes"));
        assert_eq!(acme.name_of(&pool("acme.scenes")).as_deref(), Some("scenes"));
        for foreign in ["scenes", "acme", "acme.", "acmes.scenes", "other.scenes", "_leasehold", "acme._x"] {
            assert_eq!(acme.name_of(&pool(foreign)), None, "{foreign}");
        }
        // Whatever it asks for stays below its own prefix.
        assert_eq!(acme.pool("other.scenes").unwrap(), pool("acme.other.scenes"));
        assert!(acme.pool("_leasehold").is_err());
        assert!(acme.whole_store().is_err());
    }

    #[test]
    fn a_key_for_some_pools_is_for_no_other() {
        let some = identity(None, Some(&["scenes"]));
        assert_eq!(some.pool("scenes").unwrap(), pool("scenes"));
        assert!(some.pool("cameras").is_err());
        assert_eq!(some.name_of(&pool("cameras")), None);
        assert!(some.whole_store().is_err());
        let both = identity(Some("acme"), Some(&["scenes"]));
        assert_eq!(both.pool("scenes").unwrap(), pool("acme.scenes"));
        assert_eq!(both.name_of(&pool("acme.cameras")), None);
        assert!(identity(None, None).whole_store().is_ok());
    }

    #[test]
    fn roles_include_those_before_them() {
        let member = identity(None, None);
        assert!(member.needs(Role::Read).is_ok() && member.needs(Role::Member).is_ok());
        assert!(member.needs(Role::Operator).is_err() && member.needs(Role::Admin).is_err());
    }
}
