//! Deadlines kept, children found and nothing else harmed: the deadman's watch alone.

use proptest::prelude::*;

use super::*;

fn group(number: i32) -> GroupId {
    GroupId::new(number).expect("a group's number")
}

fn ms(number: u64) -> Moment {
    Moment(number * 1_000_000)
}

fn until(term_ms: u64, kill_ms: u64) -> Line {
    Line::Until(Deadline { term_at: ms(term_ms), kill_at: ms(kill_ms) })
}

fn watch(lines: impl IntoIterator<Item = Line>) -> Watch {
    let mut watch = Watch::default();
    lines.into_iter().for_each(|line| watch.hear(line));
    watch
}

#[test]
fn a_group_is_asked_once_and_then_killed() {
    let mut watch = watch([until(1000, 2000), Line::Watch(group(7))]);
    assert_eq!(watch.due(ms(1099)), []);
    assert_eq!(watch.next(ms(1099)), Some(ms(1100)));
    assert_eq!(watch.due(ms(1100)), [(group(7), Due::AskToEnd)]);
    assert_eq!(watch.due(ms(1101)), []);
    assert_eq!(watch.next(ms(1101)), Some(ms(2000)));
    assert_eq!(watch.due(ms(2000)), [(group(7), Due::Kill)]);
}

#[test]
fn a_group_that_was_asked_is_asked_again_only_if_all_got_more_time_before_they_are() {
    let mut watch = watch([until(1000, 2000), Line::Watch(group(7))]);
    assert_eq!(watch.due(ms(1100)), [(group(7), Due::AskToEnd)]);
    watch.hear(until(1000, 3000));
    watch.hear(until(900, 3000));
    assert_eq!(watch.due(ms(1200)), []);
    watch.hear(until(2000, 3000));
    assert_eq!(watch.due(ms(2099)), []);
    assert_eq!(watch.due(ms(2100)), [(group(7), Due::AskToEnd)]);
}

#[test]
fn every_group_is_known_until_it_is_forgotten() {
    let mut watch = watch([Line::Watch(group(7)), Line::Watch(group(8)), Line::Watch(group(9))]);
    watch.hear(Line::Forget(group(8)));
    assert_eq!(watch.groups().collect::<Vec<_>>(), [group(7), group(9)]);
}

#[test]
fn a_group_past_its_deadline_is_killed_until_it_is_forgotten() {
    let mut watch = watch([until(1000, 2000), Line::Watch(group(7))]);
    assert_eq!(watch.due(ms(2000)), [(group(7), Due::Kill)]);
    assert_eq!(watch.next(ms(2000)), Some(ms(2100)));
    assert_eq!(watch.due(ms(2100)), [(group(7), Due::Kill)]);
    watch.hear(Line::Forget(group(7)));
    assert_eq!(watch.due(ms(2200)), []);
    assert_eq!(watch.next(ms(2200)), None);
}

#[test]
fn without_a_deadline_nothing_may_run() {
    let mut watch = watch([Line::Watch(group(7))]);
    assert_eq!(watch.due(ms(0)), [(group(7), Due::Kill)]);
}

#[test]
fn a_group_that_is_being_stopped_is_not_asked_again_and_dies_by_the_earlier_deadline() {
    let mut watch = watch([until(1000, 2000), Line::Watch(group(7)), Line::Stopping(group(7), ms(500))]);
    watch.hear(Line::Stopping(group(7), ms(900)));
    assert_eq!(watch.next(ms(0)), Some(ms(500)));
    assert_eq!(watch.due(ms(500)), [(group(7), Due::Kill)]);

    let mut late =
        self::watch([until(1000, 2000), Line::Watch(group(7)), Line::Stopping(group(7), ms(9000))]);
    assert_eq!(late.due(ms(1500)), []);
    assert_eq!(late.due(ms(2000)), [(group(7), Due::Kill)]);
}

#[test]
fn stopping_a_group_that_is_not_watched_does_not_watch_it() {
    let mut watch = watch([until(1, 2), Line::Stopping(group(7), ms(1))]);
    assert_eq!(watch.due(ms(5)), []);
}

#[test]
fn a_free_group_has_no_deadline_until_it_is_watched() {
    let mut watch = watch([Line::Free(group(7))]);
    assert_eq!(watch.groups().collect::<Vec<_>>(), [group(7)]);
    watch.hear(until(1000, 2000));
    assert_eq!(watch.due(ms(9000)), []);
    assert_eq!(watch.next(ms(9000)), None);
    watch.hear(Line::Watch(group(7)));
    assert_eq!(watch.due(ms(9000)), [(group(7), Due::Kill)]);
}

#[test]
fn a_group_that_is_freed_may_outlive_the_deadline_and_is_asked_as_before_when_it_is_watched_again() {
    let mut watch = watch([until(1000, 2000), Line::Watch(group(7))]);
    assert_eq!(watch.due(ms(1100)), [(group(7), Due::AskToEnd)]);
    watch.hear(Line::Free(group(7)));
    assert_eq!(watch.due(ms(2000)), []);
    assert_eq!(watch.next(ms(1100)), None);
    watch.hear(Line::Watch(group(7)));
    assert_eq!(watch.due(ms(1100)), [(group(7), Due::AskToEnd)]);
}

#[test]
fn a_group_that_is_being_demoted_is_not_asked_to_end_and_dies_by_the_earlier_deadline() {
    let demoting = |at| watch([until(1000, 2000), Line::Watch(group(7)), Line::Demoting(group(7), ms(at))]);
    let mut early = demoting(500);
    early.hear(Line::Demoting(group(7), ms(900)));
    early.hear(Line::Watch(group(7)));
    assert_eq!(early.next(ms(0)), Some(ms(500)));
    assert_eq!(early.due(ms(499)), []);
    assert_eq!(early.due(ms(500)), [(group(7), Due::Kill)]);

    let mut late = demoting(9000);
    assert_eq!(late.due(ms(1500)), []);
    assert_eq!(late.due(ms(2000)), [(group(7), Due::Kill)]);
}

#[test]
fn a_group_that_stopped_leading_in_time_is_free() {
    let mut watch = watch([until(1000, 2000), Line::Watch(group(7)), Line::Demoting(group(7), ms(500))]);
    watch.hear(Line::Free(group(7)));
    assert_eq!(watch.due(ms(9000)), []);
    watch.hear(until(8000, 9000));
    watch.hear(Line::Watch(group(7)));
    assert_eq!(watch.due(ms(7000)), [], "the end of its former term is not the end of this one");
}

#[test]
fn a_free_group_cannot_be_demoted_but_stopped() {
    let mut watch = watch([until(1, 2), Line::Free(group(7)), Line::Demoting(group(7), ms(500))]);
    assert_eq!(watch.due(ms(500)), []);
    watch.hear(Line::Stopping(group(7), ms(600)));
    watch.hear(Line::Free(group(7)));
    assert_eq!(watch.next(ms(500)), Some(ms(600)));
    assert_eq!(watch.due(ms(600)), [(group(7), Due::Kill)]);
}

#[test]
fn a_deadline_of_its_own_moves_either_way_and_is_nobody_elses() {
    let mut watch = watch([until(1000, 2000), Line::Lasting(group(7), ms(5000)), Line::Watch(group(8))]);
    assert_eq!(watch.due(ms(2000)), [(group(8), Due::Kill)]);
    watch.hear(Line::Forget(group(8)));
    assert_eq!(watch.next(ms(2000)), Some(ms(5000)));
    watch.hear(Line::Lasting(group(7), ms(3000)));
    assert_eq!(watch.due(ms(2999)), []);
    assert_eq!(watch.due(ms(3000)), [(group(7), Due::Kill)]);
    watch.hear(Line::Lasting(group(7), ms(9000)));
    assert_eq!(watch.due(ms(3000)), []);
    watch.hear(Line::Free(group(7)));
    assert_eq!(watch.next(ms(9000)), None);
}

#[test]
fn a_new_deadman_learns_of_a_group_and_its_own_deadline_at_once() {
    let watch = watch([Line::Free(group(7)), Line::Lasting(group(7), ms(5000))]);
    assert_eq!(watch.lines(), [Line::Lasting(group(7), ms(5000))]);
}

#[test]
fn lines_that_make_no_sense_are_refused() {
    for text in [
        "",
        "watch",
        "watch 0",
        "watch 1",
        "watch -5",
        "watch 5 6",
        "forget x",
        "until 5",
        "until -1 5",
        "kill 5",
        "watch  5",
        "free",
        "free 1",
        "free 5 6",
        "demoting 5",
        "lasting 5",
        "lasting 1 6",
        "demoting 0 6",
        "demoting 5 x",
    ] {
        assert_eq!(text.parse::<Line>(), Err(()), "{text:?}");
    }
}

fn any_line() -> impl Strategy<Value = Line> {
    let any_group = || (2..6_i32).prop_map(group);
    prop_oneof![
        (0..100_u64, 0..100_u64).prop_map(|(term, kill)| until(term, kill)),
        any_group().prop_map(Line::Watch),
        any_group().prop_map(Line::Free),
        (any_group(), 0..100_u64).prop_map(|(group, at)| Line::Lasting(group, ms(at))),
        (any_group(), 0..100_u64).prop_map(|(group, at)| Line::Demoting(group, ms(at))),
        (any_group(), 0..100_u64).prop_map(|(group, at)| Line::Stopping(group, ms(at))),
        any_group().prop_map(Line::Forget),
    ]
}

proptest! {
    #[test]
    fn a_line_is_read_as_it_was_written(line in any_line()) {
        prop_assert_eq!(line.to_string().parse(), Ok(line));
    }

    #[test]
    fn the_deadline_of_all_never_falls(lines in prop::collection::vec(any_line(), 0..20), now in 0..100_u64) {
        let mut watch = watch([Line::Watch(group(9))]);
        let mut kill_at_max = 0;
        for line in lines {
            watch.hear(line);
            if let Line::Until(deadline) = line {
                kill_at_max = kill_at_max.max(deadline.kill_at.0);
            }
            let killed = watch.due(ms(now)).contains(&(group(9), Due::Kill));
            prop_assert_eq!(killed, ms(now).0 >= kill_at_max);
        }
    }

    #[test]
    fn a_new_deadman_kills_what_the_old_one_would(lines in prop::collection::vec(any_line(), 0..20), now in 0..300_u64) {
        let mut old = watch(lines);
        let mut new = watch(old.lines());
        let kills = |watch: &mut Watch| {
            watch.due(ms(now)).into_iter().filter(|(_, due)| *due == Due::Kill).collect::<Vec<_>>()
        };
        prop_assert_eq!(kills(&mut old), kills(&mut new));
        prop_assert_eq!(old.groups().collect::<Vec<_>>(), new.groups().collect::<Vec<_>>());
        prop_assert_eq!(old.lines(), new.lines());
    }

    #[test]
    fn nothing_but_free_lifts_the_deadline_of_a_demotion(
        lines in prop::collection::vec(any_line(), 0..20),
        at in 0..100_u64,
    ) {
        let mut watch = watch([Line::Watch(group(2)), Line::Demoting(group(2), ms(at))]);
        let lifts = [Line::Free(group(2)), Line::Forget(group(2))];
        for line in lines.into_iter().filter(|line| !lifts.contains(line)) {
            watch.hear(line);
            prop_assert!(watch.due(ms(at)).contains(&(group(2), Due::Kill)));
        }
    }

    #[test]
    fn a_free_group_is_never_due(lines in prop::collection::vec(any_line(), 0..20), now in 0..300_u64) {
        let mut watch = watch([Line::Watch(group(9)), Line::Demoting(group(9), ms(1)), Line::Free(group(9))]);
        for line in lines {
            watch.hear(line);
            prop_assert!(watch.due(ms(now)).iter().all(|(due, _)| *due != group(9)));
            prop_assert!(watch.groups().any(|known| known == group(9)));
        }
    }

    #[test]
    fn a_stop_is_never_lifted(lines in prop::collection::vec(any_line(), 0..20), at in 0..100_u64) {
        let mut watch = watch([Line::Free(group(2)), Line::Stopping(group(2), ms(at))]);
        for line in lines.into_iter().filter(|line| *line != Line::Forget(group(2))) {
            watch.hear(line);
            prop_assert!(watch.due(ms(at)).contains(&(group(2), Due::Kill)));
        }
    }

    #[test]
    fn whatever_is_due_has_been_announced(lines in prop::collection::vec(any_line(), 0..20), now in 0..300_u64) {
        let mut watch = watch(lines);
        watch.due(ms(now));
        if let Some(next) = watch.next(ms(now)) {
            prop_assert!(next > ms(now));
            prop_assert!(!watch.due(next).is_empty());
        }
    }
}
