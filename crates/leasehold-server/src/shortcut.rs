//! The way of the requests that come most often: leases that are acquired, renewed and released go to their handlers past the
//! router.
//!
//! Invariant: what is answered is what the router would have its handlers answer. It is the same handlers, behind the same gate, and
//! whatever is not plainly one of these requests is left to the router, on whose way a request and its answer are boxed and moved a
//! dozen times.

use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::{Method, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tower::Service;

use crate::access::Identity;
use crate::app::App;
use crate::cameras::CAMERAS;
use crate::problem::{Answer, Problem};
use crate::request::{self, Json, Raw};
use crate::rest::forms::HolderQuery;
use crate::rest::leases::{self, Head};
use crate::rest::{AtResource, Query};
use crate::routes::RESERVED;

const PREFIX: &str = "/api/v1/";
const LEASE: &str = "/api/v1/{pool}/{resource}/lease";
const RENEW: &str = "/api/v1/{pool}/{resource}/lease/renew";

/// Which handler a request goes to, and where in its path the names are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shortcut {
    to: Handler,
    pool: Range<usize>,
    resource: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handler {
    Acquire,
    Renew,
    Release,
}

impl Handler {
    fn route(self) -> &'static str {
        match self {
            Self::Acquire | Self::Release => LEASE,
            Self::Renew => RENEW,
        }
    }
}

impl Shortcut {
    fn of(method: &Method, path: &str) -> Option<Self> {
        let (pool, rest) = path.strip_prefix(PREFIX)?.split_once('/')?;
        let (resource, rest) = rest.split_once('/')?;
        let to = match (method, rest) {
            (&Method::POST, "lease") => Handler::Acquire,
            (&Method::DELETE, "lease") => Handler::Release,
            (&Method::POST, "lease/renew") => Handler::Renew,
            _ => return None,
        };
        // What is escaped, empty, or a word that other routes begin with takes the long way.
        let is_name = |name: &str| !name.is_empty() && !name.contains('%');
        if !is_name(pool) || !is_name(resource) || RESERVED.contains(&pool) || pool == CAMERAS {
            return None;
        }
        let pool = PREFIX.len()..PREFIX.len() + pool.len();
        let resource = pool.end + 1..pool.end + 1 + resource.len();
        Some(Self { to, pool, resource })
    }

    /// Has the request answered by its handler, in the order in which the router's extractors look at it.
    async fn handle<B>(self, app: App, request: Request<B>, identity: Option<Identity>) -> Answer<Response>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let identity = identity.ok_or_else(Problem::nobody)?;
        let path = request.uri().path();
        let at = AtResource::of(identity, &path[self.pool], &path[self.resource])?;
        let query = match self.to {
            Handler::Acquire => Query(HolderQuery::default()),
            Handler::Renew | Handler::Release => Query::of(request.uri())?,
        };
        let head = Head::of(request.headers());
        let limits = app.limits();
        let body = request::read(request, limits.body, limits.upload).await?;
        match self.to {
            Handler::Acquire => leases::acquire(State(app), at, head, Json(request::parse(&body)?)).await,
            Handler::Renew => {
                leases::renew(State(app), at, query, head, Raw(body)).await.map(IntoResponse::into_response)
            }
            Handler::Release => leases::release(State(app), at, query, head, Raw(body)).await,
        }
    }
}

/// Everything that is served: the shortcut, and the router for the rest.
#[derive(Debug, Clone)]
pub(crate) struct Served<R> {
    app: App,
    router: R,
}

impl<R> Served<R> {
    pub(crate) fn new(app: App, router: R) -> Self {
        Self { app, router }
    }
}

impl<R, B> Service<Request<B>> for Served<R>
where
    R: Service<Request<Body>, Response = Response, Error = Infallible>,
    R::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.router.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Some(shortcut) = Shortcut::of(request.method(), request.uri().path()) else {
            return Box::pin(self.router.call(request.map(Body::new)));
        };
        let app = self.app.clone();
        Box::pin(async move {
            let route = shortcut.to.route();
            let handle = async |request, identity| {
                shortcut.handle(app.clone(), request, identity).await.into_response()
            };
            Ok(request::answer_at(&app, Some(route), request, handle).await)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_requests_about_leases_take_it() {
        let taken = |method: Method, path: &str| {
            let shortcut = Shortcut::of(&method, path)?;
            Some((shortcut.to, path[shortcut.pool].to_owned(), path[shortcut.resource].to_owned()))
        };
        let at = |to, pool: &str, resource: &str| Some((to, pool.to_owned(), resource.to_owned()));
        let acquire = taken(Method::POST, "/api/v1/scenes/a:b/lease");
        assert_eq!(acquire, at(Handler::Acquire, "scenes", "a:b"));
        let release = taken(Method::DELETE, "/api/v1/jobs/1/lease");
        assert_eq!(release, at(Handler::Release, "jobs", "1"));
        let renew = taken(Method::POST, "/api/v1/scenes/s/lease/renew");
        assert_eq!(renew, at(Handler::Renew, "scenes", "s"));
    }

    #[test]
    fn everything_else_is_left_to_the_router() {
        for (method, path) in [
            (Method::GET, "/api/v1/scenes/a/lease"),
            (Method::PUT, "/api/v1/scenes/a/lease"),
            (Method::DELETE, "/api/v1/scenes/a/lease/renew"),
            (Method::POST, "/api/v1/scenes/a/lease/"),
            (Method::POST, "/api/v1/scenes/a/lease/renew/"),
            (Method::POST, "/api/v1/scenes/a/b/lease"),
            (Method::POST, "/api/v1/scenes/a%2Fb/lease"),
            (Method::POST, "/api/v1/sc%65nes/a/lease"),
            (Method::POST, "/api/v1/scenes//lease"),
            (Method::POST, "/api/v1//a/lease"),
            (Method::POST, "/api/v1/leases/a/lease"),
            (Method::POST, "/api/v1/cameras/a/lease"),
            (Method::POST, "/api/v2/scenes/a/lease"),
            (Method::POST, "/api/v1/scenes/a"),
        ] {
            assert_eq!(Shortcut::of(&method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn it_leads_to_routes_that_are_described() {
        let paths = &crate::openapi().paths.paths;
        for to in [Handler::Acquire, Handler::Renew, Handler::Release] {
            assert!(paths.contains_key(to.route()), "{to:?}");
        }
    }
}
