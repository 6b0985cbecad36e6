//! A directory that only this user can enter, for sockets and for what children read.

use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tempfile::TempDir;

/// The longest path of a socket that every system takes.
const PATH_MAX: usize = 100;

/// A new directory, which goes when it is dropped. Names in it have at most six letters.
pub(crate) fn private_directory() -> io::Result<TempDir> {
    let usual = std::env::temp_dir();
    let name_length = "/leasehold-XXXXXX/socket".len();
    let fits = usual.as_os_str().as_bytes().len() + name_length <= PATH_MAX;
    let parent = if fits { usual } else { PathBuf::from("/tmp") };
    tempfile::Builder::new()
        .prefix("leasehold-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)
}
