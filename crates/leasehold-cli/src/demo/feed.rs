//! The moves of the demo's work from member to member, measured by what the work wrote, and how they are told.

use std::time::Duration;

use leasehold::clock::Moment;

use super::act::{Deed, Done};
use super::journal::Stretch;

/// Work that has not written for so long has ended.
pub(super) const OVER_AFTER: Duration = Duration::from_millis(300);

/// One resource's way from one process to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) resource: String,
    /// Nobody, when it is worked on for the first time.
    pub(super) from: Option<String>,
    pub(super) to: String,
    /// When the new process wrote first.
    pub(super) at: Moment,
    /// For how long nobody worked on it.
    pub(super) idle: Duration,
    pub(super) why: &'static str,
}

/// Something worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) at: Moment,
    pub(super) text: String,
}

/// Every move, in order. Takes stretches by resource and beginning.
pub(super) fn moves(stretches: &[Stretch], acts: &[Done]) -> Vec<Move> {
    let mut moves = Vec::new();
    for of_one in stretches.chunk_by(|one, two| one.resource == two.resource) {
        let before = std::iter::once(None).chain(of_one.iter().map(Some));
        moves.extend(before.zip(of_one).map(|(before, stretch)| Move {
            resource: stretch.resource.clone(),
            from: before.map(|before| before.member.clone()),
            to: stretch.member.clone(),
            at: stretch.from,
            idle: before.map_or(Duration::ZERO, |before| stretch.from.since(before.to)),
            why: why(before, stretch, acts),
        }));
    }
    moves.sort_by_key(|one| one.at);
    moves
}

/// The newest act that explains why work went from one member to another.
fn why(before: Option<&Stretch>, stretch: &Stretch, acts: &[Done]) -> &'static str {
    let newest = |member: &str| {
        let earlier = acts.iter().rev().filter(|done| done.at < stretch.from);
        earlier.into_iter().find(|done| done.act.member == member).map(|done| done.act.deed)
    };
    if before.is_some_and(|before| before.member == stretch.member) {
        return "started again";
    }
    match (before.and_then(|before| newest(&before.member)), newest(&stretch.member)) {
        (Some(Deed::Kill), _) => "killed",
        (Some(Deed::Freeze), _) => "frozen",
        (Some(Deed::Drain), _) => "drained",
        (_, Some(Deed::Join)) => "joined",
        (_, Some(Deed::Thaw)) => "woke up",
        (_, Some(Deed::Undrain)) => "back again",
        _ => "balance",
    }
}

impl Move {
    pub(super) fn text(&self) -> String {
        let from = self.from.as_deref().unwrap_or("nobody");
        format!("{}: {from} → {}, idle {} ({})", self.resource, self.to, span(self.idle), self.why)
    }
}

/// All that is worth telling, in order: acts, moves, ends of frozen members' children, and what was summed up.
pub(super) fn entries(stretches: &[Stretch], acts: &[Done], sums: &[Entry], now: Moment) -> Vec<Entry> {
    let of_move = |one: &Move| one.from.is_some().then(|| Entry { at: one.at, text: one.text() });
    let of_act = |done: &Done| Entry { at: done.at, text: done.act.headline() };
    let mut entries: Vec<Entry> = moves(stretches, acts).iter().filter_map(of_move).collect();
    entries.extend(acts.iter().map(of_act));
    entries.extend(acts.iter().filter_map(|done| ended_in_the_cold(done, stretches, now)));
    entries.extend(sums.iter().cloned());
    entries.sort_by_key(|entry| entry.at);
    entries
}

/// How the children of a frozen member ended, when all have.
fn ended_in_the_cold(done: &Done, stretches: &[Stretch], now: Moment) -> Option<Entry> {
    if done.act.deed != Deed::Freeze {
        return None;
    }
    let hit = |stretch: &&Stretch| {
        stretch.member == done.act.member && stretch.from < done.at && stretch.to.after(OVER_AFTER) > done.at
    };
    let last = stretches.iter().filter(hit).map(|stretch| stretch.to).max()?;
    let count = stretches.iter().filter(hit).count();
    let (after, children) = (span(last.since(done.at)), if count == 1 { "child" } else { "children" });
    let text = format!("the deadman ended {}'s {count} {children} {after} after the freeze", done.act.member);
    (now.since(last) > OVER_AFTER).then_some(Entry { at: last, text })
}

/// What an act led to: how much moved, how soon, and how long anything lay idle.
pub(super) fn sum(moves: &[Move], since: Moment) -> String {
    let all: Vec<&Move> = moves.iter().filter(|one| one.at >= since).collect();
    let Some(last) = all.iter().map(|one| one.at).max() else { return "nothing had to move".to_owned() };
    let idle = all.iter().map(|one| one.idle).max().unwrap_or_default();
    let moved = all.iter().filter(|one| one.from.is_some()).count();
    let taken = match all.len() - moved {
        0 => String::new(),
        first => format!("{first} taken, "),
    };
    let only = all.iter().all(|one| one.to == all[0].to);
    let to = if only { format!(" to {}", all[0].to) } else { String::new() };
    let (last, idle) = (span(last.since(since)), span(idle));
    format!("{taken}{moved} moved{to}, the last after {last}; idle {idle} at most")
}

/// A duration as people read it.
pub(super) fn span(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.2} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::act::Act;

    const MILLI: u64 = 1_000_000;

    fn stretch(member: &str, from: u64, to: u64) -> Stretch {
        let (from, to) = (Moment(from * MILLI), Moment(to * MILLI));
        Stretch { resource: "gate-1".to_owned(), token: 1, member: member.to_owned(), pid: 1, from, to }
    }

    fn done(deed: Deed, member: &str, at: u64) -> Done {
        Done { act: Act::new(deed, member), at: Moment(at * MILLI) }
    }

    fn told(stretches: &[Stretch], acts: &[Done]) -> Vec<String> {
        entries(stretches, acts, &[], Moment(60_000 * MILLI)).into_iter().map(|entry| entry.text).collect()
    }

    #[test]
    fn a_move_is_measured_from_the_last_sign_of_the_old_to_the_first_of_the_new() {
        let stretches = [stretch("anna", 0, 10_000), stretch("bert", 12_910, 20_000)];
        let expected = ["anna is killed (kill -9)", "gate-1: anna → bert, idle 2.91 s (killed)"];
        assert_eq!(told(&stretches, &[done(Deed::Kill, "anna", 10_000)]), expected);
    }

    #[test]
    fn a_move_is_explained_by_the_newest_act_on_whom_it_concerns() {
        let past = [stretch("anna", 0, 10_000), stretch("bert", 10_061, 20_000)];
        let why = |acts: &[Done]| moves(&past, acts).last().map(|one| one.why);
        assert_eq!(why(&[]), Some("balance"));
        assert_eq!(why(&[done(Deed::Join, "bert", 9000)]), Some("joined"));
        assert_eq!(why(&[done(Deed::Join, "bert", 8000), done(Deed::Drain, "anna", 9000)]), Some("drained"));
        let undone = [done(Deed::Drain, "anna", 8000), done(Deed::Undrain, "anna", 9000)];
        assert_eq!(why(&undone), Some("balance"));
        assert_eq!(why(&[done(Deed::Kill, "anna", 10_070)]), Some("balance"), "it came later");
        let again = [stretch("anna", 0, 10_000), stretch("anna", 10_061, 20_000)];
        assert_eq!(moves(&again, &[done(Deed::Join, "anna", 0)])[1].why, "started again");
    }

    #[test]
    fn the_end_of_a_frozen_members_children_is_told_when_all_have_ended() {
        let acts = [done(Deed::Freeze, "bert", 10_000)];
        let ended = [stretch("bert", 0, 12_240)];
        let said = "the deadman ended bert's 1 child 2.24 s after the freeze";
        assert!(told(&ended, &acts).contains(&said.to_owned()));
        let goes_on = [stretch("bert", 0, 59_990)];
        assert_eq!(told(&goes_on, &acts), ["bert is frozen (SIGSTOP)"]);
    }

    #[test]
    fn what_an_act_led_to_is_summed_up() {
        let stretches = [stretch("anna", 1000, 10_000), stretch("bert", 10_061, 20_000)];
        let moves = moves(&stretches, &[]);
        let sum_since = |at: u64| sum(&moves, Moment(at * MILLI));
        assert_eq!(sum_since(0), "1 taken, 1 moved, the last after 10.06 s; idle 61 ms at most");
        assert_eq!(sum_since(10_000), "1 moved to bert, the last after 61 ms; idle 61 ms at most");
        assert_eq!(sum_since(11_000), "nothing had to move");
    }
}
