//! A thousand operations on leases of cameras a second, through the API of a real `leasehold serve` on a real PostgreSQL.
//!
//! Run with `cargo bench -p leasehold-cli --bench cameras`. A thousand cameras on fifty sites are acquired, reported on, renewed and released
//! by twenty runners, each camera once a second. Requests are due at fixed moments, however long those before them take, and are
//! measured from these moments on: what waits counts.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use leasehold::clock::{self, Clock, SystemClock};
use leasehold_testkit::{Dir, Postgres, Process, free_port, wait_for};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

const CAMERAS: usize = 1000;
const SITES: usize = 50;
const RUNNERS: usize = 20;
/// In a second.
const RATE: usize = 1000;
const WARM_UP: usize = 5;
const SECONDS: usize = 30;
/// How many requests may be under way at once: ten of each runner.
const CONNECTIONS: usize = 10 * RUNNERS;
/// What the house promises for 99 of 100.
const P99_MAX: Duration = Duration::from_millis(100);
const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold");
const STEPS: [&str; 4] = ["acquire", "heartbeat", "renew", "release"];

/// Connections that are kept open.
struct Clients {
    port: u16,
    idle: Vec<Mutex<Option<SendRequest<Full<Bytes>>>>>,
}

impl Clients {
    fn new(port: u16) -> Self {
        Self { port, idle: (0..CONNECTIONS).map(|_| Mutex::default()).collect() }
    }

    async fn ask(&self, over: usize, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        let mut connection = self.idle[over % CONNECTIONS].lock().await;
        if connection.as_ref().is_none_or(SendRequest::is_closed) {
            let stream = TcpStream::connect(("127.0.0.1", self.port)).await.expect("a control plane");
            stream.set_nodelay(true).expect("a socket");
            let (sender, driver) = handshake(TokioIo::new(stream)).await.expect("a connection");
            tokio::spawn(driver);
            *connection = Some(sender);
        }
        let sender = connection.as_mut().expect("a connection");
        sender.ready().await.expect("a connection");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1");
        let request = request.body(Full::from(body)).expect("a request");
        let answer = sender.send_request(request).await.expect("an answer");
        let status = answer.status();
        let said = answer.into_body().collect().await.expect("a body").to_bytes();
        (status, serde_json::from_slice(&said).unwrap_or(Value::Null))
    }

    async fn must(&self, over: usize, method: &str, path: &str, body: &Value) -> Value {
        let (status, said) = self.ask(over, method, path, body).await;
        assert!(status.is_success(), "{method} {path}: {status} {said}");
        said
    }
}

fn main() {
    // A server that waits for its disk, as one at work does.
    let server = Postgres::start_with(&["shared_buffers=256MB"]);
    server.create("work");
    let (dir, port) = (Dir::new(), free_port());
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--fresh", "--listen", &format!("127.0.0.1:{port}"), "--log", "warn"]);
    command.args(["--database", &server.url("work")]);
    let serve = Process::start(&mut command, &dir.join("serve.log"));
    wait_for("the control plane answers", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let clients = Arc::new(Clients::new(port));
        prepare(&clients).await;
        measure(&clients, &serve).await;
    });
}

async fn prepare(clients: &Clients) {
    for camera in 0..CAMERAS {
        let body = json!({"camera_uuid": format!("cam-{camera}"), "rtsp_url": "rtsp://camera.local/stream"});
        let path = format!("/api/v1/tenants/tenant-1/sites/site-{}/cameras/", camera % SITES);
        clients.must(camera, "POST", &path, &body).await;
    }
    for runner in 0..RUNNERS {
        let body = json!({
            "runner_id": format!("runner-{runner}"), "tenant_id": "tenant-1", "site_id": "*", "capacity": 64, "ttl_seconds": 3600
        });
        clients.must(runner, "POST", "/api/v1/runners/register/", &body).await;
    }
}

async fn measure(clients: &Arc<Clients>, serve: &Process) {
    let (began, used) = (clock::now().after(Duration::from_secs(1)), serve.cpu());
    let of_each = (WARM_UP + SECONDS) * RATE / CAMERAS;
    let working: Vec<_> = (0..CAMERAS)
        .map(|camera| {
            let clients = Arc::clone(clients);
            tokio::spawn(async move {
                let (mut lease, mut took) = (Value::Null, Vec::with_capacity(of_each));
                for turn in 0..of_each {
                    // The moment at which it is due.
                    let due = Duration::from_secs_f64((turn * CAMERAS + camera) as f64 / RATE as f64);
                    SystemClock.sleep_until(began.after(due)).await;
                    // Cameras are at different steps at the same time.
                    let step = (turn + 4 - camera % 4) % 4;
                    if turn < camera % 4 {
                        continue;
                    }
                    let said = one(&clients, camera, step, &lease).await;
                    let late = clock::now().since(began.after(due));
                    if step == 0 {
                        lease = said;
                    }
                    if due >= Duration::from_secs(WARM_UP as u64) {
                        took.push((step, late));
                    }
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for one in working {
        took.extend(one.await.expect("a camera"));
    }
    let ended = clock::now().since(began);
    let used = serve.cpu().saturating_sub(used);
    for (step, name) in STEPS.iter().enumerate() {
        let of_step = took.iter().filter(|(of, _)| *of == step).map(|(_, late)| *late).collect();
        report(name, of_step);
    }
    let all = report("all", took.iter().map(|(_, late)| *late).collect());
    println!(
        "{} a second; the control plane used {:.0} % of a core",
        took.len() / SECONDS,
        used.as_secs_f64() / ended.as_secs_f64() * 100.0
    );
    assert!(all < P99_MAX, "one of a hundred takes too long");
}

/// One operation on a camera's lease.
async fn one(clients: &Clients, camera: usize, step: usize, lease: &Value) -> Value {
    let path =
        |what: &str| format!("/api/v1/leases/{}/{what}/", lease["lease_id"].as_str().unwrap_or("none"));
    match STEPS[step] {
        "acquire" => {
            let body = json!({
                "camera_uuid": format!("cam-{camera}"), "runner_id": format!("runner-{}", camera % RUNNERS), "shard_id": "shard-1",
                "tenant_id": "tenant-1"
            });
            clients.must(camera, "POST", "/api/v1/leases/acquire/", &body).await
        }
        "heartbeat" => {
            clients.must(camera, "POST", &path("heartbeat"), &json!({"fps": 25, "frames": 7})).await
        }
        "renew" => clients.must(camera, "PUT", &path("renew"), &Value::Null).await,
        _ => clients.must(camera, "DELETE", &path("release"), &Value::Null).await,
    }
}

/// Prints how long they took, and says what 99 of 100 did not exceed.
fn report(name: &str, mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
    println!(
        "{name}: {} operations, median {:.1?}, 90 % {:.1?}, 99 % {:.1?}, most {:.1?}",
        took.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    at(0.99)
}
