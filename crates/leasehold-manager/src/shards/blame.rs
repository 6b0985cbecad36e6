//! Which camera takes its worker down. A crash says only that it is one of those that the worker had, so after each crash
//! half of the suspects go to other workers: whoever is there at every crash is the one.
//!
//! Sixteen cameras are told apart by the fifth crash, where there is room to part them. Where there is not, those that
//! go apart wait for a while, and each time it is the turn of those that waited least. Crashes are forgotten after ten minutes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use leasehold::clock::Moment;

/// So many crashes within [`WINDOW`] put a camera into quarantine.
pub const CRASHES_MAX: usize = 5;
/// For how long a crash counts.
pub const WINDOW: Duration = Duration::from_secs(600);
/// How long a quarantine lasts.
pub const QUARANTINE: Duration = Duration::from_secs(600);

/// What follows from a crash.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// It was there at every crash, and alone with that: nobody here works on it for a while.
    pub quarantined: Option<String>,
    /// These go to other workers, to be told from the rest.
    pub apart: BTreeSet<String>,
}

/// The crashes that cameras were there at, and who is in quarantine.
#[derive(Debug, Clone, Default)]
pub struct Blame {
    crashes: BTreeMap<String, VecDeque<Moment>>,
    /// How often a camera went apart while its crashes counted.
    parted: BTreeMap<String, u32>,
    quarantined: BTreeMap<String, Moment>,
}

impl Blame {
    /// A worker that had these cameras has crashed.
    pub fn crashed(&mut self, now: Moment, cameras: &BTreeSet<String>) -> Verdict {
        self.forget(now);
        for camera in cameras {
            let crashes = self.crashes.entry(camera.clone()).or_default();
            crashes.push_back(now);
            // Nothing is decided by more.
            if crashes.len() > CRASHES_MAX * 4 {
                crashes.pop_front();
            }
        }
        let count = |camera: &String| self.crashes.get(camera).map_or(0, VecDeque::len);
        let most = cameras.iter().map(count).max().unwrap_or(0);
        let mut suspects: Vec<&String> = cameras.iter().filter(|camera| count(camera) == most).collect();
        suspects.sort_by_key(|camera| self.parted.get(*camera).copied().unwrap_or(0));
        match suspects[..] {
            [alone] if most >= CRASHES_MAX => {
                let alone = alone.clone();
                self.crashes.remove(&alone);
                self.quarantined.insert(alone.clone(), now.after(QUARANTINE));
                Verdict { quarantined: Some(alone), apart: BTreeSet::new() }
            }
            [] | [_] => Verdict::default(),
            _ => {
                let apart: BTreeSet<String> =
                    suspects[..suspects.len() / 2].iter().map(|camera| (*camera).clone()).collect();
                for camera in &apart {
                    *self.parted.entry(camera.clone()).or_default() += 1;
                }
                Verdict { quarantined: None, apart }
            }
        }
    }

    /// Whether nobody here is to work on a camera.
    #[must_use]
    pub fn is_quarantined(&self, now: Moment, camera: &str) -> bool {
        self.quarantined.get(camera).is_some_and(|until| now < *until)
    }

    /// Who is in quarantine, and until when.
    #[must_use]
    pub fn quarantined(&self, now: Moment) -> BTreeMap<String, Moment> {
        let still = self.quarantined.iter().filter(|(_, until)| now < **until);
        still.map(|(camera, until)| (camera.clone(), *until)).collect()
    }

    fn forget(&mut self, now: Moment) {
        for crashes in self.crashes.values_mut() {
            while crashes.front().is_some_and(|crash| now.since(*crash) > WINDOW) {
                crashes.pop_front();
            }
        }
        self.crashes.retain(|_, crashes| !crashes.is_empty());
        self.parted.retain(|camera, _| self.crashes.contains_key(camera));
        self.quarantined.retain(|_, until| now < *until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    fn names(numbers: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
        numbers.into_iter().map(|number| format!("cam-{number:02}")).collect()
    }

    /// Two workers with sixteen places each: whatever goes apart goes to the other one.
    fn crashes_until_found(culprit: &str, cameras: usize) -> usize {
        let (mut blame, mut workers) = (Blame::default(), [names(0..cameras), BTreeSet::new()]);
        for crash in 1..=20 {
            let shard = usize::from(workers[1].contains(culprit));
            let verdict = blame.crashed(at(crash), &workers[shard].clone());
            if let Some(found) = verdict.quarantined {
                assert_eq!(found, culprit);
                return usize::try_from(crash).expect("few");
            }
            for camera in verdict.apart {
                workers[shard].remove(&camera);
                workers[1 - shard].insert(camera);
            }
        }
        panic!("{culprit} was never found");
    }

    #[test]
    fn the_camera_that_takes_its_worker_down_is_found_among_sixteen_by_the_fifth_crash() {
        for culprit in names(0..16) {
            assert_eq!(crashes_until_found(&culprit, 16), CRASHES_MAX);
        }
        assert_eq!(crashes_until_found("cam-00", 1), CRASHES_MAX);
    }

    #[test]
    fn with_one_worker_the_culprit_is_found_by_having_others_wait() {
        for culprit in names(0..8) {
            let (mut blame, all, mut waits) = (Blame::default(), names(0..8), BTreeSet::new());
            let found = (1..40).find_map(|crash| {
                // If the culprit is among those who wait nothing happens, until they are back.
                if waits.contains(&culprit) {
                    waits.clear();
                }
                let verdict = blame.crashed(at(crash * 10), &all.difference(&waits).cloned().collect());
                waits = verdict.apart;
                verdict.quarantined
            });
            assert_eq!(found, Some(culprit));
        }
    }

    #[test]
    fn crashes_that_lie_apart_put_nobody_into_quarantine() {
        let mut blame = Blame::default();
        for crash in 0..50 {
            let verdict = blame.crashed(at(crash * 151), &names([1]));
            assert_eq!(verdict, Verdict::default(), "crash {crash}");
        }
    }

    #[test]
    fn a_quarantine_ends_and_the_past_with_it() {
        let mut blame = Blame::default();
        let last = (1..=5).map(|second| blame.crashed(at(second), &names([1]))).last().expect("five");
        assert_eq!(last.quarantined, Some("cam-01".to_owned()));
        assert!(blame.is_quarantined(at(604), "cam-01"));
        assert!(!blame.is_quarantined(at(605), "cam-01"));
        assert_eq!(blame.quarantined(at(604)).len(), 1);
        assert_eq!(blame.crashed(at(606), &names([1])), Verdict::default());
    }

    #[test]
    fn a_worker_without_cameras_accuses_nobody() {
        assert_eq!(Blame::default().crashed(at(1), &BTreeSet::new()), Verdict::default());
    }
}
