//! What the demo's work writes about itself, and what follows from it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use leasehold::clock::{self, Moment};

use crate::failure::{Failure, code};

/// One stretch of work: a resource under a token, from the first to the last line written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) resource: String,
    pub(super) token: u64,
    pub(super) from: Moment,
    pub(super) to: Moment,
}

/// The work itself: writes a line every few milliseconds until it is stopped.
pub(crate) fn work(journal: &Path) -> Result<ExitCode, Failure> {
    let failed = |error: std::io::Error| Failure::system("the journal cannot be written", &error);
    let (Ok(resource), Ok(token)) = (std::env::var("LEASEHOLD_RESOURCE"), std::env::var("LEASEHOLD_TOKEN"))
    else {
        return Err(Failure::new(code::USAGE, "demo-work is started by the demo"));
    };
    let mut file = std::fs::File::options().create(true).append(true).open(journal).map_err(failed)?;
    loop {
        let line = format!("{resource} {token} {}\n", clock::now().0);
        file.write_all(line.as_bytes()).map_err(failed)?;
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The stretches of all journals in a directory.
pub(super) fn read_all(directory: &Path) -> Result<Vec<Stretch>, Failure> {
    let failed = |error: std::io::Error| Failure::system("the journals cannot be read", &error);
    let mut stretches = BTreeMap::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "journal") {
            collect(&std::fs::read_to_string(path).map_err(failed)?, &mut stretches);
        }
    }
    let stretch = |((resource, token), (from, to))| Stretch { resource, token, from, to };
    Ok(stretches.into_iter().map(stretch).collect())
}

fn collect(journal: &str, stretches: &mut BTreeMap<(String, u64), (Moment, Moment)>) {
    for line in journal.lines() {
        let mut words = line.split(' ');
        let (Some(resource), Some(token), Some(at)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        // The last line of a journal may have been cut off by a kill.
        let (Ok(token), Ok(at)) = (token.parse(), at.parse().map(Moment)) else { continue };
        let (from, to) = stretches.entry((resource.to_owned(), token)).or_insert((at, at));
        *from = (*from).min(at);
        *to = (*to).max(at);
    }
}

/// For how long any resource was worked on under two tokens at once.
pub(super) fn overlap(stretches: &[Stretch]) -> Duration {
    let mut total = Duration::ZERO;
    for (place, one) in stretches.iter().enumerate() {
        for two in stretches[place + 1..].iter().filter(|two| two.resource == one.resource) {
            total += one.to.min(two.to).since(one.from.max(two.from));
        }
    }
    total
}

/// How often a later stretch of a resource had a token that was not higher.
pub(super) fn falls(stretches: &[Stretch]) -> usize {
    let mut ordered: Vec<&Stretch> = stretches.iter().collect();
    ordered.sort_by(|one, two| (&one.resource, one.from).cmp(&(&two.resource, two.from)));
    let fell = |pair: &&[&Stretch]| pair[0].resource == pair[1].resource && pair[0].token >= pair[1].token;
    ordered.windows(2).filter(fell).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(token: u64, from: u64, to: u64) -> Stretch {
        Stretch { resource: "a".to_owned(), token, from: Moment(from), to: Moment(to) }
    }

    #[test]
    fn work_that_ran_twice_is_found() {
        assert_eq!(overlap(&[stretch(1, 0, 10), stretch(2, 10, 20)]), Duration::ZERO);
        assert_eq!(overlap(&[stretch(1, 0, 10), stretch(2, 7, 20)]), Duration::from_nanos(3));
        assert_eq!(falls(&[stretch(1, 0, 10), stretch(2, 10, 20)]), 0);
        assert_eq!(falls(&[stretch(2, 0, 10), stretch(1, 10, 20)]), 1);
    }
}
