//! How well this server, as it is set up, can keep its word.

use tokio_postgres::Row;

use super::Shared;
use super::call::column;
use super::failure::Failure;
use crate::store::{Checkup, Finding, Grade};

const SETTINGS: &str = include_str!("checkup.sql");

/// What the grade is judged by.
#[derive(Debug, Clone)]
struct Settings {
    version: String,
    fsync: bool,
    full_page_writes: bool,
    synchronous_commit: String,
    synchronous_standby_names: String,
    /// Standbys that are connected, and those of them that commits wait for. Without the right to see which they are,
    /// only the first is known.
    standbys: i64,
    synchronous: i64,
    unseen: i64,
    hears: bool,
}

impl Shared {
    pub(super) async fn look_over(&self) -> Result<Checkup, Failure> {
        let row = self.reads.ask(&self.address, SETTINGS, &[]).await?;
        Ok(judge(&Settings::of(&row, self.ears.pushes())?))
    }
}

impl Settings {
    fn of(row: &Row, hears: bool) -> Result<Self, Failure> {
        Ok(Self {
            version: column(row, "version")?,
            fsync: column(row, "fsync")?,
            full_page_writes: column(row, "full_page_writes")?,
            synchronous_commit: column(row, "synchronous_commit")?,
            synchronous_standby_names: column(row, "synchronous_standby_names")?,
            standbys: column(row, "standbys")?,
            synchronous: column(row, "synchronous")?,
            unseen: column(row, "unseen")?,
            hears,
        })
    }
}

fn judge(settings: &Settings) -> Checkup {
    let mut findings = Vec::new();
    let mut grade = Grade::DurableOnOneNode;
    for (on, name, harm) in [
        (settings.fsync, "fsync", "a crash of the machine loses or breaks anything"),
        (settings.full_page_writes, "full_page_writes", "a crash of the machine may break pages"),
    ] {
        findings.push(if on {
            Finding::good(format!("{name} is on"))
        } else {
            grade = Grade::MayLoseWrites;
            Finding::weak(format!("{name} is off: {harm}"), format!("set {name} = on"))
        });
    }
    findings.push(match settings.synchronous_commit.as_str() {
        "off" => Finding::good(
            "synchronous_commit is off; what decides ownership is committed with on all the same",
        ),
        mode => Finding::good(format!("synchronous_commit is {mode}")),
    });
    let (failover, finding) = standbys(settings);
    grade = match (grade, failover) {
        (Grade::DurableOnOneNode, Some(better_or_worse)) => better_or_worse,
        (grade, _) => grade,
    };
    findings.push(finding);
    findings.push(if settings.hears {
        Finding::good("changes are heard at once (LISTEN)")
    } else {
        Finding::weak(
            "what others change is not heard (LISTEN): a pooler is in between, so members find it when they read",
            "let leasehold connect to the server itself, or through a pool in session mode",
        )
    });
    findings.push(Finding::good("a restart of the server freezes the store for one TTL, while work goes on"));
    Checkup { server: format!("PostgreSQL {}", settings.version), grade, findings }
}

/// What a failover makes of the grade.
fn standbys(settings: &Settings) -> (Option<Grade>, Finding) {
    let waited_for = !settings.synchronous_standby_names.is_empty();
    let advice = "set synchronous_standby_names, and synchronous_commit = on; or do not fail over to them";
    match (waited_for, settings.synchronous_commit.as_str()) {
        (true, "on" | "off" | "remote_apply") if settings.synchronous == 0 && settings.unseen == 0 => (
            Some(Grade::DurableAndLinearizable),
            Finding::weak(
                "commits wait for a synchronous standby, and none is connected: nothing can be granted",
                "bring the standby back, or take it out of synchronous_standby_names",
            ),
        ),
        (true, "on" | "off" | "remote_apply") => (
            Some(Grade::DurableAndLinearizable),
            Finding::good("what is confirmed is on a synchronous standby's disk too"),
        ),
        (true, mode) => (
            Some(Grade::MayLoseWrites),
            Finding::weak(
                format!(
                    "there are synchronous standbys, but synchronous_commit = {mode} does not wait for their disks"
                ),
                "set synchronous_commit = on",
            ),
        ),
        (false, _) if settings.standbys > 0 => (
            Some(Grade::MayLoseWrites),
            Finding::weak(
                format!(
                    "{} standbys follow asynchronously: a failover may lose what was confirmed",
                    settings.standbys
                ),
                advice,
            ),
        ),
        (false, _) => (None, Finding::good("no standby is connected; there is nothing to fail over to")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single() -> Settings {
        Settings {
            version: "15.1".to_owned(),
            fsync: true,
            full_page_writes: true,
            synchronous_commit: "on".to_owned(),
            synchronous_standby_names: String::new(),
            standbys: 0,
            synchronous: 0,
            unseen: 0,
            hears: true,
        }
    }

    fn grade(change: impl FnOnce(&mut Settings)) -> (Grade, bool) {
        let mut settings = single();
        change(&mut settings);
        let checkup = judge(&settings);
        (checkup.grade, checkup.findings.iter().any(|finding| finding.weak))
    }

    #[test]
    fn the_grade_follows_from_the_real_settings() {
        assert_eq!(grade(|_| {}), (Grade::DurableOnOneNode, false));
        assert_eq!(grade(|s| s.fsync = false), (Grade::MayLoseWrites, true));
        assert_eq!(grade(|s| s.full_page_writes = false), (Grade::MayLoseWrites, true));
        assert_eq!(grade(|s| s.standbys = 1), (Grade::MayLoseWrites, true));
        assert_eq!(grade(|s| s.synchronous_commit = "off".to_owned()), (Grade::DurableOnOneNode, false));
        let with_standby = |s: &mut Settings, mode: &str| {
            s.synchronous_standby_names = "ANY 1 (a, b)".to_owned();
            (s.standbys, s.synchronous) = (2, 2);
            s.synchronous_commit = mode.to_owned();
        };
        assert_eq!(grade(|s| with_standby(s, "on")), (Grade::DurableAndLinearizable, false));
        assert_eq!(grade(|s| with_standby(s, "remote_write")), (Grade::MayLoseWrites, true));
        assert_eq!(grade(|s| with_standby(s, "local")), (Grade::MayLoseWrites, true));
        let broken = |s: &mut Settings| {
            with_standby(s, "on");
            s.fsync = false;
        };
        assert_eq!(grade(broken), (Grade::MayLoseWrites, true), "the weakest part counts");
    }

    #[test]
    fn a_pooler_weakens_no_grade_and_is_told() {
        assert_eq!(grade(|s| s.hears = false), (Grade::DurableOnOneNode, true));
    }
}
