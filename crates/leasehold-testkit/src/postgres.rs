//! A private PostgreSQL server, and what can happen to it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::heir::Heir;
use crate::psql::{USER, sql, try_each, try_sql, url};
use crate::{Dir, Process, free_port, wait_for};

/// Where Debian keeps the server's own programs, the newest first.
const BINARIES: [&str; 5] = [
    "/usr/lib/postgresql/18/bin",
    "/usr/lib/postgresql/17/bin",
    "/usr/lib/postgresql/16/bin",
    "/usr/lib/postgresql/15/bin",
    "/usr/lib/postgresql/14/bin",
];

/// A PostgreSQL server on a loopback port, with its data in a directory of its own.
#[derive(Debug)]
pub struct Postgres {
    // Before the directory: what runs in it ends first.
    process: Option<Process>,
    heir: Option<Heir>,
    dir: Dir,
    data: PathBuf,
    port: u16,
    settings: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Postgres {
    /// A server that waits for no disk: what is killed is the process, not the machine.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&["fsync=off"])
    }

    /// A server with other settings, as `name=value`.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start_with(settings: &[&str]) -> Self {
        Self::start_in(settings, &[])
    }

    /// A server with other settings, and an environment.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start_in(settings: &[&str], environment: &[(&str, &str)]) -> Self {
        let dir = Dir::new();
        let data = dir.join("data");
        copy(&dir, template(), &data);
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut server = Self {
            process: None,
            heir: None,
            dir,
            data,
            port: free_port(),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            environment: environment.iter().map(own).collect(),
        };
        server.run();
        server
    }

    fn run(&mut self) {
        let mut command = as_servant(&self.dir, &binary("postgres"));
        command.arg("-D").arg(&self.data).args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        command.arg("-k").arg(self.dir.path()).args(["-c", "max_connections=300"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // The socket's directory belongs to the server.
        self.dir.give(self.dir.path());
        let process = Process::start(&mut command, &self.dir.join("log"));
        self.heir = Some(Heir::of(Some(process.id()), self.dir.path()));
        self.process = Some(process);
        wait_for("PostgreSQL answers", || self.is_ready());
    }

    fn is_ready(&mut self) -> bool {
        if self.process.as_mut().is_some_and(Process::ended) {
            panic!("PostgreSQL ended: {}", self.log());
        }
        let mut ready = Command::new(binary("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER, "-d", "postgres"]);
        ready.status().is_ok_and(|status| status.success())
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    ///
    /// # Panics
    /// It does not run.
    #[must_use]
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("the server runs")
    }

    /// The directory with its socket.
    #[must_use]
    pub fn socket_dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its directory: for files that it should be able to read.
    #[must_use]
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The address of a database, for its superuser.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        url(self.port, database)
    }

    /// What it said so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Runs statements and answers what they gave back, a line for each row.
    ///
    /// # Panics
    /// They fail.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        sql(self.port, database, statements)
    }

    /// Runs statements and answers what they gave back, or what was wrong with them.
    ///
    /// # Errors
    /// What the server said.
    pub fn try_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        try_sql(self.port, database, statements)
    }

    /// Says who is let in and how, in the lines of `pg_hba.conf`. The superuser always is, from this machine.
    ///
    /// # Panics
    /// The server does not take it.
    pub fn let_in(&self, lines: &str) {
        let always = format!("local all {USER} trust\nhost all {USER} 127.0.0.1/32 trust\n");
        std::fs::write(self.data.join("pg_hba.conf"), always + lines + "\n").expect("our own file");
        self.sql("postgres", "SELECT pg_reload_conf()");
        let wrong = "SELECT count(*) FROM pg_hba_file_rules WHERE error IS NOT NULL";
        assert_eq!(self.sql("postgres", wrong).trim(), "0", "{lines}");
    }

    /// Creates an empty database.
    pub fn create(&self, database: &str) {
        self.sql("postgres", &format!("CREATE DATABASE {database} TEMPLATE template0"));
    }

    /// Makes a database anew as a copy of another; everybody on either is thrown out.
    pub fn copy_database(&self, from: &str, to: &str) {
        // Whoever comes back at once would be in the way of the copy.
        let closed = format!("ALTER DATABASE {from} ALLOW_CONNECTIONS false");
        let out = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{from}'");
        self.sql("postgres", &closed);
        wait_for("a copy of the database", || {
            let drop = format!("DROP DATABASE IF EXISTS {to} WITH (FORCE)");
            let copy = format!("CREATE DATABASE {to} TEMPLATE {from}");
            try_each(self.port, "postgres", &[&out, &drop, &copy]).is_ok()
        });
        self.sql("postgres", &format!("ALTER DATABASE {from} ALLOW_CONNECTIONS true"));
    }

    /// Kills it: nothing is written any more.
    pub fn kill(&mut self) {
        let children = self.process.as_ref().map(stopped_with_its_children).unwrap_or_default();
        children.iter().for_each(|child| send(*child, Signal::SIGKILL));
        self.end(Signal::SIGKILL);
        // What is left over would keep a new server from starting.
        wait_for("all of PostgreSQL has ended", || !children.iter().any(|child| runs(*child)));
    }

    /// Stops it in good order, without waiting for its clients.
    pub fn stop(&mut self) {
        self.end(Signal::SIGINT);
    }

    fn end(&mut self, signal: Signal) {
        self.heir = None;
        if let Some(mut process) = self.process.take() {
            process.end(signal);
        }
        let lock = self.data.join("postmaster.pid");
        let socket = self.dir.join(&format!(".s.PGSQL.{}.lock", self.port));
        if signal == Signal::SIGKILL {
            // What a dead server left behind would be taken for a living one, should its number have been given again.
            let _ = (std::fs::remove_file(lock), std::fs::remove_file(socket));
        }
    }

    /// Starts it again: same port, same data.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart(&mut self) {
        if self.process.is_some() {
            self.stop();
        }
        self.run();
    }

    /// Lets it and all its processes stand still.
    pub fn pause(&self) {
        stopped_with_its_children(self.process()).into_iter().for_each(|child| send(child, Signal::SIGSTOP));
    }

    /// Lets it go on.
    pub fn resume(&self) {
        children(self.process()).into_iter().for_each(|child| send(child, Signal::SIGCONT));
        self.process().signal(Signal::SIGCONT);
    }

    /// Kills one of its processes, as the kernel does when memory runs out.
    ///
    /// # Panics
    /// There is no such process.
    pub fn kill_child(&self, id: &str) {
        kill(Pid::from_raw(id.parse().expect("the number of a process")), Signal::SIGKILL).expect("it runs");
    }

    /// Takes a copy of the files of a stopped server, to be put back with [`Postgres::put_back`].
    ///
    /// # Panics
    /// It runs.
    #[must_use]
    pub fn copy_files(&self, name: &str) -> PathBuf {
        assert!(self.process.is_none(), "files are copied while nobody writes them");
        let to = self.dir.join(name);
        copy(&self.dir, &self.data, &to);
        to
    }

    /// Puts a copy of its files into their place, as an operator who restores a backup does.
    ///
    /// # Panics
    /// It runs.
    pub fn put_back(&self, from: &Path) {
        assert!(self.process.is_none(), "files are replaced while nobody writes them");
        std::fs::remove_dir_all(&self.data).expect("our own files");
        copy(&self.dir, from, &self.data);
    }

    /// Starts a standby that follows this server by streaming.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn replica(&self, settings: &[&str]) -> Self {
        let dir = Dir::new();
        dir.give(dir.path());
        let data = dir.join("data");
        let mut backup = as_servant(&dir, &binary("pg_basebackup"));
        backup.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER, "-R", "-X", "stream"]);
        backup.args(["-c", "fast", "-D"]).arg(&data);
        succeed(&mut backup);
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let environment = self.environment.clone();
        let mut server =
            Self { process: None, heir: None, dir, data, port: free_port(), settings, environment };
        server.run();
        server
    }

    /// Lets a standby hear nothing more from its primary.
    pub fn cut_off(&self) {
        self.sql("postgres", "ALTER SYSTEM SET primary_conninfo = ''");
        self.sql("postgres", "SELECT pg_reload_conf()");
    }

    /// Makes a standby a primary.
    ///
    /// # Panics
    /// It cannot become one.
    pub fn promote(&self) {
        self.sql("postgres", "SELECT pg_promote()");
        wait_for("the standby is a primary", || {
            self.sql("postgres", "SELECT pg_is_in_recovery()").trim() == "f"
        });
    }
}

/// The files of a server that has never run: made once for each process of tests.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<(Heir, Dir, PathBuf)> = OnceLock::new();

    let (.., data) = TEMPLATE.get_or_init(|| {
        let dir = Dir::for_all();
        dir.give(dir.path());
        let data = dir.join("data");
        let mut initdb = as_servant(&dir, &binary("initdb"));
        initdb.arg("-D").arg(&data).args([
            "-U",
            USER,
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--no-sync",
        ]);
        succeed(&mut initdb);
        (Heir::of(None, dir.path()), dir, data)
    });
    data
}

/// Lets the leader stand still, so that it starts no more processes, and says which it has.
fn stopped_with_its_children(leader: &Process) -> Vec<Pid> {
    leader.signal(Signal::SIGSTOP);
    children(leader)
}

fn children(leader: &Process) -> Vec<Pid> {
    let leader = leader.id();
    let children = std::fs::read_to_string(format!("/proc/{leader}/task/{leader}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(|id| id.parse().ok()).map(Pid::from_raw).collect()
}

fn send(process: Pid, signal: Signal) {
    // One that has ended has nothing to hear.
    let _ = kill(process, signal);
}

/// Whether a process that need not be our own child has not ended.
fn runs(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn copy(dir: &Dir, from: &Path, to: &Path) {
    succeed(Command::new("cp").arg("-a").arg(from).arg(to));
    dir.give(to);
}

fn binary(name: &str) -> PathBuf {
    let found = BINARIES.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is not installed; install Debian's postgresql"))
}

/// A command that is not root: PostgreSQL refuses to be.
pub(crate) fn as_servant(dir: &Dir, program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = dir.owner() {
        command.uid(user).gid(group);
    }
    command.current_dir(dir.path()).env("HOME", dir.path());
    command
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {said}");
}
