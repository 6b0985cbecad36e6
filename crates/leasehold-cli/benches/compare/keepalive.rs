//! Keeping leases of etcd itself alive, and its own lock.

use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::Etcd;
use prost::Message;
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::iter;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::etcd::{LeaseGrant, LeaseGranted, call};

/// How many leases one connection keeps in one stream.
const BURST: usize = 100;
/// How often the lock is taken.
const LOCKS: u32 = 20;

#[derive(Clone, PartialEq, Message)]
struct KeepAlive {
    #[prost(int64, tag = "1")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct KeptAlive {
    #[prost(int64, tag = "3")]
    ttl: i64,
}

/// Keep-alives a second. One keeps one lease, whether one key hangs on it or many.
pub(crate) fn rate(runtime: &Runtime, server: &Etcd, connections: usize, round: Duration) -> f64 {
    let address = format!("http://127.0.0.1:{}", server.port());
    runtime.block_on(async {
        let began = clock::now();
        let keepers = (0..connections).map(|_| {
            let endpoint = Endpoint::from_shared(address.clone()).expect("an address");
            tokio::spawn(async move {
                let channel = endpoint.connect().await.expect("a connection");
                let lease: LeaseGranted =
                    call(&channel, "/etcdserverpb.Lease/LeaseGrant", LeaseGrant { ttl: 60, id: 0 }).await;
                let mut count = 0;
                while clock::now().since(began) < round {
                    count += burst(&channel, lease.id).await;
                }
                count
            })
        });
        let mut count = 0;
        for keeper in keepers.collect::<Vec<_>>() {
            count += keeper.await.expect("a connection");
        }
        f64::from(count) / clock::now().since(began).as_secs_f64()
    })
}

/// Sends many in one stream and reads all answers.
async fn burst(channel: &Channel, lease: i64) -> u32 {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.expect("etcd is there");
    let codec: ProstCodec<KeepAlive, KeptAlive> = ProstCodec::default();
    let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
    let asked = tonic::Request::new(iter(vec![KeepAlive { id: lease }; BURST]));
    let mut answers = grpc.streaming(asked, path, codec).await.expect("a stream").into_inner();
    let mut count = 0;
    while let Some(answer) = answers.message().await.expect("an answer") {
        assert!(answer.ttl > 0, "the lease is gone");
        count += 1;
    }
    count
}

/// How long `etcdctl lock` takes to get a lock that nobody has, and to give it back, in milliseconds.
pub(crate) fn etcdctl_lock_ms(server: &Etcd) -> f64 {
    let began = clock::now();
    for number in 0..LOCKS {
        let _ = server.ctl(&["lock", &format!("lock-{number}"), "true"]);
    }
    clock::now().since(began).as_secs_f64() * 1000.0 / f64::from(LOCKS)
}
