//! Any store under the suite, but behind a server: what the suite does to the store is done behind the server's back.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use leasehold::lease::MemberId;
use leasehold::store::conformance::Harness;
use leasehold::store::http::HttpStore;
use leasehold::store::{Store, StoreUrl};
use leasehold_server::{Running, Settings};

/// A store of another kind, a server on it, and a member's way to that.
pub(crate) struct Http<H> {
    behind: H,
    server: Option<Running>,
    address: SocketAddr,
    store: Arc<dyn Store>,
    /// Servers of second handles.
    more: Mutex<Vec<Running>>,
}

async fn serve(address: SocketAddr, store: Arc<dyn Store>) -> Running {
    leasehold_server::start(Settings::at(address), store).await.expect("the server starts")
}

async fn open(address: SocketAddr) -> Arc<dyn Store> {
    let url: StoreUrl = format!("http://{address}").parse().expect("a good address");
    let StoreUrl::Http(url) = url else { panic!("{url} is not the address of a server") };
    // Without anything around it: no batch is split, no call given up early.
    Arc::new(HttpStore::open_with(&url, None).await.expect("the server answers"))
}

impl<H: Harness> Harness for Http<H> {
    async fn fresh() -> Self {
        let behind = H::fresh().await;
        let server = serve(([127, 0, 0, 1], 0).into(), behind.store()).await;
        let address = server.address();
        Self { behind, server: Some(server), address, store: open(address).await, more: Mutex::default() }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    async fn second_handle(&self) -> Arc<dyn Store> {
        let server = serve(([127, 0, 0, 1], 0).into(), self.behind.second_handle().await).await;
        let store = open(server.address()).await;
        self.more.lock().expect("nobody panics with it").push(server);
        store
    }

    /// The members' handles stay: they reach the new server where the old one was.
    async fn restart(&mut self) -> bool {
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
        let keeps = self.behind.restart().await;
        self.server = Some(serve(self.address, self.behind.store()).await);
        keeps
    }

    async fn snapshot(&mut self) {
        self.behind.snapshot().await;
    }

    async fn roll_back(&mut self) {
        self.behind.roll_back().await;
    }

    async fn lose_session(&self, session: &MemberId) {
        self.behind.lose_session(session).await;
    }
}
