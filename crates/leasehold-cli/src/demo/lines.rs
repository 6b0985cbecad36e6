//! The demo in plain lines: the play once, for whoever has no terminal or wants none.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::clock::{self, Moment};
use tokio::signal::unix::{SignalKind, signal};

use super::RESOURCES;
use super::script::{Scene, scenes};
use super::stage::Stage;
use crate::failure::{Failure, code};
use crate::print;

/// How long any scene may take, at least.
const PATIENCE_MIN: Duration = Duration::from_secs(30);
/// How often the stage is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Plays the play. Everybody has left then.
pub(super) async fn play(stage: &mut Stage) -> Result<(), Failure> {
    tokio::select! {
        played = perform(stage) => played,
        failed = interrupted() => Err(failed),
    }
}

/// A viewer who has seen enough: everything is cleared away as at the end.
async fn interrupted() -> Failure {
    let (Ok(mut term), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return Failure::new(code::SYSTEM, "signals cannot be received");
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Failure::new(code::INTERRUPTED, "the demo was interrupted")
}

async fn perform(stage: &mut Stage) -> Result<(), Failure> {
    let (count, ttl) = (RESOURCES.len(), stage.ttl);
    let grade = stage.store.capabilities().grade;
    say(stage, &format!("{count} resources, leases of {ttl:?}, an embedded store ({grade})"))?;
    say(stage, &format!("the same on a page, while it lasts: {}", stage.page))?;
    for scene in scenes() {
        perform_scene(stage, &scene).await?;
    }
    say(stage, "everybody goes home")?;
    stage.clear()
}

async fn perform_scene(stage: &mut Stage, scene: &Scene) -> Result<(), Failure> {
    say(stage, &format!("{}: {}", scene.caption.what, scene.caption.why))?;
    let from = clock::now();
    for act in &scene.acts {
        stage.perform(act).await?;
    }
    let headlines: Vec<String> = scene.acts.iter().map(super::act::Act::headline).collect();
    let patience = PATIENCE_MIN.max(stage.ttl * 4);
    loop {
        stage.look().await?;
        if stage.is_settled() {
            break;
        }
        if clock::now().since(from) > patience {
            tell(stage, from, &headlines)?;
            picture(stage)?;
            let said = format!(
                "waited {patience:?} in vain for the work to be shared out; is the machine very busy?"
            );
            return Err(Failure::new(code::NO, said));
        }
        tokio::time::sleep(LOOK).await;
    }
    tell(stage, from, &headlines)?;
    picture(stage)
}

/// Everything worth telling since a moment, except for what has been said.
fn tell(stage: &Stage, since: Moment, said: &[String]) -> Result<(), Failure> {
    for entry in stage.entries().iter().filter(|entry| entry.at >= since && !said.contains(&entry.text)) {
        line(stage, entry.at, &format!("  {}", entry.text))?;
    }
    Ok(())
}

/// Who owns what.
fn picture(stage: &Stage) -> Result<(), Failure> {
    let mut held: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for resource in stage.resources() {
        held.entry(resource.owner.unwrap_or_else(|| "-".to_owned())).or_default().push(resource.name);
    }
    let lines =
        held.iter().map(|(owner, resources)| format!("            {owner:<5} {}\n", resources.join(" ")));
    print::text(&lines.collect::<String>())
}

fn say(stage: &Stage, sentence: &str) -> Result<(), Failure> {
    line(stage, clock::now(), sentence)
}

fn line(stage: &Stage, at: Moment, text: &str) -> Result<(), Failure> {
    print::text(&format!("{:6.1} s  {text}\n", at.since(stage.started).as_secs_f64()))
}
