//! What a child says about itself.
//!
//! Invariant: an answer counts only if it has the token that was last told, and was sent after that.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::notices::Notices;

/// How long to wait after a message could not be received.
const RECEIVE_AGAIN: Duration = Duration::from_millis(50);
/// More messages than a socket holds.
const WAITING_MAX: usize = 1024;

/// What the child was told last, and may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Told {
    #[default]
    Nothing,
    Promoted(u64),
    Demoted(u64),
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Notice {
    ready: bool,
    leading: bool,
    standby: bool,
    token: Option<u64>,
}

impl Notice {
    fn read(message: &[u8]) -> Self {
        let mut notice = Self::default();
        for line in message.split(|byte| *byte == b'\n') {
            match line {
                b"READY=1" => notice.ready = true,
                b"LEADING=1" => notice.leading = true,
                b"STANDBY=1" => notice.standby = true,
                _ => {
                    if let Some(token) = line.strip_prefix(b"TOKEN=") {
                        notice.token = std::str::from_utf8(token).ok().and_then(|token| token.parse().ok());
                    }
                }
            }
        }
        notice
    }
}

/// All that was heard.
#[derive(Debug, Default)]
struct Heard {
    ready: bool,
    told: Told,
    answered: bool,
}

impl Heard {
    /// Whether `notice` is news.
    fn hear(&mut self, notice: Notice) -> bool {
        let answers = match self.told {
            Told::Nothing => false,
            Told::Promoted(token) => notice.leading && notice.token == Some(token),
            Told::Demoted(token) => notice.standby && notice.token == Some(token),
        };
        let news = notice.ready && !self.ready || answers && !self.answered;
        self.ready |= notice.ready;
        self.answered |= answers;
        news
    }
}

/// Listens to one child. Dropping it ends that.
#[derive(Debug)]
pub(super) struct Ear {
    listening: Arc<Listening>,
    task: AbortHandle,
}

impl Ear {
    pub(super) fn listen(notices: Notices) -> Self {
        let listening = Arc::new(Listening { notices, heard: watch::Sender::new(Heard::default()) });
        let task = tokio::spawn(listen(Arc::clone(&listening))).abort_handle();
        Self { listening, task }
    }

    /// From now on only an answer to this counts, and none that has been sent already.
    pub(super) fn expect(&self, told: Told) {
        self.listening.heard.send_modify(|heard| {
            let waiting = (0..WAITING_MAX).map_while(|_| self.listening.receive().ok());
            waiting.flatten().for_each(|notice| {
                heard.hear(notice);
            });
            heard.told = told;
            heard.answered = false;
        });
    }

    pub(super) async fn ready(&self) {
        self.wait_for(|heard| heard.ready).await;
    }

    pub(super) async fn leading(&self) {
        self.wait_for(|heard| heard.answered && matches!(heard.told, Told::Promoted(_))).await;
    }

    pub(super) async fn stopped(&self) {
        self.wait_for(|heard| heard.answered && matches!(heard.told, Told::Demoted(_))).await;
    }

    async fn wait_for(&self, condition: impl FnMut(&Heard) -> bool) {
        // The sender is here, so this ends only with the condition.
        let _ = self.listening.heard.subscribe().wait_for(condition).await;
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Invariant: messages are received only by who may change `heard`, so none is between the two when something else is
/// told.
#[derive(Debug)]
struct Listening {
    notices: Notices,
    heard: watch::Sender<Heard>,
}

async fn listen(listening: Arc<Listening>) {
    loop {
        let heard = listening.notices.when_there(|| listening.hear_one()).await;
        if let Err(error) = heard {
            tracing::warn!(%error, "a message of a standby could not be received");
            tokio::time::sleep(RECEIVE_AGAIN).await;
        }
    }
}

impl Listening {
    fn hear_one(&self) -> io::Result<()> {
        let mut result = Ok(());
        self.heard.send_if_modified(|heard| match self.receive() {
            Ok(notice) => notice.is_some_and(|notice| heard.hear(notice)),
            Err(error) => {
                result = Err(error);
                false
            }
        });
        result
    }

    fn receive(&self) -> io::Result<Option<Notice>> {
        Ok(self.notices.receive()?.map(|message| Notice::read(&message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(text: &str) -> Notice {
        Notice::read(text.as_bytes())
    }

    #[test]
    fn messages_are_read_line_by_line_and_strange_ones_are_ignored() {
        let all = Notice { ready: true, leading: true, standby: true, token: Some(7) };
        assert_eq!(notice("READY=1\nSTATUS=x\nLEADING=1\nSTANDBY=1\nTOKEN=7\n"), all);
        for text in ["", "\n\n", "READY=0", "standby=1", "XREADY=1", "STANDBY=11", "TOKEN=", "TOKEN=-7"] {
            assert_eq!(notice(text), Notice::default(), "{text:?}");
        }
        assert_eq!(Notice::read(b"\xff\nREADY=1\nTOKEN=\xff"), notice("READY=1"));
    }

    fn answers(told: Told, text: &str) -> bool {
        let mut heard = Heard { told, ..Heard::default() };
        let news = heard.hear(notice(text));
        assert_eq!(news, heard.answered);
        heard.answered
    }

    #[test]
    fn an_answer_is_about_what_was_told_last() {
        assert!(answers(Told::Promoted(7), "LEADING=1\nTOKEN=7"));
        assert!(answers(Told::Demoted(7), "TOKEN=7\nSTANDBY=1"));
        for text in ["STANDBY=1", "STANDBY=1\nTOKEN=6", "STANDBY=1\nTOKEN=8", "STANDBY=1\nTOKEN=x"] {
            assert!(!answers(Told::Demoted(7), text), "{text:?}");
        }
        assert!(!answers(Told::Demoted(7), "LEADING=1\nTOKEN=7"));
        assert!(!answers(Told::Promoted(7), "STANDBY=1\nTOKEN=7"));
        assert!(!answers(Told::Nothing, "STANDBY=1\nLEADING=1\nTOKEN=7"));
    }

    #[test]
    fn what_was_said_before_stays_said() {
        let mut heard = Heard { told: Told::Demoted(7), ..Heard::default() };
        assert!(heard.hear(notice("READY=1")));
        assert!(heard.hear(notice("STANDBY=1\nTOKEN=7")));
        assert!(!heard.hear(notice("STANDBY=1\nTOKEN=6")));
        assert!(heard.ready && heard.answered);
    }
}
