//! `top` in a real terminal, with real members: seen, filtered, opened, steered.

#![cfg(target_os = "linux")]

mod support;

use std::process::Command;

use leasehold_testkit::{Persistence, Redis, RedisSetup};
use nix::sys::signal::Signal;
use support::{Place, leasehold, ran, wait_until};

/// A terminal of its own, which goes with it.
struct Terminal {
    socket: String,
}

impl Terminal {
    fn open(place: &Place, size: (u16, u16), command: &str) -> Self {
        let socket = place.path("tmux").display().to_string() + &size.0.to_string();
        let terminal = Self { socket };
        let (width, height) = (size.0.to_string(), size.1.to_string());
        // What is started first would otherwise decide for all that follow.
        let started =
            terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, command]);
        assert!(started.status.success(), "{started:?}");
        terminal
    }

    fn tmux(&self, words: &[&str]) -> std::process::Output {
        let mut tmux = Command::new("tmux");
        tmux.args(["-S", &self.socket]).args(words).env_remove("TMUX").env("TERM", "xterm-256color");
        tmux.output().expect("tmux is there")
    }

    fn press(&self, keys: &[&str]) {
        let words: Vec<&str> = ["send-keys"].iter().chain(keys).copied().collect();
        assert!(self.tmux(&words).status.success(), "{keys:?}");
    }

    fn shows(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Waits until everything is to be seen at once.
    fn wait(&self, words: &[&str]) {
        let seen = || words.iter().all(|word| self.shows().contains(word));
        wait_until(&format!("the terminal shows {words:?}"), seen);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn top(place: &Place) -> String {
    let program = leasehold().get_program().to_string_lossy().into_owned();
    format!("'{program}' top --store '{}'; echo over; sleep 1000", place.url())
}

#[test]
fn an_operator_sees_and_steers_a_pool_in_a_terminal() {
    let place = Place::new();
    let options = ["--resources", "job-1,job-2,job-3,job-4", "--ttl", "3s"];
    let anna = place.member("anna", &options);
    let mut bert = place.member("bert", &options);
    let held = |name: &str| place.owners("jobs").values().filter(|owner| *owner == name).count();
    wait_until("the work is shared out", || held("anna") == 2 && held("bert") == 2);
    let terminal = Terminal::open(&place, (110, 30), &top(&place));
    terminal.wait(&["pool jobs", "2 members", "4 of 4 owned", "anna", "bert", "LAST BEAT", "live"]);
    terminal.wait(&["WHAT HAPPENED", "acquired", env!("CARGO_PKG_VERSION")]);

    terminal.press(&["/"]);
    terminal.press(&["job-3"]);
    terminal.wait(&["/job-3_  1 of 4"]);
    terminal.press(&["Enter"]);
    terminal.press(&["Tab", "Enter"]);
    terminal.wait(&["resource   job-3", "esc goes back"]);
    terminal.press(&["Escape"]);
    wait_until("it is closed", || !terminal.shows().contains("esc goes back"));
    terminal.press(&["Escape"]);
    terminal.wait(&["? keys"]);

    // What would move is shown first; any other key does nothing.
    terminal.press(&["Tab", "Home", "d"]);
    terminal.wait(&["anna hands off what it holds", "moves from anna to bert", "y does it"]);
    terminal.press(&["n"]);
    terminal.wait(&["nothing was done"]);
    assert!(!terminal.shows().contains("drained"));
    terminal.press(&["d"]);
    terminal.wait(&["y does it"]);
    terminal.press(&["y"]);
    wait_until("bert has all", || held("bert") == 4);
    let is_drained = || terminal.shows().contains("drained") && !terminal.shows().contains("y does it");
    wait_until("the terminal shows it", is_drained);
    terminal.press(&["d"]);
    terminal.wait(&["anna takes part again"]);
    terminal.press(&["y"]);
    wait_until("anna has half", || held("anna") == 2);

    // A member dies before the viewer's eyes.
    bert.signal(Signal::SIGKILL);
    bert.wait();
    terminal.wait(&["1 members", "4 of 4 owned", "taken_over"]);
    assert_eq!(held("anna"), 4);
    terminal.press(&["s", "s"]);
    terminal.wait(&["STATE*"]);
    terminal.press(&["q"]);
    terminal.wait(&["over"]);

    // A small one has room for what matters.
    let small = Terminal::open(&place, (48, 12), &top(&place));
    small.wait(&["MEMBER", "anna", "RESOURCE", "job-1"]);
    small.press(&["?"]);
    small.wait(&["keys"]);
    anna.leave();
}

/// The store is killed before the viewer's eyes: what is shown is said to be old, and goes on when the store is back.
#[test]
fn a_store_that_is_gone_is_said_to_be_and_found_again() {
    let setup = RedisSetup { persistence: Persistence::Always, ..RedisSetup::default() };
    let mut redis = Redis::start_with(setup);
    let place = Place::on(redis.url());
    place.told(&["migrate", "--fresh"]);
    let anna = place.member("anna", &["--resources", "a,b", "--ttl", "5s"]);
    wait_until("anna has all", || place.owners("jobs").len() == 2);
    let terminal = Terminal::open(&place, (110, 30), &top(&place));
    terminal.wait(&["pool jobs", "2 of 2 owned", "anna", "live"]);
    redis.kill();
    terminal.wait(&["no answer for "]);
    assert!(terminal.shows().contains("anna"), "what was known stays there: {}", terminal.shows());
    // An act fails with a sentence, and the view goes on.
    terminal.press(&["Home", "d"]);
    terminal.wait(&["no answer for ", "redis at 127.0.0.1"]);
    redis.restart();
    terminal.wait(&["live", "2 of 2 owned", "anna"]);
    terminal.press(&["q"]);
    terminal.wait(&["over"]);
    anna.leave();
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let place = Place::new();
    let anna = place.member("anna", &["--resources", "a"]);
    wait_until("a is owned", || place.owners("jobs").len() == 1);
    let said = ran(leasehold().args(["top", "--store", &place.url()]));
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("top needs a terminal; `leasehold status`"), "{said:?}");
    anna.leave();
}

#[test]
fn on_a_terminal_an_act_shows_what_would_move_and_asks() {
    let place = Place::new();
    let members = ["anna", "bert"].map(|name| place.member(name, &["--resources", "a,b", "--ttl", "3s"]));
    wait_until("the work is shared out", || {
        let owners = place.owners("jobs");
        owners.len() == 2
            && owners.values().any(|owner| owner == "anna")
            && owners.values().any(|o| o == "bert")
    });
    let program = leasehold().get_program().to_string_lossy().into_owned();
    let drain = format!("'{program}' drain --store '{}' --pool jobs anna; echo code $?; ", place.url());
    let terminal = Terminal::open(&place, (100, 40), &format!("{drain} {drain} sleep 1000"));
    terminal.wait(&["moves from anna to bert", "1 of 2 resources would change hands", "drain? [y/N]"]);
    terminal.press(&["n", "Enter"]);
    terminal.wait(&["nothing was done", "code 1"]);
    wait_until("it asks again", || terminal.shows().matches("drain? [y/N]").count() == 2);
    terminal.press(&["y", "Enter"]);
    terminal.wait(&["anna hands off what it holds and gets nothing", "code 0"]);
    wait_until("bert has all", || place.owners("jobs").values().all(|owner| owner == "bert"));
    for member in members {
        member.leave();
    }
}
