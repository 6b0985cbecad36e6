//! Who asks, and what they may.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use leasehold::Pool;

use crate::problem::{Answer, Problem};
use crate::routes::RESERVED;

/// Who asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    /// The id of the API key, where keys are asked for.
    key: Option<String>,
}

impl Identity {
    /// The id of the API key.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// What the caller knows a pool of the store as; `None` if it may not know of it.
    pub(crate) fn name_of(&self, pool: &Pool) -> Option<String> {
        (!pool.as_str().starts_with('_')).then(|| pool.to_string())
    }

    /// The pool of that name, as the store knows it.
    pub(crate) fn pool(&self, name: &str) -> Answer<Pool> {
        if RESERVED.contains(&name) || name.starts_with('_') {
            return Err(Problem::invalid(format!("{name:?} cannot be the name of a pool; it is reserved")));
        }
        Pool::new(name).map_err(|error| Problem::invalid(error.to_string()))
    }
}

impl<S: Sync> FromRequestParts<S> for Identity {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}
