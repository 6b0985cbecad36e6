//! The demo before a viewer with a terminal: a live picture, keys, and the play as an introduction.

use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::act::{Act, Caption, Deed};
use super::draw::{Paint, draw};
use super::picture::Picture;
use super::script::{Cue, Script, scenes};
use super::stage::Stage;
use crate::failure::Failure;
use crate::terminal::{Ends, Screen, broken};

/// How often the picture is drawn.
const FRAME: Duration = Duration::from_millis(80);
/// How long a viewer may look before the next scene.
const PAUSE: Duration = Duration::from_secs(4);
/// What is said when the play is over.
const YOURS: &str = "k, f and d act on the selected member, a adds one, q quits";

/// What the viewer does.
struct Viewer {
    script: Option<Script>,
    caption: Caption,
    selected: Option<String>,
    help: bool,
}

/// Shows the stage until the viewer has seen enough. Everybody has left then.
pub(super) async fn show(stage: &mut Stage) -> Result<(), Failure> {
    let mut ends = Ends::receive().map_err(|error| Failure::system("signals cannot be received", &error))?;
    let mut screen = Screen::open()?;
    let paint = Paint::from_environment();
    let script = Some(Script::new(scenes(), PAUSE));
    let mut viewer = Viewer { script, caption: Caption::new("", ""), selected: None, help: false };
    loop {
        stage.look().await?;
        viewer.play(stage).await?;
        viewer.show(stage, &mut screen, paint)?;
        tokio::select! {
            () = tokio::time::sleep(FRAME) => {}
            () = ends.next() => break,
        }
        if viewer.listen(stage).await? {
            break;
        }
    }
    (viewer.caption, viewer.help) = (Caption::new("everybody goes home", ""), false);
    // The terminal may be what has ended.
    let _ = viewer.show(stage, &mut screen, paint);
    stage.clear()
}

impl Viewer {
    /// Lets the play go on, unless the viewer steers.
    async fn play(&mut self, stage: &mut Stage) -> Result<(), Failure> {
        let Some(script) = &mut self.script else { return Ok(()) };
        match script.cue(stage.now, stage.is_settled()) {
            Cue::Wait => {}
            Cue::Over => {
                self.script = None;
                self.caption = Caption::new("that was the play: the members are yours now", YOURS);
            }
            Cue::Play(scene) => {
                for act in &scene.acts {
                    stage.perform(act).await?;
                }
                self.caption = scene.caption;
            }
        }
        Ok(())
    }

    fn show(&mut self, stage: &Stage, screen: &mut Screen, paint: Paint) -> Result<(), Failure> {
        let picture = self.picture(stage);
        screen.draw(|frame| draw(frame, &picture, paint))
    }

    fn picture(&mut self, stage: &Stage) -> Picture {
        let members = stage.members();
        let lives = |name: &String| members.iter().any(|row| row.name == *name && !row.state.is_dead());
        if !self.selected.as_ref().is_some_and(lives) {
            self.selected = members.iter().find(|row| !row.state.is_dead()).map(|row| row.name.clone());
        }
        Picture {
            now: stage.now,
            started: stage.started,
            ttl: stage.ttl,
            grade: stage.store.capabilities().grade.to_string(),
            caption: self.caption.clone(),
            members,
            selected: self.selected.clone(),
            resources: stage.resources(),
            feed: stage.entries(),
            overlap: stage.overlap(),
            help: self.help,
            page: Some(stage.page.clone()),
        }
    }

    /// Takes all keys that were pressed; answers whether the viewer has seen enough.
    async fn listen(&mut self, stage: &mut Stage) -> Result<bool, Failure> {
        while event::poll(Duration::ZERO).map_err(|error| broken(&error))? {
            let Event::Key(key) = event::read().map_err(|error| broken(&error))? else { continue };
            if key.kind == KeyEventKind::Press && self.press(key, stage).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn press(&mut self, key: KeyEvent, stage: &mut Stage) -> Result<bool, Failure> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if key.code == KeyCode::Char('q') || control && key.code == KeyCode::Char('c') {
            return Ok(true);
        }
        if std::mem::take(&mut self.help) {
            return Ok(false);
        }
        match key.code {
            KeyCode::Char('?') => self.help = true,
            KeyCode::Up | KeyCode::Left | KeyCode::BackTab => self.select(stage, -1),
            KeyCode::Down | KeyCode::Right | KeyCode::Tab => self.select(stage, 1),
            KeyCode::Char(letter) if !control => self.act(letter, stage).await?,
            _ => {}
        }
        Ok(false)
    }

    /// Selects the living member so many places further.
    fn select(&mut self, stage: &Stage, places: isize) {
        let living: Vec<String> =
            stage.members().into_iter().filter(|row| !row.state.is_dead()).map(|row| row.name).collect();
        let place = living.iter().position(|name| self.selected.as_ref() == Some(name)).unwrap_or(0);
        let (place, count) = (place.cast_signed(), living.len().cast_signed());
        if count > 0 {
            let next = (place + places).rem_euclid(count).cast_unsigned();
            self.selected = living.get(next).cloned();
        }
    }

    async fn act(&mut self, letter: char, stage: &mut Stage) -> Result<(), Failure> {
        let name = self.selected.clone().unwrap_or_default();
        let act = match letter {
            'a' => stage.newcomer(),
            'k' => Act::new(Deed::Kill, &name),
            'f' if stage.is_frozen(&name) => Act::new(Deed::Thaw, &name),
            'f' => Act::new(Deed::Freeze, &name),
            'd' if stage.is_drained(&name) => Act::new(Deed::Undrain, &name),
            'd' => Act::new(Deed::Drain, &name),
            _ => return Ok(()),
        };
        if let Some(refusal) = stage.refusal(&act) {
            self.caption = refusal;
            return Ok(());
        }
        stage.perform(&act).await?;
        // From now on the viewer steers.
        self.script = None;
        self.caption = act.caption();
        // What the next key does depends on what this one did.
        stage.look().await
    }
}
