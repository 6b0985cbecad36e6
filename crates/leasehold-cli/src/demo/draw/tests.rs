//! Golden pictures in `tests/golden`; run with `UPDATE_GOLDEN=1` to write them anew.

use std::path::Path;
use std::time::Duration;

use leasehold::clock::Moment;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::demo::act::{Act, Caption, Deed, Done};
use crate::demo::feed::entries;
use crate::demo::journal::{Stretch, overlap};

const SECOND: u64 = 1_000_000_000;

fn at(seconds: f64) -> Moment {
    Moment(1000 * SECOND).after(Duration::from_secs_f64(seconds))
}

/// A minute in the life of three members and a newcomer, one of whom is killed and one frozen.
fn picture() -> Picture {
    let stretch = |resource: &str, token, member: &str, from, to| Stretch {
        resource: resource.to_owned(),
        token,
        member: member.to_owned(),
        pid: 1,
        from: at(from),
        to: at(to),
    };
    let mut resources = Vec::new();
    for (place, kind) in ["crane", "gate", "pump"].iter().enumerate() {
        for number in 1..=4 {
            let name = format!("{kind}-{number}");
            let first = ["anna", "bert", "cleo"][place];
            let (owner, stretches) = match (first, number) {
                ("anna", 1) => (
                    "dora",
                    vec![stretch(&name, 1, "anna", 1.0, 50.0), stretch(&name, 2, "dora", 50.061, 60.0)],
                ),
                ("anna", _) => (
                    "cleo",
                    vec![stretch(&name, 1, "anna", 1.0, 53.0), stretch(&name, 2, "cleo", 55.9, 60.0)],
                ),
                ("bert", 4) => ("bert", vec![stretch(&name, 1, "bert", 1.0, 59.0)]),
                (member, _) => (member, vec![stretch(&name, 1, member, 1.0, 60.0)]),
            };
            let token = stretches.last().map_or(0, |stretch| stretch.token);
            let state = if name == "gate-4" { WorkState::Waits } else { WorkState::Works };
            resources.push(ResourceRow { name, owner: Some(owner.to_owned()), token, state, stretches });
        }
    }
    let member = |name: &str, state, load| MemberRow { name: name.to_owned(), state, load };
    let done = |deed, member: &str, when| Done { act: Act::new(deed, member), at: at(when) };
    let acts =
        [done(Deed::Join, "dora", 49.0), done(Deed::Kill, "anna", 53.0), done(Deed::Freeze, "bert", 57.0)];
    let stretches: Vec<Stretch> = resources.iter().flat_map(|row| row.stretches.clone()).collect();
    Picture {
        now: at(60.0),
        started: at(0.0),
        ttl: Duration::from_secs(3),
        grade: "durable on one node".to_owned(),
        page: None,
        caption: acts[2].act.caption(),
        members: vec![
            member("anna", MemberState::Killed, 0),
            member("bert", MemberState::Frozen, 4),
            member("cleo", MemberState::Works, 7),
            member("dora", MemberState::Works, 1),
            member("emil", MemberState::Settling, 0),
        ],
        selected: Some("cleo".to_owned()),
        overlap: overlap(&stretches),
        feed: entries(&stretches, &acts, &[], at(60.0)),
        resources,
        help: false,
    }
}

fn drawn(picture: &Picture, paint: Paint, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, picture, paint)).unwrap();
    terminal
}

fn text(picture: &Picture, width: u16, height: u16) -> String {
    let terminal = drawn(picture, Paint::new(true), width, height);
    let cells = terminal.backend().buffer().content();
    let row = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
    let rows = cells.chunks(usize::from(width)).map(row);
    rows.map(|row| row.trim_end().to_owned() + "\n").collect()
}

fn assert_golden(name: &str, picture: &Picture, width: u16, height: u16) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let found = text(picture, width, height);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{name} differs; look at it and run with UPDATE_GOLDEN=1\n{found}");
}

#[test]
fn the_picture_is_as_it_should_be_at_any_size() {
    assert_golden("demo-80x24.txt", &picture(), 80, 24);
    assert_golden("demo-120x40.txt", &picture(), 120, 40);
    assert_golden("demo-60x16.txt", &picture(), 60, 16);
    assert_golden("demo-tiny.txt", &picture(), 50, 10);
}

#[test]
fn help_fits_on_the_smallest_screen() {
    assert_golden("demo-help.txt", &Picture { help: true, ..picture() }, 60, 16);
}

#[test]
fn no_size_is_too_odd() {
    for (width, height) in [(1, 1), (60, 16), (60, 200), (300, 16), (79, 23), (61, 21)] {
        let _ = text(&picture(), width, height);
    }
    let nobody = Picture { members: Vec::new(), resources: Vec::new(), feed: Vec::new(), ..picture() };
    assert!(text(&nobody, 80, 24).contains("overlap 0 s"));
}

#[test]
fn an_overlap_is_seen_in_the_strip_and_in_the_header() {
    let mut picture = picture();
    picture.resources[0].stretches[0].to = at(52.0);
    picture.overlap = overlap(&picture.resources[0].stretches);
    let text = text(&picture, 80, 24);
    assert!(text.contains("overlap 1.939 s") && text.contains("A###D"), "{text}");
}

#[test]
fn without_colour_everything_is_still_said() {
    use ratatui::style::Color;
    let terminal = drawn(&picture(), Paint::new(false), 80, 24);
    let cells = terminal.backend().buffer().content();
    assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}

#[test]
fn refusals_fit_under_the_header() {
    let caption = Caption::new("8 members are as many as fit here", "kill one first (k)");
    let text = text(&Picture { caption, ..picture() }, 60, 16);
    assert!(text.contains("\n 8 members are as many as fit here\n kill one first (k)\n"), "{text}");
}
