//! What the demo's work writes about itself: every process keeps one small file with its first and its newest
//! moment. Whether anything ran twice is decided by these files alone.
//!
//! `DIRECTORY/MEMBER/RESOURCE.TOKEN.PID` holds two moments of eight bytes each. Eight aligned bytes are written
//! in one piece, so that a reader or a kill never meets half a number.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use leasehold::clock::{self, Moment};

use crate::failure::{Failure, code};

/// How often work writes.
const WRITE_EVERY: Duration = Duration::from_millis(5);
/// What has not been written to for so long is read only now and then.
const COLD: Duration = Duration::from_secs(10);
const READ_ALL_EVERY: Duration = Duration::from_secs(5);

/// One stretch of work: what one process did to a resource under a token, from its first to its last moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) resource: String,
    pub(super) token: u64,
    pub(super) member: String,
    pub(super) pid: i32,
    pub(super) from: Moment,
    pub(super) to: Moment,
}

/// The work itself: writes the time again and again until it is stopped.
pub(crate) fn work(directory: &Path) -> Result<ExitCode, Failure> {
    let failed = |error: std::io::Error| Failure::system("the journal cannot be written", &error);
    let (Ok(resource), Ok(token)) = (std::env::var("LEASEHOLD_RESOURCE"), std::env::var("LEASEHOLD_TOKEN"))
    else {
        return Err(Failure::new(code::USAGE, "demo-work is started by the demo"));
    };
    let path = directory.join(format!("{resource}.{token}.{}", std::process::id()));
    let file = File::create(path).map_err(failed)?;
    let from = clock::now().0.to_le_bytes();
    file.write_all_at(&[from, from].concat(), 0).map_err(failed)?;
    loop {
        std::thread::sleep(WRITE_EVERY);
        file.write_all_at(&clock::now().0.to_le_bytes(), 8).map_err(failed)?;
    }
}

/// The files of all members.
#[derive(Debug)]
pub(super) struct Journals {
    directory: PathBuf,
    known: BTreeMap<PathBuf, Stretch>,
    all_read_at: Moment,
    stretches: Vec<Stretch>,
}

impl Journals {
    pub(super) fn new(directory: &Path) -> Self {
        let directory = directory.to_owned();
        Self { directory, known: BTreeMap::new(), all_read_at: Moment::default(), stretches: Vec::new() }
    }

    /// Where the work of a member writes to.
    pub(super) fn of(&self, member: &str) -> PathBuf {
        self.directory.join(member)
    }

    /// Every stretch that was read, by resource and beginning.
    pub(super) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Reads what is new.
    pub(super) fn read(&mut self, now: Moment) -> Result<(), Failure> {
        let all = now.since(self.all_read_at) > READ_ALL_EVERY;
        self.refresh(|stretch| all || now.since(stretch.to) < COLD)?;
        if all {
            self.all_read_at = now;
        }
        Ok(())
    }

    /// Reads everything.
    pub(super) fn read_all(&mut self) -> Result<(), Failure> {
        self.refresh(|_| true)
    }

    fn refresh(&mut self, is_due: impl Fn(&Stretch) -> bool) -> Result<(), Failure> {
        for member in entries(&self.directory)? {
            for path in entries(&member)? {
                if self.known.get(&path).is_none_or(&is_due)
                    && let Some(stretch) = parse(&path)?
                {
                    self.known.insert(path, stretch);
                }
            }
        }
        self.stretches = self.known.values().cloned().collect();
        self.stretches.sort_by(|one, two| (&one.resource, one.from).cmp(&(&two.resource, two.from)));
        Ok(())
    }
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::system("the journals cannot be read", error)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(directory).map_err(|error| failed(&error))?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(|error| failed(&error))).collect()
}

/// The stretch that a file tells of; none if its process has not written yet.
fn parse(path: &Path) -> Result<Option<Stretch>, Failure> {
    let mut moments = [0; 16];
    match File::open(path).and_then(|file| file.read_exact_at(&mut moments, 0)) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(failed(&error)),
    }
    let (from, to) = moments.split_at(8);
    let moment = |bytes: &[u8]| bytes.try_into().map(|bytes| Moment(u64::from_le_bytes(bytes)));
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let stretch = || {
        let (member, file) = (name(path.parent()?)?, name(path)?);
        let mut words = file.rsplitn(3, '.');
        let (pid, token) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let resource = words.next()?.to_owned();
        Some(Stretch { resource, token, member, pid, from: moment(from).ok()?, to: moment(to).ok()? })
    };
    Ok(stretch())
}

/// For how long any resource was worked on by two processes at once. Takes stretches by resource and beginning.
pub(super) fn overlap(stretches: &[Stretch]) -> Duration {
    let mut total = Duration::ZERO;
    for of_one in stretches.chunk_by(|one, two| one.resource == two.resource) {
        let mut busy_until = Moment::default();
        for stretch in of_one {
            total += stretch.to.min(busy_until).since(stretch.from);
            busy_until = busy_until.max(stretch.to);
        }
    }
    total
}

/// How often a later stretch of a resource had a lower token, or another member's.
pub(super) fn falls(stretches: &[Stretch]) -> usize {
    let fell = |pair: &&[Stretch]| {
        let (one, two) = (&pair[0], &pair[1]);
        let rose = one.token < two.token || one.token == two.token && one.member == two.member;
        one.resource == two.resource && !rose
    };
    stretches.windows(2).filter(fell).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(member: &str, token: u64, from: u64, to: u64) -> Stretch {
        let (from, to) = (Moment(from), Moment(to));
        Stretch { resource: "a".to_owned(), token, member: member.to_owned(), pid: 1, from, to }
    }

    #[test]
    fn work_that_ran_twice_is_found() {
        let overlap_of = |stretches: &[Stretch]| overlap(stretches).as_nanos();
        assert_eq!(overlap_of(&[stretch("x", 1, 0, 10), stretch("y", 2, 10, 20)]), 0);
        assert_eq!(overlap_of(&[stretch("x", 1, 0, 10), stretch("y", 2, 7, 20)]), 3);
        assert_eq!(
            overlap_of(&[stretch("x", 1, 0, 30), stretch("y", 2, 7, 9), stretch("z", 3, 29, 40)]),
            2 + 1
        );
        let elsewhere = Stretch { resource: "b".to_owned(), ..stretch("y", 2, 7, 20) };
        assert_eq!(overlap_of(&[stretch("x", 1, 0, 10), elsewhere]), 0);
    }

    #[test]
    fn tokens_that_do_not_rise_are_found() {
        assert_eq!(falls(&[stretch("x", 1, 0, 10), stretch("y", 2, 10, 20)]), 0);
        assert_eq!(falls(&[stretch("x", 2, 0, 10), stretch("y", 1, 10, 20)]), 1);
        assert_eq!(falls(&[stretch("x", 1, 0, 10), stretch("y", 1, 10, 20)]), 1);
        assert_eq!(
            falls(&[stretch("x", 1, 0, 10), stretch("x", 1, 10, 20)]),
            0,
            "started again by its owner"
        );
    }

    #[test]
    fn what_work_wrote_is_read_and_what_it_has_not_written_yet_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let mut journals = Journals::new(directory.path());
        std::fs::create_dir(journals.of("anna")).unwrap();
        let path = journals.of("anna").join("crane-1.7.4711");
        std::fs::write(&path, b"").unwrap();
        journals.read(Moment(1)).unwrap();
        assert_eq!(journals.stretches(), []);
        std::fs::write(&path, [5u64.to_le_bytes(), 9u64.to_le_bytes()].concat()).unwrap();
        journals.read(Moment(2)).unwrap();
        let expected = Stretch { resource: "crane-1".to_owned(), pid: 4711, ..stretch("anna", 7, 5, 9) };
        assert_eq!(journals.stretches(), [expected]);
    }
}
