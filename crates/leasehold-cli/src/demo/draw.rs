//! Puts the picture on a terminal of any size. Everything that colour says is also said by a letter or a word.

mod paint;

use leasehold::ledger::verify::seconds;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, Wrap};

pub(super) use self::paint::Paint;
use self::paint::clipped;
use super::feed::{Entry, span};
use super::picture::{
    Cell, HEIGHT_MIN, MemberRow, MemberState, Picture, ResourceRow, WIDTH_MIN, WorkState, cell_span, letter,
    strip,
};

/// How wide a member is.
const MEMBER_WIDTH: u16 = 20;
/// From this height on every resource has a line of its own.
const TALL: u16 = 22;
/// From this height on there are empty lines between the parts.
const AIRY: u16 = 30;
/// How wide what stands in front of a strip is, on a line of its own and on half a line.
const BEFORE_STRIP: u16 = 34;
const BEFORE_SHORT_STRIP: u16 = 18;

const KEYS: &str = " k kill  f freeze/thaw  d drain/undrain  a add  ↑↓ tab select  ? help  q quit";
const KEYS_SHORT: &str = " k kill f freeze d drain a add tab select ? help q quit";

const HELP: &str = "\
Each resource is worked on by a real process that keeps
writing down the time. Strips show who wrote: a letter for
each member, · when nobody did, # if two did at once.

↑↓ tab  select a member
k       kill it (kill -9): its work moves after its TTL
f       freeze it (SIGSTOP), or thaw it
d       drain it as an operator would, or undo that
a       add a member
q       end everything and hear the verdict

Keys that act on members end the play. Any key goes back.";

pub(super) fn draw(frame: &mut Frame<'_>, picture: &Picture, paint: Paint) {
    let area = frame.area();
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let said =
            format!("please give this window at least {WIDTH_MIN} columns and {HEIGHT_MIN} rows; q quits");
        frame.render_widget(Paragraph::new(said).wrap(Wrap { trim: true }), area);
        return;
    }
    let per_row = usize::from(area.width / MEMBER_WIDTH);
    let member_rows = u16::try_from(picture.members.len().div_ceil(per_row)).unwrap_or(u16::MAX).max(1);
    let columns = if area.height < TALL { 2 } else { 1 };
    let resource_rows = u16::try_from(picture.resources.len()).unwrap_or(u16::MAX) / columns;
    let [top, caption, members, resources, feed, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(member_rows),
        Constraint::Length(resource_rows + 1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .spacing(u16::from(area.height >= AIRY))
    .areas(area);
    header(frame, top, picture, paint);
    if picture.help {
        let rest = Rect::new(area.x + 1, area.y + 2, area.width - 1, area.height - 2);
        frame.render_widget(Paragraph::new(HELP), rest);
        return;
    }
    let said = [
        Line::styled(format!(" {}", picture.caption.what), paint.strong()),
        Line::raw(format!(" {}", picture.caption.why)),
    ];
    frame.render_widget(Text::from_iter(said), caption);
    for (place, row) in picture.members.chunks(per_row).enumerate() {
        let cells = row.iter().map(|member| member_line(member, picture, paint));
        let line: Vec<Span<'_>> = cells.flatten().collect();
        let y = members.y + u16::try_from(place).unwrap_or_default();
        frame.render_widget(Line::from(line), Rect { y, height: 1, ..members });
    }
    draw_resources(frame, resources, columns, picture, paint);
    draw_feed(frame, feed, picture, paint);
    let said = if usize::from(area.width) > KEYS.chars().count() { KEYS } else { KEYS_SHORT };
    frame.render_widget(Line::styled(said, paint.bar()), keys);
    frame.buffer_mut().set_style(keys, paint.bar());
}

fn header(frame: &mut Frame<'_>, area: Rect, picture: &Picture, paint: Paint) {
    let elapsed = picture.now.since(picture.started).as_secs();
    let mut left =
        format!(" leasehold demo   TTL {:?}   {:02}:{:02}", picture.ttl, elapsed / 60, elapsed % 60);
    if area.width >= 76 {
        left = match &picture.page {
            Some(page) => format!("{left}   page: {page}"),
            None => format!("{left}   store: {}", picture.grade),
        };
    }
    let clean = picture.overlap.is_zero();
    let right = format!(" overlap {} ", seconds(picture.overlap));
    frame.buffer_mut().set_style(area, paint.bar());
    frame.render_widget(Line::styled(left, paint.bar()), area);
    let width = u16::try_from(right.chars().count()).unwrap_or(area.width).min(area.width);
    let corner = Rect { x: area.right() - width, width, ..area };
    frame.buffer_mut().set_style(corner, Style::reset());
    frame.render_widget(Line::styled(right, paint.verdict(clean)), corner);
}

fn member_line(member: &MemberRow, picture: &Picture, paint: Paint) -> [Span<'static>; 4] {
    let selected = picture.selected.as_deref() == Some(&member.name);
    let words = match member.state {
        MemberState::Works => paint.plain(),
        MemberState::Settling | MemberState::Draining | MemberState::Drained => paint.calm(),
        MemberState::Frozen => paint.alarm(),
        state if state.is_dead() => paint.faint(),
        _ => paint.alarm(),
    };
    let words = if selected { words.patch(paint.strong()) } else { words };
    [
        Span::styled(if selected { "▸" } else { " " }, paint.strong()),
        Span::styled(letter(&member.name).to_string(), paint.of(&member.name)),
        Span::styled(
            format!(" {:<4} {:<8} {:>2}", clipped(&member.name, 4), member.state.word(), member.load),
            words,
        ),
        Span::raw(" "),
    ]
}

fn draw_resources(frame: &mut Frame<'_>, area: Rect, columns: u16, picture: &Picture, paint: Paint) {
    let width = area.width / columns;
    let rows = picture.resources.len().div_ceil(usize::from(columns));
    for (place, of_column) in picture.resources.chunks(rows.max(1)).enumerate() {
        let x = area.x + width * u16::try_from(place).unwrap_or_default();
        let column = Rect { x, width, ..area };
        let before = if columns == 1 { BEFORE_STRIP } else { BEFORE_SHORT_STRIP };
        let cells = width.saturating_sub(before + 1);
        let window = cell_span(cells) * u32::from(cells);
        let words = if columns == 1 { " RESOURCE OWNER  STATE    TOKEN" } else { " RESOURCE   TOKEN" };
        let past = format!("-{} s", window.as_secs());
        let gap = usize::from(cells).saturating_sub(past.len());
        let heading = format!("{words:<0$}{past}{now:>gap$}", usize::from(before), now = "now");
        frame.render_widget(Line::styled(heading, paint.faint()), Rect { height: 1, ..column });
        for (line, resource) in of_column.iter().enumerate() {
            let y = column.y + 1 + u16::try_from(line).unwrap_or_default();
            let line = resource_line(resource, columns == 1, cells, picture, paint);
            frame.render_widget(line, Rect { y, height: 1, ..column });
        }
    }
}

fn resource_line<'a>(
    resource: &'a ResourceRow,
    long: bool,
    cells: u16,
    picture: &Picture,
    paint: Paint,
) -> Line<'a> {
    let owner = resource.owner.as_deref();
    let sign = match owner {
        Some(name) => Span::styled(letter(name).to_string(), paint.of(name)),
        None => Span::raw("·"),
    };
    let mut spans = vec![Span::raw(format!(" {:<8} ", clipped(&resource.name, 8))), sign];
    if long {
        let state = match resource.state {
            WorkState::Works => paint.plain(),
            WorkState::Starts => paint.calm(),
            WorkState::Waits | WorkState::Free => paint.alarm(),
        };
        spans.push(Span::raw(format!(" {:<4} ", clipped(owner.unwrap_or_default(), 4))));
        spans.push(Span::styled(format!("{:<8}", resource.state.word()), state));
        spans.push(Span::raw(format!(" {:>5}  ", resource.token)));
    } else {
        spans.push(Span::raw(format!(" {:>4} ", resource.token)));
    }
    let length = spans.iter().map(Span::width).sum::<usize>();
    let before = usize::from(if long { BEFORE_STRIP } else { BEFORE_SHORT_STRIP });
    spans.push(Span::raw(" ".repeat(before.saturating_sub(length))));
    spans.extend(strip(&resource.stretches, picture.now, cells).into_iter().map(|cell| match cell {
        Cell::Idle => Span::styled("·", paint.faint()),
        Cell::By(member) => Span::styled(letter(member).to_string(), paint.of(member)),
        Cell::Twice => Span::styled("#", paint.verdict(false)),
    }));
    Line::from(spans)
}

/// The newest entries, as many as fit, the newest at the bottom.
fn draw_feed(frame: &mut Frame<'_>, area: Rect, picture: &Picture, paint: Paint) {
    let room = usize::from(area.height);
    let newest = &picture.feed[picture.feed.len().saturating_sub(room)..];
    let line = |entry: &Entry| {
        let at = span(entry.at.since(picture.started));
        let text = clipped(&entry.text, usize::from(area.width).saturating_sub(12));
        Line::from(vec![Span::styled(format!("{at:>9}  "), paint.faint()), Span::raw(text)])
    };
    let text: Text<'_> = newest.iter().map(line).collect();
    frame.render_widget(text, area);
}

#[cfg(test)]
mod tests;
