//! What `top` looks like, on a wide screen and on a small one.

use leasehold::clock;
use leasehold::ledger::Entry;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::Mode;
use super::scene::{Focus, MemberRow, ResourceRow, Scene, Sort};
use crate::print::Reader;
use crate::{operate, print};

/// Colours only where they are wanted: <https://no-color.org>.
fn coloured(colour: Color) -> Style {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted { Style::new().fg(colour) } else { Style::new() }
}

const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const TURNED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, scene: &mut Scene, mode: &Mode) {
    let area = frame.area();
    let members = u16::try_from(scene.members.len()).unwrap_or(u16::MAX).saturating_add(1);
    let members = members.min((area.height / 3).max(3));
    let events = if area.height >= 24 { 6 } else { 0 };
    let [head, top, middle, bottom, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(members),
        Constraint::Min(3),
        Constraint::Length(events),
        Constraint::Length(1),
    ])
    .areas(area);
    header(frame, head, scene);
    member_table(frame, top, scene);
    resource_table(frame, middle, scene);
    feed(frame, bottom, scene);
    footer(frame, foot, scene, mode);
    match mode {
        Mode::Details => popup(frame, "esc goes back", &details(scene)),
        Mode::Confirm(asked) => {
            let said = format!(
                "{}\n{}? y does it, any other key does not\n",
                operate::lines(&asked.1).written(Reader::default()),
                asked.0.word()
            );
            popup(frame, "what would move", &said);
        }
        Mode::Help => popup(frame, "keys", HELP),
        Mode::Browse | Mode::Filter => {}
    }
}

const HELP: &str = "\
arrows, j k      move
tab              from members to resources and back
enter            open what is selected
/                filter the resources; esc takes it away
s                sort by id, owner or state
p                the next pool
d c              drain or undrain, cordon or uncordon a member
P v u            pause or resume, revoke, unpin a resource
r                have the leader of an election resign
q                end
";

fn header(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let (_, all) = scene.resources();
    let (owned, members) = (scene.owned(), scene.members.len());
    let left = format!(
        " {}  pool {}  {members} members  {owned} of {all} owned  {} unowned",
        scene.url,
        scene.pool,
        all - owned
    );
    let (right, style) = match (&scene.trouble, scene.frozen) {
        (Some(_), _) => {
            let old = clock::now().since(scene.answered).as_secs();
            (format!(" no answer for {old} s: this is old "), coloured(Color::LightRed).patch(STRONG))
        }
        (None, true) => (" frozen ".to_owned(), coloured(Color::LightRed).patch(STRONG)),
        (None, false) => (" live ".to_owned(), Style::new()),
    };
    frame.buffer_mut().set_style(area, TURNED);
    frame.render_widget(Line::styled(print::visible(&left).into_owned(), TURNED), area);
    let width = u16::try_from(right.len()).unwrap_or(area.width).min(area.width);
    let corner = Rect { x: area.right() - width, width, ..area };
    frame.buffer_mut().set_style(corner, Style::reset());
    frame.render_widget(Line::styled(right, style), corner);
}

fn member_table(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let row = |member: &MemberRow| {
        let state = if member.state.is_empty() { "ok".to_owned() } else { member.state.join(", ") };
        let beat =
            member.silent.map_or_else(|| "-".to_owned(), |silent| format!("{:.1} s", silent.as_secs_f64()));
        let late = member.silent.is_some_and(|silent| silent > member.ttl * 3 / 5);
        let cells = [
            member.name.to_string(),
            member.held.to_string(),
            member.share.clone(),
            beat,
            state,
            member.version.clone(),
        ];
        let style = match (late, member.state.is_empty()) {
            (true, _) => coloured(Color::LightRed),
            (_, false) => coloured(Color::Yellow),
            _ => Style::new(),
        };
        Row::new(cells).style(style)
    };
    let widths = [
        Constraint::Fill(3),
        Constraint::Length(6),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Fill(2),
        Constraint::Length(9),
    ];
    let titles = ["MEMBER", "HOLDS", "SHARE", "LAST BEAT", "STATE", "VERSION"];
    let rows = scene.members.iter().map(row);
    table(
        frame,
        area,
        Table::new(rows, widths).header(Row::new(titles).style(STRONG)),
        scene,
        Focus::Members,
    );
}

fn resource_table(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let row = |resource: &&ResourceRow| {
        let token = resource.token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        let owner = resource.owner.clone().unwrap_or_else(|| "nobody".to_owned());
        let style = match resource.state {
            "free" => coloured(Color::LightRed),
            "owned" => Style::new(),
            _ => coloured(Color::Yellow),
        };
        let why = print::visible(&resource.why).into_owned();
        Row::new([resource.id.to_string(), owner, token, resource.state.to_owned(), why]).style(style)
    };
    let widths = [
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Fill(3),
    ];
    let sign = |sort, title: &str| if scene.sort == sort { format!("{title}*") } else { title.to_owned() };
    let titles = [
        sign(Sort::Id, "RESOURCE"),
        sign(Sort::Owner, "OWNER"),
        "TOKEN".to_owned(),
        sign(Sort::State, "STATE"),
        "WHY".to_owned(),
    ];
    let rows = scene.resources().0;
    let widget = Table::new(rows.iter().map(row), widths).header(Row::new(titles).style(STRONG));
    table(frame, area, widget, scene, Focus::Resources);
}

fn table(frame: &mut Frame<'_>, area: Rect, table: Table<'_>, scene: &Scene, of: Focus) {
    let chosen = if scene.focus == of { TURNED } else { Style::new().add_modifier(Modifier::UNDERLINED) };
    let mut state = TableState::new().with_selected(Some(scene.at[of as usize]));
    frame.render_stateful_widget(table.row_highlight_style(chosen), area, &mut state);
}

fn feed(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    if area.height == 0 {
        return;
    }
    let count = usize::from(area.height.saturating_sub(1));
    let newest = scene.feed.iter().skip(scene.feed.len().saturating_sub(count));
    let lines: Vec<Line<'_>> = newest.map(|entry| Line::raw(event(entry, scene))).collect();
    let block = Block::new().title("WHAT HAPPENED").title_style(STRONG);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn event(entry: &Entry, scene: &Scene) -> String {
    let time = print::time(entry.wall_nanos);
    let time = time.get(11..23).unwrap_or(&time);
    let resource = entry.resource.as_ref().map(ToString::to_string).unwrap_or_default();
    let other = entry.other.as_ref().map(|other| scene.name_of(other));
    let reason = entry.reason.map(|reason| reason.to_string());
    let more: Vec<String> = [other, reason, entry.detail.clone()].into_iter().flatten().collect();
    let line = format!(
        "{time}  {:<11} {:<10} {resource:<12} {}",
        entry.event.as_str(),
        entry.name.as_str(),
        more.join(", ")
    );
    print::visible(&line).into_owned()
}

fn footer(frame: &mut Frame<'_>, area: Rect, scene: &Scene, mode: &Mode) {
    let (found, all) = (scene.resources().0.len(), scene.resources().1);
    let text = match mode {
        Mode::Filter => format!(" /{}_  {found} of {all}", scene.filter),
        _ if !scene.said.is_empty() => format!(" {}", scene.said),
        _ if scene.trouble.is_some() => format!(" {}", scene.trouble.as_deref().unwrap_or_default()),
        _ if !scene.filter.is_empty() => {
            format!(" filter {:?}: {found} of {all}; esc takes it away", scene.filter)
        }
        _ => " ? keys  tab lists  enter opens  / filter  s sort  p pool  d drain  q end".to_owned(),
    };
    frame.render_widget(Line::styled(print::visible(&text).into_owned(), STRONG), area);
}

fn details(scene: &Scene) -> String {
    let pairs = |pairs: &[(&str, String)]| -> String {
        pairs.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
    };
    match (scene.focus, scene.member(), scene.resource()) {
        (Focus::Members, Some(member), _) => {
            let (rows, _) = scene.resources();
            let holds: Vec<&str> = rows
                .iter()
                .filter(|row| row.owner.as_deref() == Some(member.name.as_str()))
                .map(|row| row.id.as_str())
                .collect();
            pairs(&[
                ("member", member.name.to_string()),
                ("id", member.id.to_string()),
                ("holds", format!("{} of {}", member.held, member.share)),
                ("TTL", format!("{:?}", member.ttl)),
                ("state", member.state.join(", ")),
                ("resources", holds.join(", ")),
            ])
        }
        (Focus::Resources, _, Some(resource)) => {
            let of_it = scene.feed.iter().rev().filter(|entry| entry.resource.as_ref() == Some(&resource.id));
            let past: String = of_it.take(12).map(|entry| event(entry, scene) + "\n").collect();
            let owner = resource.owner.clone().unwrap_or_else(|| "nobody".to_owned());
            pairs(&[
                ("resource", resource.id.to_string()),
                ("owner", owner),
                ("token", resource.token.map_or_else(|| "none yet".to_owned(), |token| token.to_string())),
                ("state", resource.state.to_owned()),
                ("why", resource.why.clone()),
            ]) + "\n"
                + &past
        }
        _ => "nothing is selected\n".to_owned(),
    }
}

fn popup(frame: &mut Frame<'_>, title: &str, text: &str) {
    let area = frame.area();
    let text = print::visible(text);
    let lines = u16::try_from(text.lines().count()).unwrap_or(u16::MAX).saturating_add(2);
    let (width, height) = (area.width.saturating_sub(4).min(96), lines.min(area.height.saturating_sub(2)));
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    // What is asked must be seen, however much would move.
    let skipped = lines.saturating_sub(height);
    let shown = match skipped {
        0 => text.into_owned(),
        _ => {
            let all: Vec<&str> = text.lines().collect();
            let keep = usize::from(height.saturating_sub(2));
            let end = keep.min(3);
            let begin = keep.saturating_sub(end + 1);
            let left = all.len() - begin - end;
            let more = format!("… {left} more lines");
            [&all[..begin], &[more.as_str()], &all[all.len() - end..]].concat().join("\n")
        }
    };
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(format!(" {title} "));
    frame.render_widget(Paragraph::new(shown).wrap(Wrap { trim: false }).block(block), place);
}
