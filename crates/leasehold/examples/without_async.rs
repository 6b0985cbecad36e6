//! How do I use it from threads?
//!
//! `blocking::start` brings a runtime of its own and runs the work of each lease on a thread. A thread cannot be
//! aborted, so the work looks at its lease at every moment of use, and its lease does not go back before it has
//! returned.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use leasehold::store::memory::MemoryStore;
use leasehold::{Lease, Participant, Pool, blocking};

fn work(lease: Lease) {
    while !lease.is_stopping() {
        match lease.term() {
            Ok(term) => println!("a step of {} under token {}", term.resource, term.token),
            Err(_) => return,
        }
        sleep(Duration::from_millis(50));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let member = Participant::join(Arc::new(MemoryStore::new()), Pool::new("jobs")?).resources(["a", "b"])?;
    let member = blocking::start(member, work)?;
    while member.status().held.len() < 2 {
        sleep(Duration::from_millis(10));
    }
    sleep(Duration::from_millis(200));
    member.leave();
    println!("both threads have ended and both leases are free");
    Ok(())
}
