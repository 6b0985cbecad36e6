//! The text that Prometheus reads.

use std::fmt::{Display, Write};

use leasehold::participant::State;

use super::{Report, calls};
use crate::args::VERSION;

/// What the text is, for whoever asked.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    /// Begins a family of samples.
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(self.0, "{name}{{{}}} {value}", labels.join(","));
    }

    /// The calls of the store.
    pub(crate) fn calls(&mut self) {
        calls::write(self);
    }

    pub(crate) fn text(self) -> String {
        self.0
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Everything that is measured. What belongs to the election has its key as a label, so that the leaders of a key can be counted.
pub(super) fn metrics(report: &dyn Report) -> String {
    let (status, leads) = (report.status(), report.is_leader());
    let mut page = Page::default();
    page.family("leasehold_build_info", "gauge", "The version of this program.");
    page.sample("leasehold_build_info", &[("version", VERSION)], 1);
    let key = ("key", report.key().as_str());
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        page.family(name, kind, help);
        page.sample(name, &[key], value);
    };
    one(
        "leasehold_is_leader",
        "gauge",
        "Whether this candidate leads at this moment.",
        leads.is_some().into(),
    );
    one(
        "leasehold_elections_won_total",
        "counter",
        "How often this candidate was elected.",
        report.leadership_changes(),
    );
    one(
        "leasehold_fencing_token",
        "gauge",
        "The token this candidate leads under, 0 while it does not lead.",
        leads.map_or(0, |token| token.0),
    );
    let members = u64::try_from(status.members).unwrap_or(u64::MAX);
    one("leasehold_members", "gauge", "How many candidates are known, this one included.", members);
    one("leasehold_store_frozen", "gauge", "Whether the store is frozen.", status.frozen.into());
    page.family(
        "leasehold_session_state",
        "gauge",
        "1 for the state that the session is in, 0 for the others.",
    );
    for state in [State::Held, State::Uncertain, State::Lost] {
        let labels = [key, ("state", state_name(state))];
        page.sample("leasehold_session_state", &labels, u8::from(state == status.state));
    }
    page.calls();
    page.text()
}

/// How sure the candidate is of its session, in one word.
pub(crate) fn state_name(state: State) -> &'static str {
    match state {
        State::Held => "held",
        State::Uncertain => "uncertain",
        State::Lost => "lost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.sample("a", &[("key", "a\"b\\c\nd")], 1);
        assert_eq!(page.text(), "a{key=\"a\\\"b\\\\c\\nd\"} 1\n");
    }
}
