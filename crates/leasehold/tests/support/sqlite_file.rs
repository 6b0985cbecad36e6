//! A store's file as somebody else would handle it: copy it, put an older copy in its place, reach into it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold::store::Store;
use leasehold::store::sqlite::SqliteStore;
use rusqlite::Connection;
use tempfile::TempDir;

/// A path for a store in a directory of its own.
pub(crate) struct File {
    directory: TempDir,
}

impl File {
    pub(crate) fn new() -> Self {
        Self { directory: TempDir::new().expect("a temporary directory") }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("work.db")
    }

    pub(crate) fn copy_path(&self) -> PathBuf {
        self.directory.path().join("older-copy")
    }

    /// Takes a whole copy of what is committed.
    pub(crate) fn copy(&self) {
        let _ = std::fs::remove_file(self.copy_path());
        let copy = self.copy_path();
        self.execute("VACUUM INTO ?1", [copy.to_str().expect("a readable path")]);
    }

    /// Puts the copy in the file's place, as an operator who restores a backup does.
    pub(crate) fn put_copy_back(&self) {
        let new = self.directory.path().join("new");
        std::fs::copy(self.copy_path(), &new).expect("a copy was taken");
        std::fs::rename(new, self.path()).expect("the copy can be moved");
    }

    /// Runs one statement on the file.
    pub(crate) fn execute(&self, sql: &str, params: impl rusqlite::Params) {
        let connection = Connection::open(self.path()).expect("the file can be opened");
        connection.execute(sql, params).expect("the statement is good");
    }
}

/// Opens a store that must not be refused.
pub(crate) async fn open(path: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path).await.expect("the store can be opened"))
}
