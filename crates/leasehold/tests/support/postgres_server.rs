//! Databases of one server, as somebody else would handle them: copy one, put an older copy in its place, reach into it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use leasehold::store::{Begin, Store, StoreUrl};
use leasehold_testkit::Postgres;

/// The one server of a file of tests. It ends with the process that started it.
fn server() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(Postgres::start)
}

/// A database of its own, removed with this value.
pub(crate) struct Database {
    name: String,
}

#[allow(dead_code, reason = "each file of tests uses its own part")]
impl Database {
    /// An empty store whose first era is live.
    pub(crate) async fn fresh() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("work{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let created = name.clone();
        blocking(move || server().create(&created)).await;
        let database = Self { name };
        leasehold::store::migrate(&database.url(), Begin::Live).await.expect("the database can be prepared");
        database
    }

    pub(crate) fn url(&self) -> StoreUrl {
        server().url(&self.name).parse().expect("a good URL")
    }

    /// Takes a whole copy of what is committed.
    pub(crate) async fn copy(&self) {
        let name = self.name.clone();
        blocking(move || server().copy_database(&name, &format!("{name}_copy"))).await;
    }

    /// Puts the copy in the database's place, as an operator who restores a backup does.
    pub(crate) async fn put_copy_back(&self) {
        let name = self.name.clone();
        blocking(move || server().copy_database(&format!("{name}_copy"), &name)).await;
    }

    /// Runs a statement on the database and answers its one row.
    pub(crate) async fn query(&self, statement: &str) -> String {
        let (name, statement) = (self.name.clone(), statement.to_owned());
        let query = move || server().sql(&name, &statement).trim().to_owned();
        tokio::task::spawn_blocking(query).await.expect("the server does as it is told")
    }

    /// Runs a statement on the database.
    pub(crate) fn execute(&self, statement: String) -> impl Future<Output = ()> + Send + 'static {
        let name = self.name.clone();
        blocking(move || drop(server().sql(&name, &statement)))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        for name in [&self.name, &format!("{}_copy", self.name)] {
            let _ = server().try_sql("postgres", &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        }
    }
}

/// Runs what waits for a process on a thread of its own, so that connections are looked after meanwhile.
async fn blocking(work: impl FnOnce() + Send + 'static) {
    tokio::task::spawn_blocking(work).await.expect("the server does as it is told");
}

/// Opens a store that must not be refused.
pub(crate) async fn open(url: &StoreUrl) -> Arc<dyn Store> {
    leasehold::store::open(url).await.expect("the store can be opened")
}
