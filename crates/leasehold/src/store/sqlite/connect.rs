//! From a path to a connection on a file with our schema.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior, named_params};

use super::era::{EraRow, Remembered, nonce_bits};
use super::failure::Failure;
use super::files::{self, Gate, Identity, Presence};
use crate::clock;
use crate::lease::Nonce;
use crate::store::TTL_UNKNOWN;

/// "lhld", in the header of every file that is ours.
const APPLICATION: i32 = 0x6c68_6c64;
/// The schema this version reads and writes. It rises when an earlier version could not go on with the file.
const SCHEMA: i32 = 1;

/// What was added to the schema since: how it is recognised, and how it is added.
const ADDED: [(&str, &str); 3] = [
    (include_str!("describes.sql"), include_str!("describe_resources.sql")),
    (include_str!("takes_notes.sql"), include_str!("take_notes.sql")),
    (include_str!("bundles_ledger.sql"), include_str!("bundle_ledger.sql")),
];

/// The writer's connection, the file it is on, and this handle's presence beside it.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) connection: Connection,
    pub(super) identity: Identity,
    pub(super) path: PathBuf,
    /// How far the file at this path had come by what was written beside it, until a transaction has judged the file by that.
    pub(super) reached: Option<Remembered>,
    /// Whether this handle has left a record of how far the file has come.
    recorded: bool,
    presence: Presence,
}

impl Attached {
    /// Finds or creates the file that `path` names.
    ///
    /// A new file begins live only if this handle remembers nothing and is alone; otherwise somebody may hold
    /// what the file that was here before said, so it begins frozen.
    pub(super) fn to(path: &Path, remembered: Option<Remembered>) -> Result<Self, Failure> {
        let path = files::resolve(path)?;
        let gate = Gate::pass(path.parent().unwrap_or(Path::new(".")));
        let presence = Presence::announce(&path)?;
        let reached = presence.recorded().and_then(|recorded| recorded.reached);
        match attach(&path, &gate, &presence, First { remembered, reached, alone: presence.alone() }) {
            Ok((connection, identity)) => {
                presence.settle();
                Ok(Self { connection, identity, path, reached, recorded: false, presence })
            }
            Err(failure) => {
                if failure.is_misconfigured() {
                    presence.withdraw(&path, &gate);
                }
                Err(failure)
            }
        }
    }

    /// Something was committed: the file was judged by what was known of it. How far it has come is recorded for those who come
    /// when nobody is left to remember, if it is `worth` that, and by whoever is new on it.
    pub(super) fn committed(&mut self, reached: &Remembered, worth: bool) {
        self.reached = None;
        if worth || !self.recorded {
            // What was committed stands; the record is for a day on which nobody is left to remember it.
            self.recorded = self.presence.record(&self.path, &self.identity, Some(reached)).is_ok();
        }
    }
}

fn attach(
    path: &Path,
    gate: &Gate,
    presence: &Presence,
    first: First,
) -> Result<(Connection, Identity), Failure> {
    let before = Identity::of(path).map_err(|error| Failure::of_io(path, &error))?;
    presence.part_companions(path, before.as_ref())?;
    if before.is_none() {
        files::create(path, gate);
    }
    let mut connection =
        connect(path, OpenFlags::SQLITE_OPEN_CREATE).map_err(|e| Failure::of_sqlite(path, &e))?;
    prepare(&mut connection, path, &first)?;
    let identity = Identity::of(path).map_err(|error| Failure::of_io(path, &error))?;
    match identity {
        Some(identity) if before.is_none_or(|before| before == identity) => {
            presence.record(path, &identity, first.recorded().as_ref())?;
            Ok((connection, identity))
        }
        _ => {
            let said = format!("cannot open {}: it is being replaced; try again", path.display());
            Err(Failure::unavailable(said))
        }
    }
}

/// What decides whether a new file begins live.
struct First {
    remembered: Option<Remembered>,
    reached: Option<Remembered>,
    alone: bool,
}

impl First {
    /// What is known of earlier files.
    fn before(&self) -> impl Iterator<Item = Remembered> {
        [self.remembered, self.reached].into_iter().flatten()
    }

    /// What stays recorded beside the file until it has been judged: others may have lived through more than this handle.
    fn recorded(&self) -> Option<Remembered> {
        self.reached.map(|reached| reached.at_least(self.remembered)).or(self.remembered)
    }

    fn era(&self, identity: Identity) -> EraRow {
        let unknown = u64::try_from(TTL_UNKNOWN.as_millis()).unwrap_or(u64::MAX);
        let known = self.before().next().is_some();
        let frozen = self.remembered.is_some() || !self.alone;
        let longest = self.before().map(|before| before.ttl_max_ms).max();
        let ttl_max_ms = if frozen { longest.unwrap_or(unknown) } else { 0 };
        EraRow {
            identity,
            nonce: Nonce::generate(),
            frozen,
            // Nobody alive holds what an earlier file gave out, but whoever was given it may have passed it on.
            token_base: if known { clock::token_base(clock::unix_nanos()) } else { 0 },
            ttl_max_ms,
            seq: self.before().map(|before| before.seq).max().map_or(1, |seq| seq + 1),
        }
    }
}

/// A connection as every part of the store uses it. `create` may be empty: then the file must be there.
pub(super) fn connect(path: &Path, create: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(wait_a_little))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Many short waits rather than few long ones: whoever asks most often for the lock is not always first.
fn wait_a_little(waited: i32) -> bool {
    const TRIES: i32 = 1000;
    let pause = 1 + waited.rem_euclid(3);
    std::thread::sleep(Duration::from_millis(pause.unsigned_abs().into()));
    waited < TRIES
}

fn prepare(connection: &mut Connection, path: &Path, first: &First) -> Result<(), Failure> {
    let of = |error: rusqlite::Error| Failure::of_sqlite(path, &error);
    // Nothing is written to a file before it is known to be ours, or nobody's.
    let has_schema = inspect(connection, path)?;
    if connection.is_readonly("main").map_err(of)? {
        let said =
            format!("cannot write {}: it is read-only; make it and its directory writable", path.display());
        return Err(Failure::misconfigured(said));
    }
    connection.pragma_update(None, "journal_mode", "wal").map_err(of)?;
    connection.pragma_update(None, "synchronous", "full").map_err(of)?;
    // The same few pages change again and again: the longer the log may be, the fewer of them are copied. It stays as long as it
    // was, so that it is written over: a file that grows has more to be waited for.
    connection.pragma_update(None, "wal_autocheckpoint", 4096).map_err(of)?;
    connection.pragma_update(None, "journal_size_limit", 32 << 20).map_err(of)?;
    // In kilobytes. The ledger is larger than what is kept in memory by default, and its indexes are looked at with every row.
    connection.pragma_update(None, "cache_size", -8192).map_err(of)?;
    if has_schema && is_complete(connection).map_err(of)? {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
    if !inspect(&transaction, path)? {
        let identity = Identity::of(path).map_err(|error| Failure::of_io(path, &error))?;
        let identity = identity.ok_or_else(|| Failure::unavailable("the new file vanished; try again"))?;
        transaction.execute_batch(include_str!("schema.sql")).map_err(of)?;
        first.era(identity).create(&transaction).map_err(of)?;
        for before in first.before() {
            // Whoever lived through the era of an earlier file is over here, and that is no news to be noticed.
            let past = named_params! {":nonce": nonce_bits(before.nonce)};
            transaction.execute(include_str!("past_add.sql"), past).map_err(of)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(of)?;
        transaction.pragma_update(None, "user_version", SCHEMA).map_err(of)?;
    }
    complete(&transaction).map_err(of)?;
    transaction.commit().map_err(of)
}

/// Gives a file of an earlier version what it lacks. The schema's number stays: that version can go on with the file.
pub(super) fn complete(connection: &Connection) -> rusqlite::Result<()> {
    for (is_there, add) in ADDED {
        if !asked(connection, is_there)? {
            connection.execute_batch(add)?;
        }
    }
    Ok(())
}

fn is_complete(connection: &Connection) -> rusqlite::Result<bool> {
    ADDED.iter().try_fold(true, |all, (is_there, _)| Ok(all && asked(connection, is_there)?))
}

fn asked(connection: &Connection, whether: &str) -> rusqlite::Result<bool> {
    connection.query_row(whether, [], |row| row.get(0))
}

/// Whether the file has our schema. An empty one has none; somebody else's is refused.
fn inspect(connection: &Connection, path: &Path) -> Result<bool, Failure> {
    let of = |error: rusqlite::Error| Failure::of_sqlite(path, &error);
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let application = number("application_id").map_err(of)?;
    let version = number("user_version").map_err(of)?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(of)?;
    let shown = path.display();
    match (application, version) {
        (APPLICATION, SCHEMA) => Ok(true),
        (APPLICATION, newer) if newer > SCHEMA => {
            Err(Failure::misconfigured(format!("{shown} was written by a newer leasehold; upgrade this one")))
        }
        (0, 0) if tables == 0 => Ok(false),
        _ => Err(Failure::misconfigured(format!(
            "{shown} is a SQLite database of another program; give another path"
        ))),
    }
}
