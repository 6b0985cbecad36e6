//! Other languages: the client for Python, the tracker of the examples, and plain curl.

#[path = "support/project.rs"]
mod project;
#[path = "support/python.rs"]
mod python;

use std::process::{Command, Output};

use leasehold_testkit::{Dir, Mosquitto, Process, RabbitMq, free_port, wait_for};
use nix::sys::signal::Signal;
use project::root;
use python::python_with;

const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold");

/// A Python that has an MQTT client.
fn with_mqtt() -> &'static str {
    python_with("paho.mqtt.client", "python3-paho-mqtt")
}

/// Runs the tests of one Python module.
fn python_tests(directory: &str, module: &str, broker: Option<&Mosquitto>) {
    let port = broker.map(|broker| ("MQTT_PORT", broker.port().to_string()));
    tests_by(with_mqtt(), directory, module, port);
}

/// The same by this Python, with one more variable.
fn tests_by(python: &str, directory: &str, module: &str, env: Option<(&str, String)>) {
    let (client, here) = (root().join("clients/python"), root().join(directory));
    let mut command = Command::new(python);
    command.current_dir(&here).args(["-m", "unittest", "--verbose", module]);
    command.env("PYTHONPATH", format!("{}:{}", client.display(), here.display()));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("LEASEHOLD_BIN", PROGRAM).env_remove("LEASEHOLD_API_KEY");
    command.envs(env);
    let output = command.output().expect("python can be run");
    println!("{}{}", said(&output), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the tests of {directory}/{module}.py fail");
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_python_client_keeps_its_word() {
    python_tests("clients/python", "test_leasehold", None);
}

// proves R156-R181, U19
#[test]
fn a_client_written_from_document_004_alone_goes_through_every_endpoint() {
    tests_by(python_with("requests", "python3-requests"), "clients/python", "test_cameras", None);
}

#[test]
fn the_parts_of_the_tracker_do_what_they_should() {
    python_tests("examples/tracker", "test_tracker", None);
}

// proves R030-R038, R040, R042, R045-R048, C06, C10, U02, U04
#[test]
fn trackers_share_scenes_whatever_happens_to_them() {
    python_tests("examples/tracker", "test_together", Some(&Mosquitto::start()));
}

// proves R038, R040, R042, C08, U02
#[test]
fn behind_the_fence_nothing_stale_arrives_and_nothing_current_is_lost() {
    python_tests("examples/tracker", "test_fence", Some(&Mosquitto::start()));
}

const WORKER: &str = "examples/camera-worker";

#[test]
fn the_parts_of_the_camera_worker_do_what_they_should() {
    tests_by("python3", WORKER, "test_parts", None);
}

// proves R188, R190, R191, R206, R207, R216-R219, R230, R243, C46, C50, C52, C53, U20, U22, U23
#[test]
fn a_camera_worker_keeps_its_deadlines_and_its_word() {
    tests_by("python3", WORKER, "test_worker", None);
}

// proves R216, R218, R227, C45, C46, C52
#[test]
fn behind_the_consumer_each_event_counts_once_and_none_of_a_former_owner() {
    let broker = RabbitMq::start();
    let url = Some(("AMQP_URL", broker.url()));
    tests_by(python_with("pika", "python3-pika"), WORKER, "test_published", url);
}

// proves R238
#[test]
fn units_images_and_manifests_fit_the_program_and_the_rules() {
    tests_by(python_with("yaml", "python3-yaml"), "packaging", "test_manifests", None);
}

/// Every command of document 000 as it is printed there, in its order.
const PRINTED: [&str; 4] = [
    "curl https://manager/api/v1/scenes?leased=false",
    r#"curl -X POST https://manager/api/v1/scenes/scene-01/lease \
  -d '{"holder_id": "tracker-0"}'"#,
    r#"curl -X POST https://manager/api/v1/scenes/scene-01/lease/renew \
  -d '{"holder_id": "tracker-0"}'"#,
    r#"curl -X DELETE https://manager/api/v1/scenes/scene-01/lease \
  -d '{"holder_id": "tracker-0"}'"#,
];

// proves R023, R025, R027, R028
#[test]
fn the_commands_of_document_000_work_as_printed() {
    let (dir, port) = (Dir::new(), free_port());
    let address = format!("127.0.0.1:{port}");
    let database = format!("sqlite:{}", dir.join("scenes.db").display());
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", &address, "--database", &database]);
    let mut server = Process::start(&mut command, &dir.join("log"));
    let sh = |printed: &str| {
        let command = printed.replace("https://manager", &format!("http://{address}"));
        // The status is added to what is printed, or it would not be seen.
        let command = command.replacen("curl", "curl -s -w '\\n%{http_code}'", 1);
        let output = Command::new("sh").args(["-c", &command]).output().expect("there is a shell");
        let text = said(&output);
        let (body, status) = text.rsplit_once('\n').expect("a body and a status");
        (status.to_owned(), serde_json::from_str::<serde_json::Value>(body).unwrap_or_default())
    };
    wait_for("the server answers", || sh("curl https://manager/readyz").0 == "200");
    assert_eq!(sh("curl -X PUT https://manager/api/v1/scenes/scene-01").0, "201");

    let [list, acquire, renew, release] = PRINTED;
    let (status, scenes) = sh(list);
    assert_eq!((status.as_str(), &scenes[0]["scene_id"]), ("200", &"scene-01".into()));
    for field in ["holder_id", "expires_at", "version"] {
        assert!(scenes[0].get(field).is_some(), "{scenes} has no {field}");
    }
    let (status, lease) = sh(acquire);
    assert_eq!((status.as_str(), &lease["version"]), ("201", &1.into()));
    assert!(lease["expires_at"].is_string(), "{lease}");
    assert_eq!(sh(acquire).0, "409");
    assert_eq!(sh(list).1, serde_json::json!([]));
    assert_eq!(sh(renew).0, "200");
    assert_eq!(sh(release).0, "204");
    let (status, lost) = sh(renew);
    assert_eq!((status.as_str(), &lost["error"]), ("404", &"lease_lost".into()));
    assert_eq!(sh(acquire).1["version"], 2);
    server.end(Signal::SIGTERM);
}

/// The shell commands in one section of a document.
fn commands(document: &str, section: &str) -> String {
    let text = std::fs::read_to_string(root().join(document)).expect("the document");
    let (_, rest) = text.split_once(&format!("## {section}\n")).expect("the section");
    let section = rest.split("\n## ").next().unwrap_or_default();
    section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// Runs a script in the project's directory, with the programs of this build; answers what was printed.
fn run(script: &str, env: &[(&str, String)]) -> String {
    let dir = Dir::new();
    let found =
        Command::new("sh").args(["-c", &format!("command -v {}", with_mqtt())]).output().expect("a shell");
    let bin = dir.sub("bin");
    std::os::unix::fs::symlink(said(&found).trim(), bin.join("python3")).expect("our own directory");
    std::os::unix::fs::symlink(PROGRAM, bin.join("leasehold")).expect("our own directory");
    let path = std::env::var("PATH").unwrap_or_default();
    // What runs in the background ends with the script, or when it takes too long.
    let script = format!("trap 'kill $(jobs -p)' EXIT\n{script}")
        .replace("sqlite:", &format!("sqlite:{}/", dir.path().display()));
    let mut command = Command::new("timeout");
    command.args(["50", "bash", "-e", "-c", &script]).current_dir(root());
    command.env("PATH", format!("{}:{path}:/usr/sbin", bin.display())).env("PYTHONDONTWRITEBYTECODE", "1");
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let mut shell = Process::start(&mut command, &dir.join("log"));
    wait_for("all commands have run", || shell.ended());
    shell.log()
}

#[test]
fn the_tracker_is_started_as_its_document_says() {
    // The usual ports may be in use here.
    let (manager, broker, health) = (free_port(), free_port(), free_port());
    let script = commands("examples/tracker/README.md", "Run it")
        .replace("7400", &manager.to_string())
        .replace("1883", &broker.to_string());
    let env = [
        ("TRACKER_MANAGER_URL", format!("http://127.0.0.1:{manager}")),
        ("TRACKER_MQTT_PORT", broker.to_string()),
        ("TRACKER_HEALTH_PORT", health.to_string()),
    ];
    let log = run(&script, &env);
    assert!(log.contains(r#""status": "ready""#), "{log}");
    assert!(log.contains(r#""_version": 1"#), "{log}");
    assert!(log.contains(r#""operation": "takeover""#), "{log}");
}

#[test]
fn the_camera_worker_is_started_as_its_document_says() {
    let script = commands("examples/camera-worker/README.md", "Run it")
        .replace("8080", &free_port().to_string())
        .replace("9108", &free_port().to_string());
    let log = run(&script, &[]);
    assert!(log.contains(r#""event": "camera_started""#), "{log}");
    assert!(log.contains(r#"{"status": "healthy", "applied": 1, "pid": "#), "{log}");
    assert!(log.contains(r#""refused": {}"#) && !log.contains(r#"{"accepted": 0"#), "{log}");
}

#[test]
fn the_fence_is_started_as_its_document_says() {
    let (manager, broker, health) = (free_port(), free_port(), free_port());
    let script = commands("docs/fencing.md", "MQTT")
        .replace("7400", &manager.to_string())
        .replace("1883", &broker.to_string())
        .replace("8085", &health.to_string());
    let log = run(&script, &[]);
    assert!(log.contains(r#"{"scene_id": "scene-01", "data": {"objects": []}, "_version": 1}"#), "{log}");
    assert!(!log.contains(r#""_version": 9"#), "{log}");
    assert!(log.contains(r#"leasehold_fence_refused_total{reason="future_token"} 1"#), "{log}");
}

#[test]
fn the_first_page_is_right_about_curl_and_python() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("the first page");
    let (_, rest) = text.split_once("## Any language\n").expect("the section");
    let program =
        rest.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    // It would go on forever.
    let program = format!("{program}        break\nprint('lost:', lease.lost.is_set())\n");
    let ready = "until curl -sf http://127.0.0.1:7400/readyz; do sleep 1; done";
    let script = commands("README.md", "Any language").replacen('&', &format!("&\n{ready}"), 1);
    let script = format!("{script}\npython3 - <<'EOF'\n{program}EOF\n");
    let path = root().join("clients/python").display().to_string();
    let log = run(&script.replace("7400", &free_port().to_string()), &[("PYTHONPATH", path)]);
    // Acquired and renewed under the first token, released, and acquired by the program under the second.
    assert_eq!(log.matches(r#""version":1"#).count(), 2, "{log}");
    assert!(log.contains("working on report under token 2\n") && log.contains("lost: True\n"), "{log}");
}
