//! The generated half of the etcd store is what its description says.
//!
//! Nobody needs a protocol compiler to build the store: its output is checked in. After a change of the description run
//! `LEASEHOLD_GENERATE=1 cargo test -p leasehold --test etcd_proto`.

use std::path::Path;

#[test]
fn the_generated_file_is_what_its_description_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/etcd/proto");
    let description = protox::compile([folder.join("etcd.proto")], [&folder]).expect("a good description");
    let output = tempfile::tempdir().expect("a temporary directory");
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .out_dir(output.path())
        .compile_fds(description)
        .expect("it can be generated");
    let generated = std::fs::read_to_string(output.path().join("etcdserverpb.rs")).expect("one file");
    let kept = folder.join("etcdserverpb.generated");
    if std::env::var_os("LEASEHOLD_GENERATE").is_some() {
        std::fs::write(&kept, &generated).expect("our own file");
    }
    let kept = std::fs::read_to_string(kept).expect("the generated file is checked in");
    assert!(
        kept == generated,
        "etcdserverpb.generated is not what etcd.proto says; see the top of this test"
    );
}
