//! Programs in Python, and where the project's own are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project's directory")
}

/// A Python that has a module: Debian's packages serve Debian's own Python only, which may not be the first one.
pub(crate) fn python_with(module: &str, package: &str) -> &'static str {
    let has_it = |python: &&str| {
        let import =
            Command::new(python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_it);
    found.unwrap_or_else(|| panic!("no python3 has {module}; install {package}"))
}
