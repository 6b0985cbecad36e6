//! The scripts. Each is one atomic step of the server and begins with the same judgement of the era, or asks for it.
//!
//! They are sent once and called by their hash. What varies is handed over as keys and arguments: no script is put
//! together from what callers say.

use std::sync::LazyLock;

/// A script and the hash that it is called by.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) code: &'static str,
    pub(super) hash: String,
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {
        $(
            pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
                Script::new(concat!(
                    include_str!("lua/era.lua"),
                    include_str!("lua/notice.lua"),
                    include_str!("lua/names.lua"),
                    include_str!("lua/record.lua"),
                    include_str!("lua/rows.lua"),
                    include_str!("lua/standing.lua"),
                    include_str!("lua/session.lua"),
                    include_str!("lua/lease.lua"),
                    include_str!(concat!("lua/", $file)),
                ))
            });
        )*

        /// All of them, to be sent when a connection begins.
        pub(super) fn all() -> Vec<&'static Script> {
            vec![&*PROBE, &*MIGRATE, &*CHANGED, &*QUIET, &*EMIT, $(&*$name),*]
        }
    };
}

scripts! {
    ACQUIRE = "acquire.lua";
    APPEND = "append.lua";
    BEAT = "beat.lua";
    CLOSE = "close.lua";
    COLLECT = "collect.lua";
    COLLECT_LISTINGS = "collect_listings.lua";
    DESCRIBE = "describe.lua";
    END_SILENT = "end_silent.lua";
    FREE = "free.lua";
    HOLDER = "holder.lua";
    LEDGER = "ledger.lua";
    LISTING = "listing.lua";
    LOOK = "look.lua";
    OPEN = "open.lua";
    POOLS = "pools.lua";
    PUBLISH = "publish.lua";
    PUT = "put.lua";
    REASSERT = "reassert.lua";
    REFRESH = "refresh.lua";
    RELEASE = "release.lua";
    REVOKE = "revoke.lua";
    SWEEP = "sweep.lua";
    THAW = "thaw.lua";
    UPGRADE = "upgrade.lua";
}

/// Every member asks this all the time: it has nothing in it that reading does not need.
pub(super) static CHANGED: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("lua/era.lua"),
        include_str!("lua/notice.lua"),
        include_str!("lua/names.lua"),
        include_str!("lua/record.lua"),
        include_str!("lua/rows.lua"),
        include_str!("lua/changed.lua"),
    ))
});

/// Two in one: what changed among sessions, if nothing else did.
pub(super) static QUIET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("lua/era.lua"),
        include_str!("lua/notice.lua"),
        include_str!("lua/names.lua"),
        include_str!("lua/record.lua"),
        include_str!("lua/rows.lua"),
        include_str!("lua/quiet.lua"),
        include_str!("lua/changed.lua"),
    ))
});

/// Asked for every answer of every endpoint: it leaves the judgement to the others.
pub(super) static EMIT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("lua/seen.lua"),
        include_str!("lua/names.lua"),
        include_str!("lua/record.lua"),
        include_str!("lua/standing.lua"),
        include_str!("lua/emit.lua"),
    ))
});

/// Stands apart: it must find the era as it is, and not freeze a store that has none.
pub(super) static MIGRATE: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/era.lua"), include_str!("lua/migrate.lua"))));

/// Does nothing, to find out whether the server runs scripts at all.
pub(super) static PROBE: LazyLock<Script> = LazyLock::new(|| Script::new("return 1"));
