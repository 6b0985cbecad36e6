//! The package for Debian: made, installed, used, upgraded, removed. All of it on a copy of this machine that nobody else sees.

#![cfg(target_os = "linux")]

#[path = "support/project.rs"]
mod project;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use leasehold_testkit::{Dir, free_port};
use nix::unistd::Uid;
use project::root;

const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold");
/// What is done on the copy.
const INSTALLED: &str = include_str!("package/installed.sh");
/// How the copy is made: what is written stays in memory, and goes with the last process.
const COPY: &str = "mount -t tmpfs -o mode=755 none \"$1\" && mkdir \"$1/up\" \"$1/work\" \"$1/tree\" && \
     mount -t overlay none -o \"lowerdir=/,upperdir=$1/up,workdir=$1/work\" \"$1/tree\"";

/// Makes the package of this build, and says where it lies.
fn package(dir: &Dir, by: &str, binary: &Path) -> PathBuf {
    // What goes into it is made in one place.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let out = dir.sub(by);
    let mut make = Command::new(root().join("tools/deb"));
    make.args(["--by", by, "--compression", "none", "--binary"]).arg(binary).arg("--output").arg(&out);
    assert!(make.status().expect("python3 is there").success(), "tools/deb fails");
    let found = std::fs::read_dir(&out).expect("our own directory").next();
    found.expect("a package").expect("our own directory").path()
}

/// A shell in a mount namespace and a process tree of its own, which ends with it.
fn apart(script: &str, place: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-eu", "-c", script, "sh"]).arg(place);
    command.stdin(Stdio::null());
    command
}

#[test]
fn the_package_is_installed_used_upgraded_and_removed() {
    let dir = Dir::new();
    // What it is debugged by would take room in memory twice.
    let binary = dir.join("leasehold");
    let strip =
        Command::new("strip").arg("-o").arg(&binary).arg(PROGRAM).status().expect("binutils are there");
    assert!(strip.success());
    let package = package(&dir, "dpkg-deb", &binary);
    let place = dir.sub("copy");
    // What people changed in one of theirs is not what this is about.
    let is_here =
        Command::new("dpkg-query").args(["-W", "leasehold"]).output().is_ok_and(|said| said.status.success());
    let may = Uid::effective().is_root()
        && !is_here
        && apart(COPY, &place).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !may {
        println!(
            "SKIPPED: the package was made, but installing it takes root, an overlay, and a machine without one"
        );
        return;
    }
    let script = format!(
        "{COPY}\ncp \"$2\" \"$1/tree/package.deb\"\nmount --bind /dev \"$1/tree/dev\"\nmount -t proc none \"$1/tree/proc\"\n\
         exec chroot \"$1/tree\" bash -eu -c \"$3\""
    );
    let mut install = apart(&script, &place);
    install.arg(&package).arg(INSTALLED).env_clear();
    install.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LANG", "C.UTF-8");
    let output = install.env("PORT", free_port().to_string()).output().expect("unshare is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "the package does not do what it should");
    assert!(text(&output.stdout).ends_with("all is well\n"));
    assert!(!Path::new("/package.deb").exists(), "nothing was done to this machine itself");
}

/// What a package has in it: the mode, the owner and the name of every file.
fn contents(package: &Path) -> Vec<String> {
    let listed = Command::new("dpkg-deb").arg("--contents").arg(package).output().expect("dpkg is there");
    let lines = String::from_utf8(listed.stdout).expect("names in UTF-8");
    let files = lines.lines().filter(|line| line.starts_with('-'));
    let columns = files.map(|line| line.split_whitespace().collect::<Vec<_>>());
    // One of the two gives root no name.
    let owner = |word: &str| word.replace("root/root", "0/0");
    let mut found: Vec<_> = columns
        .map(|words| [words[0].into(), owner(words[1]), words[5].replacen("./", "", 1)].join(" "))
        .collect();
    found.sort();
    found
}

#[test]
#[ignore = "run by ./test --long"]
fn cargo_deb_makes_the_same_package() {
    let dir = Dir::new();
    let (ours, released) =
        (package(&dir, "dpkg-deb", PROGRAM.as_ref()), package(&dir, "cargo-deb", PROGRAM.as_ref()));
    assert_eq!(contents(&ours), contents(&released));
    let same = |arguments: &[&str], what: &str| {
        let told = |package: &Path| {
            let said = Command::new("dpkg-deb")
                .args(arguments)
                .arg(package)
                .arg(what)
                .output()
                .expect("dpkg is there");
            String::from_utf8_lossy(&said.stdout).trim_end().to_owned()
        };
        assert_eq!(told(&ours), told(&released), "{what}");
        assert!(!told(&ours).is_empty(), "there is no {what}");
    };
    for field in [
        "Package",
        "Version",
        "Architecture",
        "Depends",
        "Recommends",
        "Suggests",
        "Maintainer",
        "Description",
    ] {
        same(&["--field"], field);
    }
    for file in ["conffiles", "postinst", "prerm", "postrm"] {
        same(&["--info"], file);
    }
}
