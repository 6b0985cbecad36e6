//! A terminal that is drawn on, for `demo` and `top`, and what ends them.

use std::io::IsTerminal;
use std::mem::ManuallyDrop;

use ratatui::{DefaultTerminal, Frame};

use crate::failure::Failure;

/// A terminal that is given back as it was, whatever happens. It is not dropped: a dropped one complains aloud when
/// it is gone, and panics where nobody can hear that.
pub(crate) struct Screen(ManuallyDrop<DefaultTerminal>);

impl Screen {
    pub(crate) fn open() -> Result<Self, Failure> {
        // Also sees to it that a panic gives the terminal back before it says anything.
        ratatui::try_init().map(ManuallyDrop::new).map(Self).map_err(|error| broken(&error))
    }

    pub(crate) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        self.0.draw(picture).map(|_| ()).map_err(|error| broken(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

pub(crate) fn broken(error: &std::io::Error) -> Failure {
    Failure::system("the terminal cannot be used; the same in lines: `demo --plain`, `status`", error)
}

/// Whether there is a screen to draw on and a keyboard to listen to.
pub(crate) fn is_there() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !dumb
}

/// What else ends whoever draws: it is told to, or its terminal is gone.
#[cfg(unix)]
pub(crate) struct Ends([tokio::signal::unix::Signal; 3]);

#[cfg(unix)]
impl Ends {
    pub(crate) fn receive() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    pub(crate) async fn next(&mut self) {
        let [term, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

#[cfg(not(unix))]
pub(crate) struct Ends;

#[cfg(not(unix))]
impl Ends {
    pub(crate) fn receive() -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
