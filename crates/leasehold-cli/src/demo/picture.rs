//! What the demo's screen shows, as a plain value. `draw.rs` puts it on a terminal.

use std::time::Duration;

use leasehold::clock::Moment;

use super::act::Caption;
use super::feed::Entry;
use super::journal::Stretch;

/// The least room the picture needs.
pub(super) const WIDTH_MIN: u16 = 60;
pub(super) const HEIGHT_MIN: u16 = 16;
/// How much of the past is shown, at least, where there is room.
const WINDOW: Duration = Duration::from_secs(30);
const CELL_MIN: Duration = Duration::from_millis(250);
/// Work that wrote so recently is taken to be going on.
const FRESH: Duration = Duration::from_millis(200);

/// One look at everything.
#[derive(Debug, Clone)]
pub(super) struct Picture {
    pub(super) now: Moment,
    pub(super) started: Moment,
    pub(super) ttl: Duration,
    pub(super) grade: String,
    /// Where the page is.
    pub(super) page: Option<String>,
    /// What is happening, and why.
    pub(super) caption: Caption,
    pub(super) members: Vec<MemberRow>,
    /// Whose row the keys act on.
    pub(super) selected: Option<String>,
    pub(super) resources: Vec<ResourceRow>,
    /// The newest last.
    pub(super) feed: Vec<Entry>,
    pub(super) overlap: Duration,
    /// Whether the keys and signs are explained instead.
    pub(super) help: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemberRow {
    pub(super) name: String,
    pub(super) state: MemberState,
    /// How many resources the store says it holds.
    pub(super) load: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberState {
    /// On its way in.
    Settling,
    Works,
    /// Drained, but it still holds something.
    Draining,
    Drained,
    Frozen,
    Killed,
    /// It ended by itself.
    Gone,
}

impl MemberState {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Settling => "settling",
            Self::Works => "works",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Frozen => "frozen",
            Self::Killed => "killed",
            Self::Gone => "gone",
        }
    }

    pub(super) fn is_dead(self) -> bool {
        matches!(self, Self::Killed | Self::Gone)
    }
}

#[derive(Debug, Clone)]
pub(super) struct ResourceRow {
    pub(super) name: String,
    /// Who holds it, as the store says.
    pub(super) owner: Option<String>,
    pub(super) token: u64,
    pub(super) state: WorkState,
    /// Who worked on it, and when.
    pub(super) stretches: Vec<Stretch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkState {
    /// The owner's process writes.
    Works,
    /// The owner has it, but its process does not write yet.
    Starts,
    /// Its owner is dead or frozen, and nothing runs: it waits until the others may take it.
    Waits,
    /// Nobody has it.
    Free,
}

impl WorkState {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Starts => "starts",
            Self::Waits => "waits",
            Self::Free => "free",
        }
    }
}

/// The sign of a member in the strips: the first letter of its name.
pub(super) fn letter(member: &str) -> char {
    member.chars().next().map_or('?', |first| first.to_ascii_uppercase())
}

/// A while of one resource's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell<'a> {
    /// Nobody worked on it for most of it.
    Idle,
    /// Who worked on it longest.
    By(&'a str),
    /// Two processes worked on it at once.
    Twice,
}

/// How long one cell of a strip is, so that the whole strip covers the window.
pub(super) fn cell_span(cells: u16) -> Duration {
    let exact = WINDOW / u32::from(cells.max(1));
    let step = Duration::from_millis(50);
    let steps = exact.as_nanos().div_ceil(step.as_nanos());
    CELL_MIN.max(step * u32::try_from(steps).unwrap_or(u32::MAX))
}

/// The past of one resource up to now, the newest cell last. Cells begin at fixed moments, so that a strip only
/// ever moves by whole cells.
pub(super) fn strip(stretches: &[Stretch], now: Moment, cells: u16) -> Vec<Cell<'_>> {
    let span = cell_span(cells);
    let length = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let newest = now.0 / length;
    let first = newest.saturating_sub(u64::from(cells.saturating_sub(1)));
    let cell = |number: u64| {
        let start = Moment(number * length);
        // A cell that has only just begun has nothing to show yet.
        cell(stretches, start.min(now.before(FRESH)), start.after(span).min(now), now)
    };
    (first..=newest).map(cell).collect()
}

fn cell(stretches: &[Stretch], from: Moment, to: Moment, now: Moment) -> Cell<'_> {
    let end = |stretch: &Stretch| if now.since(stretch.to) < FRESH { now } else { stretch.to };
    let mut busy = Duration::ZERO;
    let mut longest: Option<(Duration, &str)> = None;
    let mut busy_until = from;
    for stretch in stretches {
        if stretch.to.min(busy_until).min(to) > stretch.from.max(from) {
            return Cell::Twice;
        }
        let worked = end(stretch).min(to).since(stretch.from.max(from));
        busy_until = busy_until.max(stretch.to);
        busy += worked;
        if !worked.is_zero() && longest.is_none_or(|(most, _)| worked > most) {
            longest = Some((worked, &stretch.member));
        }
    }
    match longest {
        Some((_, member)) if busy * 2 >= to.since(from) => Cell::By(member),
        _ => Cell::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn stretch(member: &str, from: u64, to: u64) -> Stretch {
        let (from, to) = (Moment(from * SECOND), Moment(to * SECOND));
        Stretch { resource: "a".to_owned(), token: 1, member: member.to_owned(), pid: 1, from, to }
    }

    fn drawn(stretches: &[Stretch], now: u64) -> String {
        let sign = |cell: &Cell<'_>| match cell {
            Cell::Idle => '.',
            Cell::By(member) => letter(member),
            Cell::Twice => '#',
        };
        strip(stretches, Moment(now * SECOND), 30).iter().map(sign).collect()
    }

    #[test]
    fn a_strip_shows_who_worked_and_when_nobody_did() {
        let past = [stretch("anna", 101, 110), stretch("bert", 113, 130)];
        assert_eq!(drawn(&past, 130), "AAAAAAAAA...BBBBBBBBBBBBBBBBBB");
        assert_eq!(drawn(&past, 131), "AAAAAAAA...BBBBBBBBBBBBBBBBB..");
    }

    #[test]
    fn an_overlap_is_seen_where_it_was_and_nowhere_else() {
        let past = [stretch("anna", 101, 115), stretch("bert", 113, 130)];
        assert_eq!(drawn(&past, 130), "AAAAAAAAAAAA##BBBBBBBBBBBBBBBB");
    }

    #[test]
    fn strips_cover_the_window_whatever_the_room() {
        for cells in 1..300 {
            let covered = cell_span(cells) * u32::from(cells);
            assert!(covered >= WINDOW && cell_span(cells) >= CELL_MIN, "{cells}");
        }
    }
}
