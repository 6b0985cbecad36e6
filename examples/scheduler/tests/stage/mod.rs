//! Real replicas on a real etcd, and somebody who creates instances all the time.
//!
//! The witness is etcd's own record of what was written. An instance that was created, assigned once and never
//! touched again has a state of version 2 and a worker of version 1, written in one step. Assignments in the order of their
//! revisions carry tokens that never fall: none was made by a leader after a later one had made its first.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold::clock::{Clock, SystemClock};
use leasehold::election::Key;
use leasehold::ledger::verify::{Verdict, verify};
use leasehold::store::{Begin, StoreUrl};
use leasehold_example_scheduler::etcd::{Compare, Etcd, Write};
use leasehold_example_scheduler::world::{
    Fields, PENDING, PREFIX, READY, SCHEDULED, World, instance_key, value, worker_key,
};
use leasehold_testkit::{Dir, EtcdCluster, EtcdOptions, Process, Proxy};
use nix::sys::signal::Signal;
use tokio::runtime::Runtime;

pub(crate) const TTL: Duration = Duration::from_secs(3);
pub(crate) const SCHEDULER: &str = "/ccm/scheduler/leader";
pub(crate) const CONTROLLER: &str = "/ccm/controller/leader";
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) struct Stage {
    replicas: BTreeMap<String, Process>,
    /// The ways of each replica to the members of the cluster.
    ways: BTreeMap<String, Vec<Proxy>>,
    pub(crate) cluster: EtcdCluster,
    etcd: Etcd,
    runtime: Runtime,
    dir: Dir,
}

impl Stage {
    /// An etcd of so many members, prepared for leases.
    pub(crate) fn on(members: usize) -> Self {
        let cluster = EtcdCluster::of(members, EtcdOptions::default());
        let runtime = Runtime::new().unwrap();
        let endpoints = endpoints(cluster.ports());
        let store: StoreUrl = format!("etcd://{}", endpoints.join(",")).parse().unwrap();
        runtime.block_on(leasehold::store::migrate(&store, Begin::Live)).unwrap();
        let etcd = Etcd::new(&endpoints).unwrap();
        Self { replicas: BTreeMap::new(), ways: BTreeMap::new(), cluster, etcd, runtime, dir: Dir::new() }
    }

    /// Starts a replica, or starts it again.
    pub(crate) fn enter(&mut self, name: &str) {
        let ports = self.ways(name).iter().map(Proxy::port).collect();
        let process = Process::start(
            Command::new(env!("CARGO_BIN_EXE_leasehold-example-scheduler"))
                .env("ETCD_ENDPOINTS", endpoints(ports).join(","))
                .env("LEADER_LEASE_TTL", TTL.as_secs().to_string())
                .env("RECONCILE_INTERVAL", "5")
                .env("SCHEDULER_INSTANCE_ID", name),
            &self.dir.join(&format!("{name}.log")),
        );
        self.replicas.insert(name.to_owned(), process);
    }

    pub(crate) fn signal(&self, name: &str, signal: Signal) {
        self.replicas[name].signal(signal);
    }

    /// Sends a signal and waits until the replica has ended.
    pub(crate) fn end(&mut self, name: &str, signal: Signal) {
        self.replicas.get_mut(name).unwrap().end(signal);
    }

    /// The ways of a replica to etcd, which are there before it is.
    pub(crate) fn ways(&mut self, name: &str) -> &[Proxy] {
        let ports = self.cluster.ports();
        let ways = self.ways.entry(name.to_owned());
        ways.or_insert_with(|| ports.into_iter().map(Proxy::to).collect())
    }

    pub(crate) fn log(&self, name: &str) -> String {
        self.replicas[name].log()
    }

    /// The name of the replica that the leader key names. Ids are a name, a dash and more.
    pub(crate) fn leader(&self, key: &str) -> Option<String> {
        let (_, kvs) = self.runtime.block_on(self.etcd.read(key)).ok()?;
        let id = &kvs.first()?.value;
        self.replicas.keys().find(|name| id.starts_with(&format!("{name}-"))).cloned()
    }

    /// Waits until somebody leads, other than the one named.
    pub(crate) fn until_led(&self, but_not_by: &str) -> String {
        let mut leader = None;
        self.until("somebody leads", |stage| {
            leader = stage.leader(SCHEDULER).filter(|leader| leader != but_not_by);
            leader.is_some()
        });
        leader.unwrap()
    }

    /// Writes, as somebody who is no scheduler.
    pub(crate) fn write(&self, writes: &[Write]) {
        self.runtime.block_on(self.etcd.write(&[], writes)).unwrap();
    }

    pub(crate) fn add_worker(&self, id: &str, capacity: usize) {
        self.write(&[
            Write::Put(worker_key(id, "capacity"), capacity.to_string()),
            Write::Put(worker_key(id, "ports"), capacity.to_string()),
            Write::Put(worker_key(id, "state"), READY.to_owned()),
        ]);
    }

    pub(crate) fn world(&self) -> Option<World> {
        let (revision, kvs) = self.runtime.block_on(self.etcd.read(PREFIX)).ok()?;
        Some(World::read(revision, kvs))
    }

    pub(crate) fn scheduled(&self) -> usize {
        let is_scheduled = |fields: &&Fields| value(fields, "state") == Some(SCHEDULED);
        self.world().map_or(0, |world| world.instances.values().filter(is_scheduled).count())
    }

    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = SystemClock.now().after(PATIENCE);
        while !holds(self) {
            assert!(SystemClock.now() < deadline, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until so many more instances were scheduled than at this moment.
    pub(crate) fn until_more(&self, count: usize) {
        let before = self.scheduled();
        self.until("more is scheduled", |stage| stage.scheduled() >= before + count);
    }

    /// Begins to create instances, one after the other.
    pub(crate) fn create_instances(&self, every: Duration) -> Creator {
        Creator::start(&endpoints(self.cluster.ports()), every)
    }

    /// Every instance was assigned once, nobody has too many, and no leader wrote after a later one.
    pub(crate) fn judge(&self, instances: usize) {
        let everything = |stage: &Self| stage.scheduled() == instances;
        self.until(&format!("all of {instances} are scheduled"), everything);
        let world = self.world().unwrap();
        assert_eq!(world.instances.len(), instances, "what was created is there");
        let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
        let mut writes = Vec::new();
        for (id, fields) in &world.instances {
            let (state, worker, token) = (&fields["state"], &fields["worker"], &fields["token"]);
            assert_eq!((state.version, worker.version, token.version), (2, 1, 1), "{id} was assigned once");
            assert_eq!(state.mod_revision, worker.mod_revision, "{id} was assigned in one step");
            *taken.entry(&worker.value).or_default() += 1;
            writes.push((state.mod_revision, token.value.parse::<u64>().unwrap()));
        }
        for (worker, taken) in taken {
            let room: usize = value(&world.workers[worker], "capacity").unwrap().parse().unwrap();
            assert!(taken <= room, "{worker} has {taken} instances and room for {room}");
        }
        writes.sort_unstable();
        let fell = writes.windows(2).find(|pair| pair[0].1 > pair[1].1);
        assert_eq!(fell, None, "a former leader wrote after a later one");
    }

    /// The ledger of an election: nobody else led while one did.
    pub(crate) fn judge_ledger(&self, key: &str) -> Verdict {
        let verdict = self.runtime.block_on(async {
            let url: StoreUrl =
                format!("etcd://{}", endpoints(self.cluster.ports()).join(",")).parse().unwrap();
            let store = leasehold::store::open(&url).await.unwrap();
            let key = Key::new(key).unwrap();
            let (mut entries, mut after) = (Vec::new(), 0);
            loop {
                let page = store.ledger(key.pool(), None, after, 500).await.unwrap();
                let Some((last, _)) = page.last() else { break };
                after = *last;
                entries.extend(page.into_iter().map(|(_, entry)| entry));
            }
            verify(&entries, Duration::ZERO)
        });
        assert!(verdict.rows > 0, "the ledger of {key} is empty");
        assert!(verdict.is_clean() && verdict.overlap() == Duration::ZERO, "{key}: {:?}", verdict.violations);
        verdict
    }
}

fn endpoints(ports: Vec<u16>) -> Vec<String> {
    ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect()
}

/// Somebody who creates instances all the time.
pub(crate) struct Creator {
    stop: Arc<AtomicBool>,
    created: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Creator {
    fn start(endpoints: &[String], every: Duration) -> Self {
        let (stop, created) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let etcd = Etcd::new(endpoints).unwrap();
        let (told, count) = (Arc::clone(&stop), Arc::clone(&created));
        let create = async move {
            while !told.load(Ordering::SeqCst) {
                let state = instance_key(&format!("i{:05}", count.load(Ordering::SeqCst)), "state");
                // Created once, however often it has to be asked for.
                let absent = Compare::Unchanged(state.clone(), 0);
                if etcd.write(&[absent], &[Write::Put(state, PENDING.to_owned())]).await.is_ok() {
                    count.fetch_add(1, Ordering::SeqCst);
                }
                tokio::time::sleep(every).await;
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = std::thread::spawn(move || runtime.block_on(create));
        Self { stop, created, thread: Some(thread) }
    }

    /// Stops, and says how many there are.
    pub(crate) fn stop(mut self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
        self.created.load(Ordering::SeqCst)
    }
}

impl Drop for Creator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
