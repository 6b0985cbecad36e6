//! The command to run: found before anything is joined, filled in for each lease.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use leasehold::Lease;

use crate::failure::{Failure, code};

/// Refuses a command that cannot be run, before this member takes part in anything.
pub(crate) fn check(command: &[OsString]) -> Result<(), Failure> {
    let Some(program) = command.first() else {
        return Err(Failure::usage("there is no command; give one after --"));
    };
    // A program named by a placeholder is known only with its lease.
    if program.to_string_lossy().contains('{') {
        return Ok(());
    }
    let shown = Path::new(program).display();
    match candidates(program).into_iter().find(|path| path.is_file()) {
        None => {
            let said = format!("the command {shown} does not exist; check the spelling, the path and PATH");
            Err(Failure::new(code::NOT_FOUND, said))
        }
        Some(path) if !is_executable(&path) => {
            let said = format!("the command {} may not be executed; try chmod +x", path.display());
            Err(Failure::new(code::NOT_EXECUTABLE, said))
        }
        Some(_) => Ok(()),
    }
}

fn candidates(program: &OsStr) -> Vec<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return vec![PathBuf::from(program)];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = std::env::split_paths(&path).map(|directory| directory.join(program)).collect();
    let (runnable, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|path| is_executable(path));
    runnable.into_iter().chain(rest).collect()
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Puts a lease's own values for `{resource}`, `{token}`, `{pool}` and `{member}`.
pub(super) fn fill(command: &[OsString], lease: &Lease) -> Vec<OsString> {
    let values = [
        ("{resource}", lease.resource().to_string()),
        ("{token}", lease.token().to_string()),
        ("{pool}", lease.pool().to_string()),
        ("{member}", lease.member().to_string()),
    ];
    command.iter().map(|word| fill_word(word, &values)).collect()
}

fn fill_word(word: &OsStr, values: &[(&str, String)]) -> OsString {
    match word.to_str() {
        Some(text) => {
            values.iter().fold(text.to_owned(), |text, (place, value)| text.replace(place, value)).into()
        }
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_cannot_be_run_is_refused_with_the_shells_exit_codes() {
        let words = |word: &str| vec![OsString::from(word)];
        assert!(check(&words("sh")).is_ok());
        assert!(check(&words("./{resource}")).is_ok());
        assert_eq!(check(&words("no-such-command-here")).unwrap_err().code, code::NOT_FOUND);
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(check(&words(path)).unwrap_err().code, code::NOT_EXECUTABLE);
        assert_eq!(check(&words("/etc")).unwrap_err().code, code::NOT_FOUND);
    }

    #[test]
    fn placeholders_are_replaced_everywhere_in_a_word() {
        let values = [("{resource}", "a".to_owned()), ("{token}", "7".to_owned())];
        assert_eq!(fill_word(OsStr::new("--x={resource}#{token}/{resource}"), &values), "--x=a#7/a");
        assert_eq!(fill_word(OsStr::new("{other}"), &values), "{other}");
    }
}
