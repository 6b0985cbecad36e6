//! What others do on the same machine.

use std::process::Command;
use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::{Etcd, EtcdOptions, Postgres};
use prost::Message;
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// The transaction of document 000, as it is printed there.
const TABLE: &str = "CREATE TABLE scene_leases (scene_id VARCHAR(64) PRIMARY KEY, holder_id VARCHAR(64), \
                     expires_at TIMESTAMP, version BIGINT DEFAULT 0); \
                     INSERT INTO scene_leases SELECT 'scene-' || n FROM generate_series(0, 63) AS n;";
const ACQUIRE: &str = "BEGIN;
SELECT * FROM scene_leases WHERE scene_id = 'scene-' || :client_id FOR UPDATE;
UPDATE scene_leases SET holder_id = 'tracker', expires_at = NOW() + INTERVAL '30 seconds', version = version + 1
WHERE scene_id = 'scene-' || :client_id AND (holder_id IS NULL OR expires_at < NOW());
SELECT version, expires_at FROM scene_leases WHERE scene_id = 'scene-' || :client_id;
COMMIT;
UPDATE scene_leases SET holder_id = NULL, expires_at = NULL WHERE scene_id = 'scene-' || :client_id AND holder_id = 'tracker';
";

/// Acquisitions and releases a second of document 000's statements on PostgreSQL.
pub(crate) fn pgbench(connections: usize, round: Duration) -> Option<(&'static str, f64)> {
    let server = Postgres::start_with(&["fsync=on", "synchronous_commit=on", "max_connections=200"]);
    server.create("bench");
    let url = server.url("bench");
    let directory = tempfile::tempdir().ok()?;
    let script = directory.path().join("acquire.sql");
    std::fs::write(&script, ACQUIRE).ok()?;
    server.sql("bench", TABLE);
    let mut command = Command::new("pgbench");
    command.args(["-n", "-M", "prepared", "-j", "2", "-c"]).arg(connections.to_string());
    command.arg("-T").arg(round.as_secs().to_string()).arg("-f").arg(&script).arg(&url);
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tps =
        text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok());
    let tps =
        tps.unwrap_or_else(|| panic!("pgbench said: {text}{}", String::from_utf8_lossy(&output.stderr)));
    // One run of the script acquires and releases: two requests.
    Some(("PostgreSQL, document 000 under pgbench", tps * 2.0))
}

/// A request to make a lease of etcd.
#[derive(Clone, PartialEq, Message)]
struct LeaseGrant {
    #[prost(int64, tag = "1")]
    ttl: i64,
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseGranted {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Compare {
    #[prost(int32, tag = "1")]
    result: i32,
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, tag = "5")]
    create_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Op {
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
}

#[derive(Clone, PartialEq, Message)]
struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Op>,
}

#[derive(Clone, PartialEq, Message)]
struct Done {
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

async fn call<Q: Message + 'static, A: Message + Default + 'static>(
    channel: &Channel,
    path: &'static str,
    request: Q,
) -> A {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.expect("etcd is there");
    let codec: ProstCodec<Q, A> = ProstCodec::default();
    let path = PathAndQuery::from_static(path);
    grpc.unary(tonic::Request::new(request), path, codec).await.expect("an answer").into_inner()
}

/// Acquisitions a second on one etcd: a lease is granted, and a key is put on it if there is none.
pub(crate) fn etcd(runtime: &Runtime, connections: usize, round: Duration) -> Option<(&'static str, f64)> {
    let server = Etcd::start_with(EtcdOptions {
        arguments: vec!["--unsafe-no-fsync=false".to_owned()],
        ..EtcdOptions::default()
    });
    let address = format!("http://127.0.0.1:{}", server.port());
    let began = clock::now();
    let asking = (0..connections).map(|connection| {
        let endpoint = Endpoint::from_shared(address.clone()).expect("an address");
        runtime.spawn(async move {
            let channel = endpoint.connect().await.expect("a connection");
            let mut count = 0_u64;
            while clock::now().since(began) < round {
                let lease: LeaseGranted =
                    call(&channel, "/etcdserverpb.Lease/LeaseGrant", LeaseGrant { ttl: 30, id: 0 }).await;
                let key = format!("scene-{connection}-{count}").into_bytes();
                // Create revision 1 is `target`, equal is `result` 0.
                let compare = Compare { result: 0, target: 1, key: key.clone(), create_revision: 0 };
                let put = Put { key, value: b"tracker".to_vec(), lease: lease.id };
                let txn = Txn { compare: vec![compare], success: vec![Op { put: Some(put) }] };
                let done: Done = call(&channel, "/etcdserverpb.KV/Txn", txn).await;
                assert!(done.succeeded, "the key was there");
                count += 1;
            }
            count
        })
    });
    let asking: Vec<_> = asking.collect();
    let count: u64 = runtime.block_on(async {
        let mut count = 0;
        for asked in asking {
            count += asked.await.expect("a connection");
        }
        count
    });
    Some(("etcd, LeaseGrant and Txn", count as f64 / clock::now().since(began).as_secs_f64()))
}
