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
    Stopping(GroupId, Moment),
    Forget(GroupId),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Until(Deadline { term_at, kill_at }) => write!(f, "until {} {}", term_at.0, kill_at.0),
            Self::Watch(group) => write!(f, "watch {group}"),
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
    /// The supervisor has asked it to end, and kills it then.
    stop_by: Option<Moment>,
    asked: bool,
}

/// The watched groups and their deadline.
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
            Line::Watch(group) => {
                self.groups.entry(group).or_default();
            }
            Line::Stopping(group, kill_at) => {
                if let Some(watched) = self.groups.get_mut(&group) {
                    watched.stop_by = Some(watched.stop_by.map_or(kill_at, |old| old.min(kill_at)));
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
            [Some(Line::Watch(*group)), watched.stop_by.map(|kill_at| Line::Stopping(*group, kill_at))]
        });
        std::iter::once(until).chain(groups).flatten().collect()
    }

    /// Every watched group.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.groups.keys().copied()
    }

    /// What is due at `now`. A group past its deadline is due each time.
    pub(crate) fn due(&mut self, now: Moment) -> Vec<(GroupId, Due)> {
        let until = self.until;
        let due_for = |watched: &mut Watched| {
            if now >= kill_at(until, watched) {
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
            let kill_at = kill_at(self.until, watched);
            if now >= kill_at {
                return now.after(KILL_AGAIN);
            }
            ask_at(self.until, watched).map_or(kill_at, |ask_at| ask_at.min(kill_at))
        };
        self.groups.values().map(next_for).min()
    }
}

fn kill_at(until: Option<Deadline>, watched: &Watched) -> Moment {
    let all = until.map_or(Moment(0), |until| until.kill_at);
    watched.stop_by.map_or(all, |own| own.min(all))
}

/// `None` if the group has been asked already, by the supervisor or from here.
fn ask_at(until: Option<Deadline>, watched: &Watched) -> Option<Moment> {
    let until = until.filter(|_| watched.stop_by.is_none() && !watched.asked)?;
    Some(until.term_at.after(TERM_SLACK))
}

#[cfg(test)]
mod tests;
