//! What `leasehold fence mqtt` adds to the way of a message: 60 messages a second from each of 100 scenes, the fence on one core.
//!
//! Run with `cargo bench -p leasehold-cli --bench fence_mqtt`. Every message is heard twice, as it was sent and behind the fence; what the
//! fence adds is the difference, message by message.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use leasehold::clock::{self, Moment};
use leasehold_testkit::{Dir, Mosquitto, MosquittoSetup, Process, free_port, wait_for};
use rumqttc::{AsyncClient, Broker, Event, Incoming, MqttOptions, NetworkOptions, PublishOptions, QoS};
use tokio::sync::mpsc;

const SCENES: usize = 100;
/// Of each scene, in a second.
const RATE: usize = 60;
const SECONDS: usize = 20;
/// What the house promises for the median.
const ADDED_MAX: Duration = Duration::from_millis(2);
const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold");

/// Sends one request; answers the status.
fn ask(port: u16, method: &str, path: &str, body: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {length}"
    );
    write!(stream, "{head}\r\n\r\n{body}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// A connection to the broker; what it hears, and when, goes to `tell`.
fn client(port: u16, id: &str, tell: Option<mpsc::UnboundedSender<(u64, Moment)>>) -> AsyncClient {
    let mut options = MqttOptions::new(id, Broker::tcp("127.0.0.1", port));
    options.set_max_packet_size(1 << 20, 1 << 20).set_inflight(1000);
    let (client, mut events) = AsyncClient::builder(options).capacity(4096).build();
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    events.set_network_options(network);
    tokio::spawn(async move {
        loop {
            match events.poll().await {
                Ok(Event::Incoming(Incoming::Publish(publish))) => {
                    let at = clock::now();
                    let number = publish.payload.iter().skip(13).take_while(|byte| byte.is_ascii_digit());
                    let number = number.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
                    if let Some(tell) = &tell {
                        let _ = tell.send((number, at));
                    }
                }
                Ok(_) => {}
                Err(error) => panic!("the broker: {error}"),
            }
        }
    });
    client
}

fn main() {
    let broker = Mosquitto::start_with(MosquittoSetup { fleeting: true, ..MosquittoSetup::default() });
    let (dir, plane, health) = (Dir::new(), free_port(), free_port());
    let mut command = Command::new(PROGRAM);
    let database = format!("sqlite:{}", dir.join("scenes.db").display());
    command.args(["serve", "--listen", &format!("127.0.0.1:{plane}"), "--database", &database]);
    let _serve = Process::start(&mut command, &dir.join("serve.log"));
    wait_for("the control plane answers", || ask(plane, "GET", "/readyz", "") == Some(200));
    for scene in 0..SCENES {
        assert_eq!(ask(plane, "PUT", &format!("/api/v1/scenes/s{scene}"), ""), Some(201));
        let lease = r#"{"holder_id": "tracker-0", "ttl_ms": 600000}"#;
        assert_eq!(ask(plane, "POST", &format!("/api/v1/scenes/s{scene}/lease"), lease), Some(201));
    }
    let mut command = Command::new("taskset");
    command.args(["-c", "0", PROGRAM, "fence", "mqtt", "--store", &format!("http://127.0.0.1:{plane}")]);
    command.args(["--broker", &broker.url(), "--health", &format!("127.0.0.1:{health}")]);
    let fence = Process::start(&mut command, &dir.join("fence.log"));
    wait_for("the fence is ready", || ask(health, "GET", "/readyz", "") == Some(200));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(broker.port(), &fence));
}

async fn measure(port: u16, fence: &Process) {
    let (tell, mut raw) = mpsc::unbounded_channel();
    let before = client(port, "before", Some(tell));
    before.subscribe("scenescape/data/scene/+/+", QoS::AtLeastOnce).await.expect("a broker");
    let (tell, mut regulated) = mpsc::unbounded_channel();
    let behind = client(port, "behind", Some(tell));
    behind.subscribe("scenescape/regulated/scene/+", QoS::AtLeastOnce).await.expect("a broker");
    let publisher = client(port, "publisher", None);
    tokio::time::sleep(Duration::from_secs(1)).await;

    let objects = [r#"{"id": "a1b2-7", "type": "person", "translation": [1.5, 2.25, 0.0]}"#; 10].join(",");
    let (cpu, began) = (fence.cpu(), clock::now());
    let total = SCENES * RATE * SECONDS;
    for number in 0..total {
        // The moment at which it is due.
        let due = began.after(Duration::from_secs_f64(number as f64 / (SCENES * RATE) as f64));
        while clock::now() < due {
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        let scene = number % SCENES;
        let text = format!(r#"{{"timestamp":{number},"id":"s{scene}","objects":[{objects}],"_version":1}}"#);
        let topic = format!("scenescape/data/scene/s{scene}/person");
        publisher.publish(topic, text, PublishOptions::new(QoS::AtLeastOnce)).await.expect("a broker");
    }
    let took = clock::now().since(began);
    let used = fence.cpu().saturating_sub(cpu);
    let mut heard = HashMap::new();
    while heard.len() < total {
        let (number, at) = raw.recv().await.expect("a message");
        heard.insert(number, at);
    }
    let mut added = Vec::with_capacity(total);
    while added.len() < total {
        let next = tokio::time::timeout(Duration::from_secs(30), regulated.recv()).await;
        let (number, at) = next.expect("no message is lost").expect("a message");
        // One that came twice is counted once.
        if let Some(before) = heard.remove(&number) {
            added.push(at.since(before));
        }
    }
    added.sort_unstable();
    let at = |part: f64| added[((added.len() - 1) as f64 * part) as usize];
    println!(
        "{total} messages in {:.1} s, {:.0} a second; the fence used {:.0} % of a core",
        took.as_secs_f64(),
        total as f64 / took.as_secs_f64(),
        used.as_secs_f64() / took.as_secs_f64() * 100.0
    );
    println!(
        "added by the fence: median {:?}, 90 % {:?}, 99 % {:?}, most {:?}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    assert!(at(0.5) < ADDED_MAX, "the fence adds too much");
}
