//! The key that clients send.
//!
//! Invariant: only its hash is kept, so that nothing can print it, and a comparison takes the same time whatever was sent.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::failure::Failure;

/// The fewest characters of a key.
const KEY_MIN: usize = 16;
/// The most characters of a key: it has to fit into a header.
const KEY_MAX: usize = 512;
/// The most bytes of the file: a key, and the end of a line.
const FILE_MAX: u64 = KEY_MAX as u64 + 2;

#[derive(Clone)]
pub(super) struct ApiKey([u8; 32]);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey")
    }
}

impl ApiKey {
    /// Reads the key from a file that nobody else can read.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let unread = |error: io::Error| {
            Failure::usage(format!(
                "the key file {shown} cannot be read: {error}; check the path given with --health-key-file"
            ))
        };
        // Before it is opened: opening what is no file can wait for ever.
        let file = fs::metadata(path).map_err(unread)?;
        let said = if !file.is_file() {
            "is no file; give one that holds the key".to_owned()
        } else if file.len() > FILE_MAX {
            format!("has {} bytes; a key has at most {KEY_MAX} characters", file.len())
        } else if let Some(mode) = others_read(&file) {
            format!(
                "can be read by other users (mode {mode:03o}); take that away with chmod 600, and use a new key if somebody may have read it"
            )
        } else {
            match Self::new(&fs::read(path).map_err(unread)?) {
                Ok(key) => return Ok(key),
                Err(said) => said,
            }
        };
        Err(Failure::usage(format!("the key file {shown} {said}")))
    }

    fn new(text: &[u8]) -> Result<Self, String> {
        let key = text.trim_ascii_end();
        if !key.iter().all(u8::is_ascii_graphic) {
            return Err("must be one line of printable ASCII characters without spaces".to_owned());
        }
        match key.len() {
            length if length < KEY_MIN => Err(format!(
                "holds a key of {length} characters; use at least {KEY_MIN}, as `openssl rand -hex 32` makes them"
            )),
            length if length > KEY_MAX => {
                Err(format!("holds a key of {length} characters; use at most {KEY_MAX}"))
            }
            _ => Ok(Self(Sha256::digest(key).into())),
        }
    }

    pub(super) fn is(&self, offered: &[u8]) -> bool {
        let offered: [u8; 32] = Sha256::digest(offered).into();
        self.0.ct_eq(&offered).into()
    }
}

/// The permissions of a file that its group or others can read.
#[cfg(unix)]
fn others_read(file: &Metadata) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;

    let mode = file.mode() & 0o777;
    (mode & 0o044 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn others_read(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_line_of_enough_characters() {
        let key = ApiKey::new(b"0123456789abcdef\r\n").unwrap();
        assert!(key.is(b"0123456789abcdef"));
        for other in [&b""[..], b"0123456789abcde", b"0123456789abcdef\n", b"0123456789abcdeF"] {
            assert!(!key.is(other), "{other:?}");
        }
        assert_eq!(format!("{key:?}"), "ApiKey");
        assert!(ApiKey::new(&[b'x'; KEY_MAX]).is_ok());
        for bad in
            [&b""[..], b"0123456789abcde", b"0123456789 abcdef", b"0123456789\nabcdef", &[b'x'; KEY_MAX + 1]]
        {
            assert!(ApiKey::new(bad).is_err(), "{bad:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "0123456789abcdef\n").unwrap();
        for (mode, refused) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o644, true)] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            let read = ApiKey::read(file.path());
            assert_eq!(read.is_err(), refused, "{mode:o}");
            if let Err(failure) = read {
                assert!(failure.to_string().contains("chmod 600"), "{failure}");
            }
        }
    }

    #[test]
    fn what_is_no_key_file_is_refused_with_a_sentence() {
        let place = tempfile::tempdir().unwrap();
        let sentence = |path: &Path| ApiKey::read(path).unwrap_err().to_string();
        assert!(sentence(place.path()).contains("is no file"));
        assert!(sentence(&place.path().join("none")).contains("cannot be read"));
        let large = tempfile::NamedTempFile::new().unwrap();
        fs::write(large.path(), "x".repeat(KEY_MAX + 3)).unwrap();
        assert!(sentence(large.path()).contains("has 515 bytes"));
    }
}
