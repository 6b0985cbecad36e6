//! Runs commands before every kind of reader, and writes down what each of them saw.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::pty::{Winsize, openpty};
use nix::sys::termios::{LocalFlags, OutputFlags, SetArg, tcgetattr, tcsetattr};

use crate::support::{Place, leasehold, ran};

/// How many columns the terminals have.
const WIDTHS: [u16; 3] = [200, 80, 40];

/// One command line.
#[derive(Clone, Default)]
pub(crate) struct Case {
    words: Vec<String>,
    env: Vec<(&'static str, &'static str)>,
    types: &'static str,
    first: Vec<String>,
    then: Vec<String>,
    only_piped: bool,
    only_at: Option<u16>,
}

impl Case {
    pub(crate) fn new(words: &[&str]) -> Self {
        Self { words: words.iter().map(|word| (*word).to_owned()).collect(), ..Self::default() }
    }

    pub(crate) fn words(&self) -> Vec<String> {
        self.words.clone()
    }

    pub(crate) fn env(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    /// What is typed where a terminal asks.
    pub(crate) fn types(mut self, text: &'static str) -> Self {
        self.types = text;
        self
    }

    /// What is run before it each time, so that there is something to do.
    pub(crate) fn first(mut self, words: &[String]) -> Self {
        self.first = words.to_vec();
        self
    }

    /// What is run after it each time, so that it can be done again.
    pub(crate) fn then(mut self, words: &[String]) -> Self {
        self.then = words.to_vec();
        self
    }

    /// What does not end by itself on a terminal, or looks the same there.
    pub(crate) fn only_piped(mut self) -> Self {
        self.only_piped = true;
        self
    }

    /// What is reviewed without a terminal elsewhere.
    pub(crate) fn only_at(mut self, columns: u16) -> Self {
        self.only_at = Some(columns);
        self
    }
}

/// How a line that says how far something is begins: it takes away what stood there.
const LINE_ANEW: &str = "\r\u{1b}[2K";

/// Where commands are run.
pub(crate) struct Record<'a> {
    place: &'a Place,
}

impl<'a> Record<'a> {
    pub(crate) fn of(place: &'a Place) -> Self {
        Self { place }
    }

    /// Runs all cases of a command and compares with its file.
    pub(crate) fn file(&mut self, name: &str, cases: &[Case]) {
        let found: String = cases.iter().map(|case| self.case(case)).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/outputs/{name}.out"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &found).unwrap();
        }
        let wanted = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(wanted == found, "{name}.out differs.\n--- wanted\n{wanted}\n--- found\n{found}");
    }

    fn command(&self, case: &Case) -> Command {
        let program = leasehold();
        let mut command = Command::new("timeout");
        // What does not end is no reason to wait for ever.
        command.args(["--foreground", "60"]).arg(program.get_program());
        for (name, _) in program.get_envs() {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command.args(&case.words).current_dir(self.place.root()).env("TERM", "xterm-256color");
        command.env("USER", "ann").env_remove("NO_COLOR").env_remove("COLUMNS");
        command.env("XDG_DATA_HOME", self.place.root()).envs(case.env.iter().copied());
        command
    }

    fn around(&self, words: &[String]) {
        if !words.is_empty() {
            let said = ran(&mut self.command(&Case { words: words.to_vec(), ..Case::default() }));
            assert_eq!(said.code, Some(0), "{words:?}: {said:?}");
        }
    }

    fn case(&self, case: &Case) -> String {
        let env: String = case.env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        let mut text = format!("$ {env}leasehold {}\n", case.words.join(" "));
        if case.only_at.is_none() {
            text += &self.piped(case);
        }
        let mut before = String::new();
        let widths = case.only_at.map_or(WIDTHS.to_vec(), |width| vec![width]);
        for width in widths.iter().filter(|_| !case.only_piped) {
            self.around(&case.first);
            let (code, seen) = self.on_terminal(case, *width);
            self.around(&case.then);
            let seen = format!("exit {code}\n{}", self.shown(&seen));
            if seen == before {
                let _ = writeln!(text, "--- {width} columns: the same");
            } else {
                let _ = write!(text, "--- {width} columns: {seen}");
            }
            before = seen;
        }
        text + "\n"
    }

    fn piped(&self, case: &Case) -> String {
        self.around(&case.first);
        let said = ran(&mut self.command(case));
        self.around(&case.then);
        assert!(!(said.out.clone() + &said.err).contains('\u{1b}'), "coloured without a terminal: {said:?}");
        let mut text = format!("--- piped: exit {}\n", said.code.unwrap());
        text += &self.shown(&said.out);
        if !said.err.is_empty() {
            text += "--- and to standard error\n";
            text += &self.shown(&said.err);
        }
        text
    }

    /// Runs it on a terminal of its own; answers how it ended and all that the terminal was sent.
    pub(crate) fn on_terminal(&self, case: &Case, columns: u16) -> (i32, String) {
        let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a terminal");
        // What is typed is not shown, and lines end as they were written.
        let mut modes = tcgetattr(pty.slave.as_fd()).expect("its modes");
        modes.local_flags.remove(LocalFlags::ECHO);
        modes.output_flags.remove(OutputFlags::OPOST);
        tcsetattr(pty.slave.as_fd(), SetArg::TCSANOW, &modes).expect("its modes");
        let mut terminal = File::from(pty.master);
        terminal.write_all(case.types.as_bytes()).expect("typed");
        let plain = self.command(case);
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg("--wait").arg(plain.get_program()).args(plain.get_args());
        command.current_dir(self.place.root());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let end = || Stdio::from(pty.slave.try_clone().expect("the terminal's end"));
        let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("setsid runs");
        // Nobody else may have the other end, or it would never end.
        drop((command, pty.slave));
        let mut seen = Vec::new();
        // It ends with an error once nobody has its other end.
        let _ = terminal.read_to_end(&mut seen);
        let status = child.wait().expect("a child");
        (status.code().expect("a code"), String::from_utf8(seen).expect("text"))
    }

    /// Output as it stands in the file: escapes are readable, and what differs from run to run is not there.
    fn shown(&self, text: &str) -> String {
        let text = steady(&settled(text)).replace(&self.place.root().display().to_string(), "PLACE");
        let mut text = text.replace('\u{1b}', "\\e").replace('\r', "\\r");
        if !text.is_empty() && !text.ends_with('\n') {
            text += "(no end of line)\n";
        }
        text
    }
}

/// What a terminal still shows once every line that told of progress was taken away; they come as often as a machine is slow.
fn settled(text: &str) -> String {
    let first = text.split(LINE_ANEW).next().unwrap_or_default();
    let last = text.rsplit_once(LINE_ANEW).map(|(_, last)| last).unwrap_or_default();
    first.to_owned() + last
}

fn steady(text: &str) -> String {
    let timed = unbroken(text);
    let mut words = String::new();
    for word in timed.split_inclusive([' ', '\n']) {
        let bare = word.trim_end_matches([' ', '\n', ',', ';', ')']);
        let rest = &word[bare.len()..];
        let is_time = bare.len() >= 20 && bare.starts_with("20") && bare.ends_with('Z') && bare.contains('T');
        match bare {
            // A scene's times are its own; those of this run are of this century's rest.
            _ if is_time && !bare.starts_with("2001-") => words.push_str("TIME"),
            _ if bare.starts_with("lh_") => words.push_str("SECRET"),
            _ if bare.len() == 12 && bare.chars().all(|c| c.is_ascii_hexdigit()) => words.push_str("KEY"),
            _ => words.push_str(bare),
        }
        words.push_str(rest);
    }
    words
}

/// How long calls took differs, and with it where a narrow line breaks: that finding is written on one line.
fn unbroken(text: &str) -> String {
    let Some((before, rest)) = text.split_once("of 20 calls half") else { return text.to_owned() };
    let (_, after) = rest.split_once("TTL").expect("the TTL in use");
    let (_, after) = after.split_once('\n').expect("another finding");
    format!("{before}of 20 calls half took no more than so long\n{after}")
}
