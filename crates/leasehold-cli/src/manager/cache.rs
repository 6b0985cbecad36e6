//! The last known configurations of cameras, on disk: for a control plane that grants a lease and cannot say what the camera is.
//!
//! Invariant: what is read back is what was written, by its SHA-256, or it is not used. Only the owner can read it.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::keeper::Document;
use super::shard::replace;

/// The largest configuration that is kept.
const SIZE_MAX: usize = 1 << 20;

/// Where configurations are kept.
#[derive(Debug)]
pub(super) struct Cache {
    directory: PathBuf,
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Cache {
    pub(super) fn open(directory: &Path) -> Self {
        let directory = directory.join("cache");
        // A directory that cannot be made is noticed when something is kept in it.
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        Self { directory }
    }

    /// Names are hashed: a camera may be called anything.
    fn path(&self, camera: &str) -> PathBuf {
        self.directory.join(format!("{}.json", hash(camera.as_bytes())))
    }

    /// Keeps a configuration, if it is not kept already.
    pub(super) fn keep(&self, camera: &str, document: &Document) {
        if self.find(camera).as_ref() == Some(document) {
            return;
        }
        let content =
            json!({"camera_uuid": camera, "document": document.value, "site_zones": document.zones})
                .to_string();
        let kept = json!({"sha256": hash(content.as_bytes()), "content": content}).to_string();
        if kept.len() > SIZE_MAX {
            return;
        }
        if let Err(error) = replace(&self.path(camera), kept.as_bytes()) {
            tracing::warn!(%error, camera_uuid = camera, "the configuration of a camera cannot be kept for an outage");
        }
    }

    /// The last one that was kept of a camera.
    pub(super) fn find(&self, camera: &str) -> Option<Document> {
        let text = std::fs::read_to_string(self.path(camera)).ok()?;
        let kept: Value = serde_json::from_str(&text).ok()?;
        let content = kept["content"].as_str()?;
        if kept["sha256"].as_str()? != hash(content.as_bytes()) {
            tracing::warn!(camera_uuid = camera, "a configuration that was kept is damaged, and not used");
            return None;
        }
        let mut content: Value = serde_json::from_str(content).ok()?;
        let is_its_own = content["camera_uuid"] == camera;
        is_its_own
            .then(|| Document { value: content["document"].take(), zones: content["site_zones"].take() })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    // proves R239, U22
    #[test]
    fn what_is_kept_is_found_as_it_was_and_by_nobody_else() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::open(place.path());
        let document =
            Document { value: json!({"rtsp_url": "rtsp://u:p@c/1", "min_score": 0.3}), zones: json!([]) };
        assert_eq!(cache.find("cam/../1"), None);
        cache.keep("cam/../1", &document);
        assert_eq!(cache.find("cam/../1"), Some(document));
        assert_eq!(cache.find("cam-2"), None);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&cache.directory), mode(&cache.path("cam/../1"))), (0o700, 0o600));
    }

    #[test]
    fn what_was_damaged_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::open(place.path());
        let document = Document { value: json!({"rtsp_url": "rtsp://right"}), zones: json!([]) };
        cache.keep("cam-1", &document);
        let text = std::fs::read_to_string(cache.path("cam-1")).unwrap();
        for damaged in [text.replace("right", "wrong"), text[..text.len() / 2].to_owned(), String::new()] {
            std::fs::write(cache.path("cam-1"), damaged).unwrap();
            assert_eq!(cache.find("cam-1"), None);
        }
        // Another camera's file under this camera's name.
        cache.keep("cam-2", &document);
        std::fs::rename(cache.path("cam-2"), cache.path("cam-1")).unwrap();
        assert_eq!(cache.find("cam-1"), None);
    }
}
