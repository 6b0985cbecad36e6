//! The play: what is done to the members, in which order, and what the viewer is told meanwhile.

use std::time::Duration;

use leasehold::clock::Moment;

use super::act::{Act, Caption, Deed};

/// One thing after another; the next scene begins when the work is shared out again.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) caption: Caption,
    pub(super) acts: Vec<Act>,
}

impl Scene {
    fn of(deed: Deed, member: &str) -> Self {
        let act = Act::new(deed, member);
        Self { caption: act.caption(), acts: vec![act] }
    }
}

/// The whole play.
pub(super) fn scenes() -> Vec<Scene> {
    let opening = Scene {
        caption: Caption::new(
            "anna, bert and cleo join",
            "they share out twelve resources, each a real process",
        ),
        acts: ["anna", "bert", "cleo"].map(|name| Act::new(Deed::Join, name)).into(),
    };
    vec![
        opening,
        Scene::of(Deed::Join, "dora"),
        Scene::of(Deed::Kill, "anna"),
        Scene::of(Deed::Freeze, "bert"),
        Scene::of(Deed::Thaw, "bert"),
        Scene::of(Deed::Drain, "cleo"),
        Scene::of(Deed::Undrain, "cleo"),
    ]
}

/// The play before a viewer who needs time to look.
#[derive(Debug)]
pub(super) struct Script {
    waiting: std::vec::IntoIter<Scene>,
    /// Since when the work has been shared out.
    settled_at: Option<Moment>,
    pause: Duration,
    begun: bool,
}

/// What the script wants.
#[derive(Debug)]
pub(super) enum Cue {
    /// Go on looking.
    Wait,
    /// Play this now.
    Play(Scene),
    /// The play is over.
    Over,
}

impl Script {
    pub(super) fn new(scenes: Vec<Scene>, pause: Duration) -> Self {
        Self { waiting: scenes.into_iter(), settled_at: None, pause, begun: false }
    }

    /// What to do at this moment.
    pub(super) fn cue(&mut self, now: Moment, settled: bool) -> Cue {
        if self.begun && !settled {
            self.settled_at = None;
            return Cue::Wait;
        }
        if self.begun && now.since(*self.settled_at.get_or_insert(now)) < self.pause {
            return Cue::Wait;
        }
        self.begun = true;
        self.settled_at = None;
        self.waiting.next().map_or(Cue::Over, Cue::Play)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_follow_when_the_work_is_shared_out_and_the_viewer_has_looked() {
        let mut script = Script::new(scenes(), Duration::from_nanos(10));
        assert!(matches!(script.cue(Moment(0), false), Cue::Play(scene) if scene.acts.len() == 3));
        assert!(matches!(script.cue(Moment(100), false), Cue::Wait));
        assert!(matches!(script.cue(Moment(200), true), Cue::Wait));
        assert!(matches!(script.cue(Moment(205), false), Cue::Wait), "not settled after all");
        assert!(matches!(script.cue(Moment(210), true), Cue::Wait));
        let cue = script.cue(Moment(220), true);
        assert!(matches!(cue, Cue::Play(scene) if scene.acts == [Act::new(Deed::Join, "dora")]));
        for _ in 2..scenes().len() {
            assert!(matches!(script.cue(Moment(300), true), Cue::Wait));
            assert!(matches!(script.cue(Moment(310), true), Cue::Play(_)));
        }
        assert!(matches!(script.cue(Moment(400), true), Cue::Wait));
        assert!(matches!(script.cue(Moment(410), true), Cue::Over));
    }

    #[test]
    fn captions_fit_on_the_smallest_screen() {
        for Scene { caption, .. } in scenes() {
            let fits = |line: &str| line.chars().count() <= 58;
            assert!(fits(&caption.what) && fits(&caption.why), "{caption:?}");
        }
    }
}
