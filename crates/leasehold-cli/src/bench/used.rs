//! What a process on this machine has used.

use std::time::Duration;

use serde::Serialize;

/// What a party used while it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Used {
    /// Processor time, as a part of one core.
    pub(super) cores: f64,
    /// Memory in use, in megabytes.
    pub(super) memory_mb: f64,
}

/// A look at a process and its children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Look {
    busy: Duration,
    resident: u64,
}

impl Look {
    /// Nothing where the system does not tell, or there is no such process.
    pub(super) fn at(pid: u32) -> Option<Self> {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let mut look =
            Self { busy: busy(&read("stat").ok()?)?, resident: resident(&read("smaps_rollup").ok()?) };
        let children = read(&format!("task/{pid}/children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
            let child = Self::at(child).unwrap_or_default();
            look.busy += child.busy;
            look.resident += child.resident;
        }
        Some(look)
    }

    pub(super) fn since(self, earlier: Self, time: Duration) -> Used {
        let busy = self.busy.saturating_sub(earlier.busy);
        Used { cores: busy.as_secs_f64() / time.as_secs_f64(), memory_mb: self.resident as f64 / 1024.0 }
    }
}

/// Processor time in user and in kernel mode. The system counts in hundredths of a second.
fn busy(stat: &str) -> Option<Duration> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11..13)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks * 10))
}

/// Memory in kilobytes; what processes share is counted in parts, so that all of them together are not more than there is.
fn resident(rollup: &str) -> u64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_of_a_process_is_understood() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4 100 0 0 0 250 50 9 9 20 0 4 0 100 1000 200";
        assert_eq!(busy(stat), Some(Duration::from_secs(3)));
        assert_eq!(busy("nothing"), None);
        assert_eq!(resident("Rss:    900 kB\nPss:    512 kB\nPss_Dirty: 1 kB\n"), 512);
    }
}
