//! A wall clock that a test moves under a running process.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::Dir;

const SOURCE: &str = include_str!("clockshim.c");

/// The wall clock of every process that is started with its environment. Works for programs that ask the C library.
#[derive(Debug)]
pub struct WallClock {
    directory: Dir,
}

impl WallClock {
    /// A clock that is right.
    ///
    /// # Panics
    /// The library cannot be compiled.
    #[must_use]
    pub fn new() -> Self {
        let clock = Self { directory: Dir::new() };
        let source = clock.directory.join("clockshim.c");
        std::fs::write(&source, SOURCE).expect("a file in our own directory");
        let cc = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .arg(clock.library())
            .arg(source)
            .status();
        assert!(cc.expect("a C compiler").success(), "the clock's library cannot be compiled");
        clock.set(0);
        clock
    }

    /// What a process needs in its environment to have this clock.
    #[must_use]
    pub fn environment(&self) -> [(String, String); 2] {
        let text = |path: PathBuf| path.to_str().expect("a readable path").to_owned();
        [("LD_PRELOAD".to_owned(), text(self.library())), ("CLOCKSHIM_FILE".to_owned(), text(self.file()))]
    }

    /// Puts the clock so far ahead of the right time.
    pub fn put_forward(&self, by: Duration) {
        self.set(nanos(by));
    }

    /// Puts the clock so far behind the right time.
    pub fn put_back(&self, by: Duration) {
        self.set(-nanos(by));
    }

    fn set(&self, offset: i64) {
        // Written in place: the processes have the file mapped.
        let file = std::fs::File::options().create(true).truncate(false).write(true).open(self.file());
        file.and_then(|file| file.write_all_at(&offset.to_ne_bytes(), 0))
            .expect("a file in our own directory");
    }

    fn library(&self) -> PathBuf {
        self.directory.join("clockshim.so")
    }

    fn file(&self) -> PathBuf {
        self.directory.join("offset")
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new()
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).expect("less than three centuries")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn year(clock: &WallClock) -> i32 {
        let date = Command::new("date").arg("+%Y").envs(clock.environment()).output().expect("date");
        String::from_utf8_lossy(&date.stdout).trim().parse().expect("a year")
    }

    #[test]
    fn a_process_sees_the_time_it_is_told() {
        let clock = WallClock::new();
        let now = year(&clock);
        let ten_years = Duration::from_secs(10 * 365 * 24 * 3600);
        clock.put_forward(ten_years);
        assert!((9..=10).contains(&(year(&clock) - now)));
        clock.put_back(ten_years);
        assert!((9..=10).contains(&(now - year(&clock))));
    }
}
