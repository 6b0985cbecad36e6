//! A disk of one's own, small enough to be filled.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

const NOTHING: Option<&str> = None;

/// A small disk. What this thread starts while it is there keeps its files on it; nobody else can see it.
#[derive(Debug)]
pub struct SmallDisk {
    directory: TempDir,
}

impl SmallDisk {
    /// Mounts one for this thread. Nothing where that takes rights that we do not have.
    ///
    /// # Panics
    /// There is no place for its directory.
    #[must_use]
    pub fn here(megabytes: u32) -> Option<Self> {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::Builder::new().prefix("lh-disk-").tempdir().expect("a temporary directory");
        unshare(CloneFlags::CLONE_NEWNS).ok()?;
        mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING).ok()?;
        let size = format!("size={megabytes}m,mode=755");
        mount(Some("none"), directory.path(), Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).ok()?;
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).expect("our own directory");
        crate::dir::make_new_ones_in(Some(directory.path()));
        Some(Self { directory })
    }

    /// Fills it to the last byte.
    ///
    /// # Panics
    /// It is gone.
    pub fn fill(&self) {
        let mut filler = File::create(self.filler()).expect("a file on our own disk");
        // Smaller and smaller pieces, so that not even one byte is left.
        for size in [1 << 20, 1 << 12, 1] {
            while filler.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// Makes room again.
    ///
    /// # Panics
    /// It was not filled.
    pub fn free(&self) {
        std::fs::remove_file(self.filler()).expect("it was filled");
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        crate::dir::make_new_ones_in(None);
        let _ = umount2(self.path(), MntFlags::MNT_DETACH);
    }
}
