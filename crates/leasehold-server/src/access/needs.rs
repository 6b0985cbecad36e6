//! Which role each route needs, in one table. What is not in it is for admins only; a test compares it with the routes.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::Method;

use super::Identity;
use crate::keys::Role;
use crate::problem::Answer;

/// What a route asks of whoever comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: it says nothing about anybody's work.
    Nothing,
    /// A key with at least this role.
    Key(Role),
    /// The same, for the whole store.
    Whole(Role),
}

const LOOK: Need = Need::Key(Role::Read);
const HOLD: Need = Need::Key(Role::Member);
const RUN: Need = Need::Key(Role::Operator);
const OWN: Need = Need::Key(Role::Admin);

/// The table: method, route, need.
const TABLE: &[(&str, &str, Need)] = &[
    ("GET", "/healthz", Need::Nothing),
    ("GET", "/readyz", Need::Nothing),
    ("GET", "/api/v1/health", Need::Nothing),
    ("GET", "/", Need::Nothing),
    ("GET", "/page/{file}", Need::Nothing),
    // It looks at the key itself.
    ("POST", "/api/v1/auth", Need::Nothing),
    // They look at the log-in themselves.
    ("GET", "/api/v1/auth/session", Need::Nothing),
    ("POST", "/api/v1/auth/session", Need::Nothing),
    ("DELETE", "/api/v1/auth/session", LOOK),
    ("GET", "/metrics", Need::Whole(Role::Read)),
    ("GET", "/openapi.json", LOOK),
    ("GET", "/docs", LOOK),
    ("GET", "/api/v1/keys", OWN),
    ("POST", "/api/v1/keys", OWN),
    ("GET", "/api/v1/keys/{id}", OWN),
    ("DELETE", "/api/v1/keys/{id}", OWN),
    ("POST", "/api/v1/keys/{id}/rotate", OWN),
    ("GET", "/api/v1/events", LOOK),
    ("GET", "/api/v1/tokens", LOOK),
    ("GET", "/api/v1/pools", LOOK),
    ("GET", "/api/v1/pools/{pool}", LOOK),
    ("PUT", "/api/v1/pools/{pool}", RUN),
    ("GET", "/api/v1/pools/{pool}/watch", LOOK),
    ("POST", "/api/v1/pools/{pool}/plan", LOOK),
    ("POST", "/api/v1/pools/{pool}/act", RUN),
    ("GET", "/api/v1/health/pools", LOOK),
    ("GET", "/api/v1/{pool}", LOOK),
    ("POST", "/api/v1/{pool}", RUN),
    ("GET", "/api/v1/{pool}/{resource}", LOOK),
    ("PUT", "/api/v1/{pool}/{resource}", RUN),
    ("PATCH", "/api/v1/{pool}/{resource}", RUN),
    ("DELETE", "/api/v1/{pool}/{resource}", RUN),
    ("GET", "/api/v1/{pool}/{resource}/lease", LOOK),
    ("POST", "/api/v1/{pool}/{resource}/lease", HOLD),
    ("DELETE", "/api/v1/{pool}/{resource}/lease", HOLD),
    ("POST", "/api/v1/{pool}/{resource}/lease/renew", HOLD),
    ("GET", "/api/v1/tenants/{tenant_id}/sites/{site_id}/cameras", LOOK),
    ("POST", "/api/v1/tenants/{tenant_id}/sites/{site_id}/cameras", RUN),
    ("GET", "/api/v1/tenants/{tenant_id}/sites/{site_id}/cameras/{camera_uuid}", LOOK),
    ("PUT", "/api/v1/tenants/{tenant_id}/sites/{site_id}/cameras/{camera_uuid}", RUN),
    ("DELETE", "/api/v1/tenants/{tenant_id}/sites/{site_id}/cameras/{camera_uuid}", RUN),
    ("GET", "/api/v1/tenants/{tenant_id}/sites/{site_id}/zones", LOOK),
    ("POST", "/api/v1/tenants/{tenant_id}/sites/{site_id}/zones", RUN),
    ("PUT", "/api/v1/tenants/{tenant_id}/sites/{site_id}/zones/{zone_id}", RUN),
    ("DELETE", "/api/v1/tenants/{tenant_id}/sites/{site_id}/zones/{zone_id}", RUN),
    ("GET", "/api/v1/tenants/{tenant_id}/sites/{site_id}/config/version", LOOK),
    ("GET", "/api/v1/cameras/{camera_uuid}", LOOK),
    ("GET", "/api/v1/cameras/available", LOOK),
    ("POST", "/api/v1/leases/acquire", HOLD),
    ("GET", "/api/v1/leases/events", LOOK),
    ("GET", "/api/v1/leases/audit", LOOK),
    ("GET", "/api/v1/leases/runner/{runner_id}", LOOK),
    ("GET", "/api/v1/leases/camera/{camera_uuid}", LOOK),
    ("GET", "/api/v1/leases/{lease_id}", LOOK),
    ("GET", "/api/v1/leases/{lease_id}/validate", LOOK),
    ("PUT", "/api/v1/leases/{lease_id}/renew", HOLD),
    ("DELETE", "/api/v1/leases/{lease_id}/release", HOLD),
    ("POST", "/api/v1/leases/{lease_id}/heartbeat", HOLD),
    ("POST", "/api/v1/leases/{lease_id}/revoke", RUN),
    ("POST", "/api/v1/runners/register", HOLD),
    ("GET", "/api/v1/runners", LOOK),
    ("GET", "/api/v1/runners/{runner_id}", LOOK),
    ("DELETE", "/api/v1/runners/{runner_id}", HOLD),
    ("PUT", "/api/v1/runners/{runner_id}/heartbeat", HOLD),
    // Other resources of that pool.
    ("PUT", "/api/v1/cameras/{camera_uuid}", RUN),
    ("PATCH", "/api/v1/cameras/{camera_uuid}", RUN),
    ("DELETE", "/api/v1/cameras/{camera_uuid}", RUN),
    ("GET", "/api/v1/store", LOOK),
    ("GET", "/api/v1/store/changes", LOOK),
    ("POST", "/api/v1/store/sessions", LOOK),
    ("POST", "/api/v1/store/leases", LOOK),
    ("POST", "/api/v1/store/pools", LOOK),
    ("POST", "/api/v1/store/marks", LOOK),
    ("POST", "/api/v1/store/resources", LOOK),
    ("POST", "/api/v1/store/listing", LOOK),
    ("POST", "/api/v1/store/ledger", LOOK),
    ("POST", "/api/v1/store/checkup", Need::Whole(Role::Read)),
    ("POST", "/api/v1/store/open", HOLD),
    ("POST", "/api/v1/store/beat", HOLD),
    ("POST", "/api/v1/store/describe", HOLD),
    ("POST", "/api/v1/store/close", HOLD),
    ("POST", "/api/v1/store/end_silent", HOLD),
    ("POST", "/api/v1/store/acquire", HOLD),
    ("POST", "/api/v1/store/claim", HOLD),
    ("POST", "/api/v1/store/release", HOLD),
    ("POST", "/api/v1/store/free_orphan", HOLD),
    ("POST", "/api/v1/store/reassert", HOLD),
    ("POST", "/api/v1/store/thaw", HOLD),
    ("POST", "/api/v1/store/collect", HOLD),
    ("POST", "/api/v1/store/publish", HOLD),
    ("POST", "/api/v1/store/collect_listings", HOLD),
    ("POST", "/api/v1/store/append", HOLD),
    ("POST", "/api/v1/store/revoke", RUN),
    ("POST", "/api/v1/store/free_revoked", HOLD),
    // All kinds but one need an operator, which it looks at itself.
    ("POST", "/api/v1/store/set_mark", HOLD),
    ("POST", "/api/v1/store/declare", RUN),
];

/// The same by route: every request is looked up.
static BY_ROUTE: LazyLock<HashMap<&str, Vec<(&str, Need)>>> = LazyLock::new(|| {
    let mut routes: HashMap<&str, Vec<(&str, Need)>> = HashMap::new();
    for (method, route, need) in TABLE {
        routes.entry(route).or_default().push((method, *need));
    }
    routes
});

impl Need {
    /// What a request asks for, by its method and the route that it matched.
    pub(super) fn of(method: &Method, route: Option<&str>) -> Self {
        // There is nothing at all: enough to be anybody.
        let Some(route) = route else { return LOOK };
        let Some(here) = BY_ROUTE.get(route) else { return OWN };
        let method = if method == Method::HEAD { "GET" } else { method.as_str() };
        let found = here.iter().find(|(of, _)| *of == method);
        // A route that is there, but not for this method, says that and no more.
        found.map_or(LOOK, |(_, need)| *need)
    }

    pub(super) fn check(self, identity: &Identity) -> Answer<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Key(role) => identity.needs(role),
            Self::Whole(role) => identity.needs(role).and_then(|()| identity.whole_store()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_says_what_it_needs() {
        for (path, item) in &crate::openapi().paths.paths {
            let operations = [
                ("GET", &item.get),
                ("POST", &item.post),
                ("PUT", &item.put),
                ("PATCH", &item.patch),
                ("DELETE", &item.delete),
            ];
            for (method, _) in operations.iter().filter(|(_, operation)| operation.is_some()) {
                let found = TABLE.iter().filter(|(of, route, _)| of == method && route == path).count();
                assert_eq!(found, 1, "{method} {path} is in the table {found} times");
            }
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_for_admins() {
        assert_eq!(Need::of(&Method::GET, Some("/api/v1/new")), OWN);
        assert_eq!(Need::of(&Method::HEAD, Some("/api/v1/{pool}")), LOOK);
        assert_eq!(Need::of(&Method::TRACE, Some("/healthz")), LOOK);
        assert_eq!(Need::of(&Method::GET, None), LOOK);
    }
}
