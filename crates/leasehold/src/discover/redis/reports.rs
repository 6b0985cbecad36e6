//! What cannot be used, said once for as long as it stays so.

use std::collections::BTreeMap;

/// How many things are reported one by one; of more, only that there are more.
const TOLD_MAX: usize = 1000;
/// How many characters of a name are repeated.
const NAME_MAX: usize = 100;

/// What has been reported, by name.
#[derive(Debug, Default)]
pub(super) struct Reports {
    told: BTreeMap<String, String>,
    more: bool,
}

impl Reports {
    /// All that cannot be used now, and why.
    pub(super) fn take(&mut self, wrong: BTreeMap<String, String>) {
        self.more &= wrong.len() > TOLD_MAX;
        for (name, why) in wrong.iter().take(TOLD_MAX) {
            if self.told.get(name) != Some(why) {
                tracing::warn!(key = shown(name), why, "this is skipped until it is mended");
            }
        }
        if wrong.len() > TOLD_MAX && !self.more {
            tracing::warn!(count = wrong.len() - TOLD_MAX, "more are skipped, for reasons like these");
            self.more = true;
        }
        self.told = wrong;
    }
}

/// A name that others chose, as it may be repeated.
pub(super) fn shown(name: &str) -> String {
    let cut: String = name.chars().take(NAME_MAX).collect();
    let cut = cut.escape_debug().to_string();
    if name.chars().count() > NAME_MAX { cut + "..." } else { cut }
}
