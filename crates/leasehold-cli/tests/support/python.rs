//! Programs in Python.

use std::process::{Command, Stdio};

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
