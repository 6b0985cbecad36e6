//! Leases of etcd itself.

use std::time::Duration;

use leasehold::clock;
use leasehold_testkit::{Etcd, EtcdOptions};
use prost::Message;
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// A request to make a lease of etcd.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrant {
    #[prost(int64, tag = "1")]
    pub(crate) ttl: i64,
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGranted {
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
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

pub(crate) async fn call<Q: Message + 'static, A: Message + Default + 'static>(
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

/// One node that loses nothing that it confirmed.
pub(crate) fn server() -> Etcd {
    let arguments = ["--unsafe-no-fsync=false", "--quota-backend-bytes=8000000000"].map(str::to_owned);
    Etcd::start_with(EtcdOptions { arguments: arguments.to_vec(), ..EtcdOptions::default() })
}

/// Acquisitions a second on one etcd: a lease is granted, and a key is put on it if there is none.
pub(crate) fn grants(runtime: &Runtime, connections: usize, round: Duration) -> f64 {
    let server = server();
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
    count as f64 / clock::now().since(began).as_secs_f64()
}
