//! Colours, and how to do without them.

use ratatui::style::{Color, Modifier, Style};

use crate::demo::picture::letter;

/// Members' colours, by the first letters of their names.
const COLOURS: [Color; 8] = [
    Color::Cyan,
    Color::Yellow,
    Color::Green,
    Color::Magenta,
    Color::LightBlue,
    Color::LightRed,
    Color::LightGreen,
    Color::LightMagenta,
];

/// How things are set apart: by colour where that is wanted.
#[derive(Debug, Clone, Copy)]
pub(in crate::demo) struct Paint {
    colour: bool,
}

impl Paint {
    pub(in crate::demo) fn new(colour: bool) -> Self {
        Self { colour }
    }

    /// As the viewer asks for: <https://no-color.org>.
    pub(in crate::demo) fn from_environment() -> Self {
        Self::new(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    fn coloured(self, colour: Style, otherwise: Style) -> Style {
        if self.colour { colour } else { otherwise }
    }

    pub(super) fn plain(self) -> Style {
        Style::new()
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        self.coloured(Style::new().fg(Color::DarkGray), Style::new().add_modifier(Modifier::DIM))
    }

    pub(super) fn calm(self) -> Style {
        self.coloured(Style::new().fg(Color::Yellow), Style::new())
    }

    pub(super) fn alarm(self) -> Style {
        self.coloured(Style::new().fg(Color::LightRed), self.strong())
    }

    pub(super) fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Of the verdict: all is well, or not at all.
    pub(super) fn verdict(self, clean: bool) -> Style {
        let colour = if clean { Color::Green } else { Color::Red };
        let coloured = Style::new().fg(Color::Black).bg(colour).add_modifier(Modifier::BOLD);
        self.coloured(coloured, self.bar().patch(self.strong()))
    }

    /// Of a member's sign.
    pub(super) fn of(self, member: &str) -> Style {
        let place = (letter(member) as usize).saturating_sub('A' as usize) % COLOURS.len();
        self.coloured(Style::new().fg(Color::Black).bg(COLOURS[place]), Style::new())
    }
}

/// Text that is no longer than so many characters; a cut is seen.
pub(super) fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
