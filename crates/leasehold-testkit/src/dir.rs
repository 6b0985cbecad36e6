//! A directory of a server's own.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User, chown};
use tempfile::TempDir;

/// Whom servers that refuse to be root run as where we are root, the first that there is.
const SERVANTS: [&str; 2] = ["postgres", "nobody"];

thread_local! {
    static PLACE: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// From now on this thread's new directories are made there, or where they usually are.
pub(crate) fn make_new_ones_in(place: Option<&Path>) {
    PLACE.set(place.map(Path::to_owned));
}

/// A directory that is removed with this value, with everything in it.
#[derive(Debug)]
pub struct Dir {
    directory: TempDir,
    owner: Option<(Uid, Gid)>,
}

impl Dir {
    /// A directory that anybody may pass through, as a server that is not root must.
    ///
    /// # Panics
    /// There is no place for it.
    #[must_use]
    pub fn new() -> Self {
        Self::within(&PLACE.with_borrow(Clone::clone).unwrap_or_else(std::env::temp_dir))
    }

    /// One for every thread, wherever this one makes its own.
    pub(crate) fn for_all() -> Self {
        Self::within(&std::env::temp_dir())
    }

    fn within(place: &Path) -> Self {
        use std::os::unix::fs::PermissionsExt;

        let directory =
            tempfile::Builder::new().prefix("lh-").tempdir_in(place).expect("a temporary directory");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), mode).expect("our own directory");
        Self { directory, owner: servant() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A path in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A new directory in it that belongs to whom [`Dir::owner`] names.
    ///
    /// # Panics
    /// It cannot be made.
    #[must_use]
    pub fn sub(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(&path).expect("a directory in our own");
        self.give(&path);
        path
    }

    /// Gives a file to whom [`Dir::owner`] names.
    ///
    /// # Panics
    /// It cannot be given.
    pub fn give(&self, path: &Path) {
        if let Some((user, group)) = self.owner {
            chown(path, Some(user), Some(group)).expect("our own file");
        }
    }

    /// Whom a server that refuses to be root runs as; nobody else where we are not root.
    #[must_use]
    pub fn owner(&self) -> Option<(u32, u32)> {
        self.owner.map(|(user, group)| (user.as_raw(), group.as_raw()))
    }
}

impl Default for Dir {
    fn default() -> Self {
        Self::new()
    }
}

fn servant() -> Option<(Uid, Gid)> {
    if !Uid::effective().is_root() {
        return None;
    }
    let user = SERVANTS.iter().find_map(|name| User::from_name(name).ok().flatten())?;
    Some((user.uid, user.gid))
}
