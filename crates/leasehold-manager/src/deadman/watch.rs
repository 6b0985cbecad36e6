//! What the deadman knows and what is due: no I/O, no clock. The supervisor keeps a copy of the same thing, from
//! which a new deadman is told everything the old one knew.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use leasehold::clock::Moment;

use crate::group::GroupId;

/// How much later than the supervisor the deadman asks children to end: usually it finds that done.
pub(crate) const TERM_SLACK: Duration = Duration::from_millis(100);
/// How often a group past its deadline is killed again, until it is forgotten.
const KILL_AGAIN: Duration = Duration::from_millis(100);

/// When all children are asked to end, and when they are killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) term_at: Moment,
    pub(crate) kill_at: Moment,
}

/// Something the supervisor tells the deadman.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    Until(Deadline),
    Watch(GroupId),
    Free(GroupId),
    Lasting(GroupId, Moment),
    Demoting(GroupId, Moment),
    Stopping(GroupId, Moment),
    Forget(GroupId),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Until(Deadline { term_at, kill_at }) => write!(f, "until {} {}", term_at.0, kill_at.0),
            Self::Watch(group) => write!(f, "watch {group}"),
            Self::Free(group) => write!(f, "free {group}"),
            Self::Lasting(group, kill_at) => write!(f, "lasting {group} {}", kill_at.0),
            Self::Demoting(group, kill_at) => write!(f, "demoting {group} {}", kill_at.0),
            Self::Stopping(group, kill_at) => write!(f, "stopping {group} {}", kill_at.0),
            Self::Forget(group) => write!(f, "forget {group}"),
        }
    }
}

impl FromStr for Line {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let moment = |number: &str| number.parse().map(Moment).map_err(|_| ());
        match *text.split(' ').collect::<Vec<_>>() {
            ["until", term_at, kill_at] => {
                Ok(Self::Until(Deadline { term_at: moment(term_at)?, kill_at: moment(kill_at)? }))
            }
            ["watch", group] => Ok(Self::Watch(group.parse()?)),
            ["free", group] => Ok(Self::Free(group.parse()?)),
            ["lasting", group, kill_at] => Ok(Self::Lasting(group.parse()?, moment(kill_at)?)),
            ["demoting", group, kill_at] => Ok(Self::Demoting(group.parse()?, moment(kill_at)?)),
            ["stopping", group, kill_at] => Ok(Self::Stopping(group.parse()?, moment(kill_at)?)),
            ["forget", group] => Ok(Self::Forget(group.parse()?)),
            _ => Err(()),
        }
    }
}

/// What to do to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    AskToEnd,
    Kill,
}

#[derive(Debug, Default)]
struct Watched {
    /// It leads nothing, and the deadline of all is not its own.
    free: bool,
    /// It has a deadline of its own, and that of all is not its own. Never of a free one.
    own: Option<Moment>,
    /// The supervisor has told it to stop leading, and kills it then unless it says that it did. Never of a free one.
    demote_by: Option<Moment>,
    /// The supervisor has asked it to end, and kills it then.
    stop_by: Option<Moment>,
    asked: bool,
}

/// The watched groups and their deadline.
///
/// Invariant: only `free` lifts a deadline, and never that of a group that has been asked to end; only `lasting` moves one
/// that is a group's own.
///
/// Before the first `until` the deadline has passed: what nobody vouches for does not run.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    until: Option<Deadline>,
    groups: BTreeMap<GroupId, Watched>,
}

impl Watch {
    /// Takes in what the supervisor says.
    pub(crate) fn hear(&mut self, line: Line) {
        match line {
            Line::Until(new) => self.extend(new),
            Line::Watch(group) => self.groups.entry(group).or_default().free = false,
            Line::Free(group) => {
                let watched = self.groups.entry(group).or_default();
                *watched = Watched { free: true, stop_by: watched.stop_by, ..Watched::default() };
            }
            Line::Lasting(group, kill_at) => {
                let watched = self.groups.entry(group).or_default();
                (watched.free, watched.own) = (false, Some(kill_at));
            }
            Line::Demoting(group, kill_at) => {
                if let Some(watched) = self.groups.get_mut(&group).filter(|watched| !watched.free) {
                    watched.demote_by = Some(earliest(watched.demote_by, kill_at));
                }
            }
            Line::Stopping(group, kill_at) => {
                if let Some(watched) = self.groups.get_mut(&group) {
                    watched.stop_by = Some(earliest(watched.stop_by, kill_at));
                }
            }
            Line::Forget(group) => {
                self.groups.remove(&group);
            }
        }
    }

    fn extend(&mut self, new: Deadline) {
        let old = self.until.unwrap_or(Deadline { term_at: Moment(0), kill_at: Moment(0) });
        if new.term_at > old.term_at {
            self.groups.values_mut().for_each(|watched| watched.asked = false);
        }
        self.until =
            Some(Deadline { term_at: old.term_at.max(new.term_at), kill_at: old.kill_at.max(new.kill_at) });
    }

    /// The lines that tell a new deadman all of this.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let until = self.until.map(Line::Until);
        let groups = self.groups.iter().flat_map(|(group, watched)| {
            let group = *group;
            [
                // One line, because what is heard of a group first must not be a deadline that is not its own.
                Some(match watched.own {
                    Some(kill_at) => Line::Lasting(group, kill_at),
                    None if watched.free => Line::Free(group),
                    None => Line::Watch(group),
                }),
                watched.demote_by.map(|kill_at| Line::Demoting(group, kill_at)),
                watched.stop_by.map(|kill_at| Line::Stopping(group, kill_at)),
            ]
        });
        std::iter::once(until).chain(groups).flatten().collect()
    }

    /// Every watched group, the free ones too.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.groups.keys().copied()
    }

    /// What is due at `now`. A group past its deadline is due each time.
    pub(crate) fn due(&mut self, now: Moment) -> Vec<(GroupId, Due)> {
        let until = self.until;
        let due_for = |watched: &mut Watched| {
            if kill_at(until, watched).is_some_and(|at| now >= at) {
                return Some(Due::Kill);
            }
            let ask = ask_at(until, watched).is_some_and(|at| now >= at);
            watched.asked |= ask;
            ask.then_some(Due::AskToEnd)
        };
        self.groups.iter_mut().filter_map(|(group, watched)| Some((*group, due_for(watched)?))).collect()
    }

    /// The next moment at which something is due, if nobody says anything before.
    pub(crate) fn next(&self, now: Moment) -> Option<Moment> {
        let next_for = |watched: &Watched| {
            let kill_at = kill_at(self.until, watched)?;
            if now >= kill_at {
                return Some(now.after(KILL_AGAIN));
            }
            Some(ask_at(self.until, watched).map_or(kill_at, |ask_at| ask_at.min(kill_at)))
        };
        self.groups.values().filter_map(next_for).min()
    }
}

fn earliest(old: Option<Moment>, new: Moment) -> Moment {
    old.map_or(new, |old| old.min(new))
}

/// `None` if the group may run for as long as the supervisor lives.
fn kill_at(until: Option<Deadline>, watched: &Watched) -> Option<Moment> {
    let is_of_all = !watched.free && watched.own.is_none();
    let of_all = is_of_all.then(|| until.map_or(Moment(0), |until| until.kill_at));
    [of_all, watched.own, watched.demote_by, watched.stop_by].into_iter().flatten().min()
}

/// `None` if the group need not end, has been asked already, by the supervisor or from here, or is about to stop
/// leading.
fn ask_at(until: Option<Deadline>, watched: &Watched) -> Option<Moment> {
    let told = watched.free
        || watched.own.is_some()
        || watched.asked
        || watched.demote_by.or(watched.stop_by).is_some();
    Some(until.filter(|_| !told)?.term_at.after(TERM_SLACK))
}

#[cfg(test)]
mod tests;
