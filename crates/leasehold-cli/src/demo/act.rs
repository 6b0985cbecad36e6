//! What can be done to a member of the demo, and how it is told.

use leasehold::clock::Moment;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Join,
    Kill,
    Freeze,
    Thaw,
    Drain,
    Undrain,
}

/// Something done to a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Act {
    pub(super) deed: Deed,
    pub(super) member: String,
}

/// An act, and when it was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) act: Act,
    pub(super) at: Moment,
}

impl Act {
    pub(super) fn new(deed: Deed, member: &str) -> Self {
        Self { deed, member: member.to_owned() }
    }

    /// What happens, in a few words.
    pub(super) fn headline(&self) -> String {
        let what = match self.deed {
            Deed::Join => "joins",
            Deed::Kill => "is killed (kill -9)",
            Deed::Freeze => "is frozen (SIGSTOP)",
            Deed::Thaw => "wakes up (SIGCONT)",
            Deed::Drain => "is drained by an operator",
            Deed::Undrain => "takes part again",
        };
        format!("{} {what}", self.member)
    }

    /// What happens, and what to look for.
    pub(super) fn caption(&self) -> Caption {
        let why = match self.deed {
            Deed::Join => "only its share moves, and is handed over piece by piece",
            Deed::Kill => "nobody is told; others take over after a TTL of silence",
            Deed::Freeze => "its deadman must end its work before others start it",
            Deed::Thaw => "if its leases are gone, it joins again like a newcomer",
            Deed::Drain => "its work moves as soon as each piece has stopped",
            Deed::Undrain => "it gets its share back",
        };
        Caption::new(&self.headline(), why)
    }
}

/// What the viewer is told: what happens, and why or what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caption {
    pub(super) what: String,
    pub(super) why: String,
}

impl Caption {
    pub(super) fn new(what: &str, why: &str) -> Self {
        Self { what: what.to_owned(), why: why.to_owned() }
    }
}
