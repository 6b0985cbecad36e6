//! The API key: where it comes from and how it is kept out of sight.
//!
//! Invariant: the key leaves only as the value of a header that is marked as sensitive.

use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;

use reqwest::header::HeaderValue;

use crate::store::StoreError;

/// Where the key is looked for.
pub const KEY_VARIABLE: &str = "LEASEHOLD_API_KEY";
/// Where the name of a file with the key is looked for.
pub const KEY_FILE_VARIABLE: &str = "LEASEHOLD_API_KEY_FILE";
/// The most that the file may hold.
const FILE_MAX: usize = 4096;

/// By what a member shows a server who it is.
pub struct ApiKey {
    header: Mutex<HeaderValue>,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Given,
    Environment,
    File(PathBuf),
}

impl ApiKey {
    /// A key that the program has from elsewhere.
    ///
    /// # Errors
    /// It holds what cannot stand in a header.
    pub fn new(key: &str) -> Result<Self, StoreError> {
        Self::from_text(key, Source::Given)
    }

    /// The key that the environment gives: itself or the file that it is in. `None` if it gives neither.
    ///
    /// # Errors
    /// The file cannot be read, or what stands there can be no key.
    pub fn from_environment() -> Result<Option<Self>, StoreError> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        match (set(KEY_VARIABLE), set(KEY_FILE_VARIABLE)) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(StoreError::misconfigured(format!(
                "both {KEY_VARIABLE} and {KEY_FILE_VARIABLE} are set; unset one of them"
            ))),
            (Some(key), None) => {
                let key = key.to_str().ok_or_else(|| no_key(&Source::Environment))?;
                Self::from_text(key, Source::Environment).map(Some)
            }
            (None, Some(path)) => Self::from_file(path.into()).map(Some),
        }
    }

    /// The key that stands in a file. A key that is refused is looked for there again.
    ///
    /// # Errors
    /// The file cannot be read, or what stands in it can be no key.
    pub fn from_file(path: PathBuf) -> Result<Self, StoreError> {
        let text = read(&path)?;
        Self::from_text(&text, Source::File(path))
    }

    fn from_text(text: &str, source: Source) -> Result<Self, StoreError> {
        Ok(Self { header: Mutex::new(header(text, &source)?), source })
    }

    /// The value of the header `Authorization`.
    pub(super) fn header(&self) -> HeaderValue {
        self.header.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// After a refusal of `refused`: whether there is another key by now.
    pub(super) fn look_again(&self, refused: &HeaderValue) -> bool {
        if let Source::File(path) = &self.source {
            let found = read(path).and_then(|text| header(&text, &self.source));
            if let Ok(found) = found {
                *self.header.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = found;
            }
        }
        self.header() != refused
    }

    /// Where to look, for people.
    pub(super) fn place(&self) -> String {
        place(&self.source)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey(from {})", self.place())
    }
}

fn place(source: &Source) -> String {
    match source {
        Source::Given => "the key that the program gave".to_owned(),
        Source::Environment => KEY_VARIABLE.to_owned(),
        Source::File(path) => format!("{} (named by {KEY_FILE_VARIABLE})", path.display()),
    }
}

fn no_key(source: &Source) -> StoreError {
    StoreError::misconfigured(format!(
        "{} holds no API key; a key is one word of letters, digits and signs",
        place(source)
    ))
}

fn header(text: &str, source: &Source) -> Result<HeaderValue, StoreError> {
    let key = text.trim();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(no_key(source));
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| no_key(source))?;
    header.set_sensitive(true);
    Ok(header)
}

fn read(path: &PathBuf) -> Result<String, StoreError> {
    use std::io::Read;

    let cannot = |error: std::io::Error| {
        let said = format!(
            "the file with the API key {}, named by {KEY_FILE_VARIABLE}, cannot be read",
            path.display()
        );
        StoreError::misconfigured(said).caused_by(error)
    };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(FILE_MAX as u64).read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves S15
    #[test]
    fn a_key_is_never_shown() {
        let key = ApiKey::new("hunter2").unwrap();
        assert_eq!(key.header().to_str().unwrap(), "Bearer hunter2");
        assert_eq!(
            format!("{key:?} {:?}", key.header()),
            "ApiKey(from the key that the program gave) Sensitive"
        );
        let error = ApiKey::new("hun\nter2").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hun"), "{error:?}");
    }

    #[test]
    fn a_key_that_was_replaced_in_its_file_is_found_after_a_refusal() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first\n").unwrap();
        let key = ApiKey::from_file(file.path().into()).unwrap();
        let first = key.header();
        assert!(!key.look_again(&first), "nothing was replaced");
        std::fs::write(file.path(), "second\n").unwrap();
        assert!(key.look_again(&first));
        assert_eq!(key.header().to_str().unwrap(), "Bearer second");
        std::fs::write(file.path(), "").unwrap();
        assert!(!key.look_again(&key.header()), "an empty file is no new key");
        let error = ApiKey::from_file("/nowhere".into()).unwrap_err();
        assert!(error.to_string().contains("named by LEASEHOLD_API_KEY_FILE, cannot be read"), "{error}");
    }
}
