//! What is special about a store on etcd: clusters are restored, compacted, full and without a leader, not everybody may use
//! them, and others use them too.

mod bad_servers;
mod cluster;
mod foreigners;
mod forgetting;
mod large;
mod lines;
mod pages;
mod support;
