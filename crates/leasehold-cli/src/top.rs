//! `top`: a pool in the terminal, on any store, without a control plane: looked at, and steered.
//!
//! `scene.rs` is what is known, `draw.rs` what it looks like, and here is what the keys do.

mod draw;
mod scene;

use std::process::ExitCode;
use std::time::Duration;

use leasehold::operate::{Act, Preview};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use self::scene::{Focus, Scene, Sort};
use crate::args::TopArgs;
use crate::failure::{Failure, code};
use crate::progress::Progress;
use crate::terminal::{self, Ends, Screen, broken};
use crate::{inspect, operate};

/// How often the store is looked at, and how often keys are.
const LOOK: Duration = Duration::from_millis(250);
const KEYS: Duration = Duration::from_millis(40);

/// What the keys mean at present.
#[derive(Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Browse,
    /// Letters become the filter.
    Filter,
    /// One row, whole.
    Details,
    /// What would move; `y` does it.
    Confirm(Box<(Act, Preview)>),
    /// Any key goes back.
    Help,
}

pub(crate) async fn top(args: TopArgs) -> Result<ExitCode, Failure> {
    let store = inspect::open_existing(&args.store).await?;
    if !terminal::is_there() {
        let said = "top needs a terminal; `leasehold status` and `leasehold events --follow` print the same";
        return Err(Failure::new(code::USAGE, said));
    }
    let mut scene = Scene::new(store, args.store.store.to_string(), args.pool).await?;
    let mut ends = Ends::receive().map_err(|error| Failure::system("signals cannot be received", &error))?;
    Progress::silence();
    let mut screen = Screen::open()?;
    let mut mode = Mode::default();
    loop {
        scene.look().await;
        let looked = leasehold::clock::now();
        while leasehold::clock::now().since(looked) < LOOK {
            screen.draw(|frame| draw::draw(frame, &mut scene, &mode))?;
            let mut pressed = false;
            while event::poll(Duration::ZERO).map_err(|error| broken(&error))? {
                let Event::Key(key) = event::read().map_err(|error| broken(&error))? else { continue };
                if key.kind != KeyEventKind::Press {
                    continue;
                }
                pressed = true;
                if press(&mut scene, &mut mode, key).await? {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            if !pressed {
                tokio::select! {
                    () = tokio::time::sleep(KEYS) => {}
                    () = ends.next() => return Ok(ExitCode::SUCCESS),
                }
            }
        }
    }
}

/// Does what a key says; answers whether that is the end.
async fn press(scene: &mut Scene, mode: &mut Mode, key: KeyEvent) -> Result<bool, Failure> {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return Ok(true);
    }
    scene.said.clear();
    match (std::mem::take(mode), key.code) {
        (Mode::Filter, KeyCode::Enter | KeyCode::Tab) => {}
        (Mode::Filter, KeyCode::Esc) => scene.filter.clear(),
        (Mode::Filter, code) => {
            match code {
                KeyCode::Backspace => drop(scene.filter.pop()),
                KeyCode::Char(letter) => scene.filter.push(letter),
                _ => {}
            }
            *mode = Mode::Filter;
        }
        (Mode::Confirm(asked), KeyCode::Char('y')) => {
            let (act, preview) = *asked;
            match operate::done(&scene.store, &scene.pool, &act, Some(preview.basis)).await {
                Ok(()) => scene.said = act.sentence(),
                Err(failure) => scene.said = failure.to_string(),
            }
        }
        (Mode::Confirm(_), _) => scene.said = "nothing was done".to_owned(),
        (Mode::Details | Mode::Help, KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter) => {}
        (Mode::Browse, KeyCode::Char('q')) => return Ok(true),
        (before, code) => {
            // A store that does not answer now may answer the next time.
            if let Err(failure) = browse(scene, mode, before, code).await {
                scene.said = failure.to_string();
            }
        }
    }
    Ok(false)
}

async fn browse(scene: &mut Scene, mode: &mut Mode, before: Mode, code: KeyCode) -> Result<(), Failure> {
    match code {
        KeyCode::Up | KeyCode::Char('k') => scene.go(-1),
        KeyCode::Down | KeyCode::Char('j') => scene.go(1),
        KeyCode::PageUp => scene.go(-20),
        KeyCode::PageDown => scene.go(20),
        KeyCode::Home => scene.go(isize::MIN),
        KeyCode::End => scene.go(isize::MAX),
        KeyCode::Tab | KeyCode::BackTab => {
            scene.focus = if scene.focus == Focus::Members { Focus::Resources } else { Focus::Members };
            return Ok(());
        }
        KeyCode::Enter => {
            *mode = Mode::Details;
            return Ok(());
        }
        KeyCode::Esc => scene.filter.clear(),
        KeyCode::Char('/') => {
            *mode = Mode::Filter;
            return Ok(());
        }
        KeyCode::Char('?') => {
            *mode = Mode::Help;
            return Ok(());
        }
        KeyCode::Char('s') => {
            scene.sort = match scene.sort {
                Sort::Id => Sort::Owner,
                Sort::Owner => Sort::State,
                Sort::State => Sort::Id,
            };
        }
        KeyCode::Char('p') => scene.next_pool().await?,
        KeyCode::Char(letter @ ('d' | 'c' | 'P' | 'v' | 'u' | 'r')) => {
            return ask(scene, mode, letter).await;
        }
        _ => {}
    }
    // Moving about inside of what is open leaves it open.
    if matches!(before, Mode::Details) {
        *mode = Mode::Details;
    }
    Ok(())
}

/// Looks at what would move, and asks.
async fn ask(scene: &mut Scene, mode: &mut Mode, letter: char) -> Result<(), Failure> {
    let act = match scene.act(letter) {
        Ok(act) => act,
        Err(why) => {
            scene.said = why.to_owned();
            return Ok(());
        }
    };
    let view = inspect::view(&scene.store, &scene.pool).await?;
    let preview = Preview::of(&scene.pool, &view, &act);
    if preview.already {
        scene.said = format!("{}: it is so already", preview.sentence);
        return Ok(());
    }
    *mode = Mode::Confirm(Box::new((act, preview)));
    Ok(())
}
