//! Passwords in the addresses of cameras: known to runners, and nowhere else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use leasehold_testkit::RabbitMq;
use serde_json::{Value, json};

use crate::fleet::{Consumer, Plane, SITE, path, tell, wanted};
use crate::support::{Place, leasehold, ran, wait_until};

/// What must be found nowhere: passwords, and what stands for one where there is only a name.
const SECRETS: [&str; 4] = ["hunter2-first", "hunter2-second", "p%40ss-encoded", "token-as-name"];

struct Caller<'a> {
    plane: &'a Plane,
    headers: String,
}

impl<'a> Caller<'a> {
    fn new(plane: &'a Plane, role: &str) -> Self {
        let url = plane.place.url();
        let made = ran(leasehold().args(["keys", "create", "--role", role, "--database", &url]));
        assert_eq!(made.code, Some(0), "{}", made.err);
        Self { plane, headers: format!("authorization: Bearer {}\r\n", made.out.trim()) }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        tell(&self.plane.address, method, path, &self.headers, body).expect("an answer")
    }

    fn must(&self, code: u16, method: &str, path: &str, body: &Value) -> Value {
        let (found, said) = self.ask(method, path, body);
        assert_eq!(found, code, "{method} {path}: {said}");
        said
    }

    /// What a stream says in its first second.
    fn stream(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.plane.address).expect("a control plane");
        stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{}\r\n", self.headers);
        stream.write_all(head.as_bytes()).expect("a request");
        let mut said = Vec::new();
        // It ends when nothing more comes.
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }
}

fn assert_clean(what: &str, said: &str) {
    for secret in SECRETS {
        assert!(!said.contains(secret), "{secret} is in {what}: {said}");
    }
}

fn camera(id: &str, url: &str) -> Value {
    json!({"camera_uuid": id, "rtsp_url": url})
}

/// Every path that can be asked for, of a tenant's cameras, with whether it is a stream.
fn every_path(lease: &Value) -> Vec<(String, bool)> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json"))
        .expect("a file");
    let api: Value = serde_json::from_str(&text).expect("JSON");
    let known = [
        ("{tenant_id}", "tenant-1"),
        ("{site_id}", "site-1"),
        ("{camera_uuid}", "cam-1"),
        ("{runner_id}", "one"),
        ("{lease_id}", lease["lease_id"].as_str().expect("a lease")),
        ("{pool}", "tenant-1.cameras"),
        ("{resource}", "cam-1"),
        ("{id}", "cam-1"),
    ];
    let gets =
        api["paths"].as_object().expect("paths").iter().filter(|(_, methods)| methods["get"].is_object());
    gets.map(|(path, methods)| {
        let path = known.iter().fold(path.clone(), |path, (name, value)| path.replace(name, value));
        let is_stream = methods["get"].to_string().contains("text/event-stream");
        (path, is_stream)
    })
    .collect()
}

// proves U22, R134
#[test]
fn a_cameras_password_is_in_no_log_event_figure_list_or_error() {
    let broker = RabbitMq::start();
    let mut consumer = Consumer::bind(broker.url());
    let plane = Plane::start(Place::new(), &["--log", "debug"], Some(&broker.url()));
    let [admin, member, read] = ["admin", "member", "read"].map(|role| Caller::new(&plane, role));
    wait_until("it asks for keys", || plane.ask("GET", "/api/v1/pools", &Value::Null).0 == 401);
    let cameras = format!("{SITE}/cameras/");
    let first = "rtsp://admin:hunter2-first@camera.local/stream";
    admin.must(201, "POST", &cameras, &camera("cam-1", first));
    admin.must(
        201,
        "POST",
        &cameras,
        &camera("cam-2", "rtsp://root:p%40ss-encoded@camera.local:554/s?x=1#y"),
    );
    admin.must(201, "POST", &cameras, &camera("cam-3", "rtsp://token-as-name@camera.local/stream"));
    let runner = json!({"runner_id": "one", "tenant_id": "tenant-1", "site_id": "site-1"});
    member.must(201, "POST", "/api/v1/runners/register/", &runner);
    let lease = member.must(201, "POST", "/api/v1/leases/acquire/", &wanted("cam-1", "one", 60));
    let second = "rtsp://admin:hunter2-second@camera.local/stream";
    admin.must(200, "PUT", &format!("{cameras}cam-1/"), &camera("cam-1", second));
    // Whoever works on it is told.
    assert_eq!(member.must(200, "GET", "/api/v1/cameras/cam-1/", &Value::Null)["rtsp_url"], second);
    member.must(200, "PUT", &path(&lease, "renew"), &Value::Null);
    member.must(200, "POST", &path(&lease, "heartbeat"), &json!({"fps": 25}));

    // What is refused says nothing either, to whoever it was.
    let wrong = [
        json!({"camera_uuid": "cam-9", "rtsp_url": [first]}),
        json!({"camera_uuid": "cam-9", "rtsp_url": "rtsp://admin:hunter2-first@camera.local:99999999/"}),
        json!({"camera_uuid": "cam-9", "rtsp_url": "ftp://admin:hunter2-first@camera.local/"}),
        json!({"camera_uuid": "cam-9", "rtsp_url": "rtsp://admin:hunter2-first@"}),
        json!({"camera_uuid": "cam-9", "rtsp_url": "rtsp://x.local/", "min_score": first}),
        json!({"camera_uuid": "cam-9", "rtsp_url": "rtsp://x.local/", "allow_labels": [first]}),
        json!({"camera_uuid": "cam-9", "rtsp_url": "rtsp://x.local/", "zones": first}),
        json!({"camera_uuid": "cam-9", "rtsp_url": "rtsp://x.local/", "zone_test": first}),
        json!({"camera_uuid": "cam-9", "rtsp_url": "rtsp://x.local/", first: 1}),
        camera(first, "rtsp://x.local/"),
        camera("cam-1", first),
        json!(first),
        json!([first]),
    ];
    for body in &wrong {
        let (code, said) = admin.ask("POST", &cameras, body);
        assert!((400..500).contains(&code), "{body}: {code} {said}");
        assert_clean("an error", &said.to_string());
    }
    for body in [
        wanted(first, "one", 60),
        wanted("cam-1", first, 60),
        json!({"camera_uuid": "cam-1", "runner_id": 7, "x": first}),
    ] {
        let (code, said) = member.ask("POST", "/api/v1/leases/acquire/", &body);
        assert!((400..500).contains(&code), "{code} {said}");
        assert_clean("an error", &said.to_string());
    }
    let asked = "rtsp:%2F%2Fadmin:hunter2-first@camera.local%2Fstream";
    for path in [
        format!("/api/v1/cameras/{asked}/"),
        format!("/api/v1/leases/{asked}/"),
        format!("{cameras}?after={asked}"),
    ] {
        let (code, said) = read.ask("GET", &path, &Value::Null);
        assert!((400..500).contains(&code), "{path}: {code} {said}");
        assert_clean("an error", &said.to_string());
    }

    for (path, is_stream) in every_path(&lease) {
        let said =
            if is_stream { read.stream(&path) } else { read.ask("GET", &path, &Value::Null).1.to_string() };
        assert_clean(&path, &said);
    }
    let listed = read.must(200, "GET", &cameras, &Value::Null);
    assert_eq!(listed.as_array().map(Vec::len), Some(3), "{listed}");
    for path in ["/api/v1/leases/audit/?tenant_id=tenant-1", "/api/v1/cameras/available/?tenant_id=tenant-1"]
    {
        assert_clean(path, &read.must(200, "GET", path, &Value::Null).to_string());
    }
    assert_clean("the events", &read.stream("/api/v1/leases/events/?tenant_id=tenant-1"));

    admin.must(200, "POST", &path(&lease, "revoke"), &json!({}));
    member.must(410, "PUT", &path(&lease, "renew"), &Value::Null);
    member.must(200, "DELETE", &path(&lease, "release"), &Value::Null);
    admin.must(204, "DELETE", &format!("{cameras}cam-2/"), &Value::Null);
    wait_until("events have arrived", || {
        consumer.listen();
        consumer.arrived.iter().any(|(key, _)| key.starts_with("lease.released."))
    });
    for (key, event) in &consumer.arrived {
        assert_clean("an event", &format!("{key} {event}"));
    }
    let figures = admin.must(200, "GET", "/metrics", &Value::Null);
    assert!(figures.to_string().contains("streams_desired_total"), "{figures}");
    assert_clean("the figures", &figures.to_string());
    let log = plane.logs();
    assert!(log.contains("DEBUG") && log.contains("cam-1"), "it is a log in detail");
    assert_clean("the log", &log);
}
