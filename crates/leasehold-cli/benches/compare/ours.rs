//! `leasehold bench`, as users run it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::rows::Rows;

/// The command on one store.
#[derive(Debug)]
pub(crate) struct Bench {
    store: String,
    server: Option<u32>,
}

impl Bench {
    /// On a file in this directory.
    pub(crate) fn on_file(directory: &Path) -> Self {
        Self::on(format!("sqlite:{}", directory.join("work.db").display()))
    }

    pub(crate) fn on(store: String) -> Self {
        let migrated =
            leasehold().args(["migrate", "--fresh", "--store", &store]).output().expect("leasehold");
        assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
        Self { store, server: None }
    }

    /// Whose use of the machine is told as well.
    pub(crate) fn beside(mut self, server: u32) -> Self {
        self.server = Some(server);
        self
    }

    /// Runs it. What cannot be measured leaves a gap, and is told: the rest is worth having.
    pub(crate) fn run(&self, args: &[&str], store: &'static str, rows: &mut Rows) {
        let mut command = leasehold();
        command.args(["bench", "--json", "--store", &self.store]).args(args);
        if let Some(server) = self.server {
            command.args(["--server-pid", &server.to_string()]);
        }
        let output = command.output().expect("leasehold");
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return rows.fail(&format!("{store}: leasehold bench {}: {said}", args.join(" ")));
        }
        into_rows(&serde_json::from_slice(&output.stdout).expect("JSON"), store, rows);
    }
}

fn leasehold() -> Command {
    Command::new(env!("CARGO_BIN_EXE_leasehold"))
}

fn into_rows(report: &Value, store: &'static str, rows: &mut Rows) {
    for figure in report["figures"].as_array().expect("figures") {
        let case = figure["case"].as_str().expect("a case");
        let metrics = ["per_second", "seconds", "median_ms", "p99_ms", "calls"];
        for metric in metrics.into_iter().filter(|metric| figure[metric].is_number()) {
            rows.add(store, case, metric, figure[metric].as_f64().unwrap_or_default());
        }
    }
    let parties =
        [("client", "cores"), ("client", "memory_mb"), ("server", "cores"), ("server", "memory_mb")];
    for (party, name) in parties {
        if let Some(value) = report[party][name].as_f64() {
            rows.add(store, &format!("keep, {party}"), name, value);
        }
    }
    if let Some(saved) = report["renewals_saved"].as_f64() {
        rows.add(store, "keep, fewer calls than renewals", "times", saved);
    }
}
