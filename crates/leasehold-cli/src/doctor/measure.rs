//! What is found by using a store, whatever kind it is: how fast it answers against the TTLs in use, how the clocks of those who write
//! its ledger agree, and whether it is frozen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold::clock::{self, Clock, SystemClock};
use leasehold::ledger::Entry;
use leasehold::store::{Cursor, Finding, SERVER_POOL, Store};
use leasehold::{MemberName, Pool};

use crate::failure::Failure;
use crate::progress::Progress;

/// How many calls are timed.
const CALLS: usize = 20;
/// The TTL of a member that says nothing else.
const TTL_USUAL: Duration = Duration::from_secs(30);
/// How many of the last rows of a pool are looked at, and of how many pools.
const ROWS: usize = 2000;
const POOLS: usize = 16;
/// What clocks may be apart without a word.
const CLOCK_ERROR: Duration = Duration::from_secs(1);

/// Everything that is found by use.
pub(super) async fn findings(store: &Arc<dyn Store>, progress: &Progress) -> Result<Vec<Finding>, Failure> {
    let mut pools = store.pools().await?;
    pools.retain(|pool| pool.as_str() != SERVER_POOL);
    pools.truncate(POOLS);
    let probe = match pools.first() {
        Some(pool) => pool.clone(),
        None => Pool::new("doctor").map_err(|error| Failure::usage(error.to_string()))?,
    };
    let mut took = Vec::with_capacity(CALLS);
    progress.now("timing calls");
    progress.of(CALLS);
    for _ in 0..CALLS {
        let began = clock::now();
        store.marks(&probe, Cursor::START).await?;
        took.push(clock::now().since(began));
        progress.more(1);
    }
    let (mut rows, mut ttl, mut versions, mut frozen) = (Vec::new(), None, BTreeSet::new(), false);
    progress.now("looking at pools");
    progress.of(pools.len());
    for pool in &pools {
        let sessions = store.sessions(pool, Cursor::START).await?;
        frozen |= sessions.era.frozen;
        for session in sessions.items.iter().filter(|session| !session.ended) {
            ttl = Some(ttl.map_or(session.ttl, |least: Duration| least.min(session.ttl)));
            versions.extend(session.profile.version.clone());
        }
        rows.extend(newest(store, pool).await?);
        progress.more(1);
    }
    let mut findings = vec![
        Finding::good("the store answers, and what it keeps is of a form that this version knows"),
        latency(&mut took, ttl),
        clocks_ahead(&rows, SystemClock.wall_nanos()),
        drift(&rows),
    ];
    if frozen {
        findings.push(Finding::weak(
            "the store is frozen: it may have forgotten something, and nothing is granted or ended until it is thawed",
            "wait for the longest TTL; if it stays so, see that at least one member or a control plane runs",
        ));
    }
    if versions.len() > 1 {
        let versions: Vec<String> = versions.into_iter().collect();
        let said = format!("members of several versions take part: {}", versions.join(", "));
        findings.push(Finding::good(format!("{said}; they agree on a plan that all of them know")));
    }
    Ok(findings)
}

/// The last rows of a pool.
async fn newest(store: &Arc<dyn Store>, pool: &Pool) -> Result<Vec<Entry>, Failure> {
    let (mut after, mut kept) = (0, Vec::new());
    loop {
        let page = store.ledger(pool, None, after, ROWS).await?;
        let Some((last, _)) = page.last() else { return Ok(kept) };
        after = *last;
        kept.extend(page.into_iter().map(|(_, entry)| entry));
        let surplus = kept.len().saturating_sub(ROWS);
        kept.drain(..surplus);
    }
}

fn millis(time: Duration) -> String {
    if time < Duration::from_secs(10) {
        format!("{:.1} ms", time.as_secs_f64() * 1000.0)
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

/// A heartbeat has a third of the TTL, and must be tried again within it.
fn latency(took: &mut [Duration], ttl: Option<Duration>) -> Finding {
    took.sort_unstable();
    let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
    let known = if ttl.is_some() { "the shortest TTL in use" } else { "the usual TTL" };
    let ttl = ttl.unwrap_or(TTL_USUAL);
    let what = format!(
        "of {} calls half took no more than {}, the slowest {}; {known} is {ttl:?}",
        took.len(),
        millis(median),
        millis(worst)
    );
    if worst <= ttl / 15 {
        return Finding::good(what);
    }
    let risk =
        "members whose heartbeats wait that long lose trust, and stop work that nobody else could have had";
    Finding::weak(
        format!("{what}: {risk}"),
        "find out what slows the store or the way to it, or give a longer --ttl (docs/tuning.md)",
    )
}

/// Rows of the future: somebody's clock is ahead of ours, or ours is behind.
fn clocks_ahead(rows: &[Entry], now: u64) -> Finding {
    let ahead = |entry: &&Entry| entry.wall_nanos > now + nanos(CLOCK_ERROR);
    let worst = rows.iter().filter(ahead).max_by_key(|entry| entry.wall_nanos);
    match worst {
        None => Finding::good("no clock of a member is ahead of this machine's"),
        Some(entry) => Finding::weak(
            format!(
                "the clock of {} is at least {} ahead of this machine's: nothing is decided by it, but times of the ledger, \
                 the page's bars and a verdict over several machines are off by that much",
                entry.name,
                millis(Duration::from_nanos(entry.wall_nanos - now))
            ),
            "have all machines keep time with NTP",
        ),
    }
}

/// By how much a machine's wall clock went another way than its steady one, from the first row to the last.
fn drift(rows: &[Entry]) -> Finding {
    let mut seen: BTreeMap<&str, (i128, i128, &MemberName)> = BTreeMap::new();
    for entry in rows {
        let apart = i128::from(entry.wall_nanos) - i128::from(entry.at.0);
        let (least, most, _) = seen.entry(&entry.boot).or_insert((apart, apart, &entry.name));
        (*least, *most) = ((*least).min(apart), (*most).max(apart));
    }
    let worst = seen.values().max_by_key(|(least, most, _)| most - least);
    match worst {
        Some((least, most, name)) if most - least > i128::from(nanos(CLOCK_ERROR)) => {
            let moved = Duration::from_nanos(u64::try_from(most - least).unwrap_or(u64::MAX));
            Finding::weak(
                format!(
                    "the wall clock of {name}'s machine was moved by {} while it ran: leases do not mind, but times of the \
                     ledger are off by that much",
                    millis(moved)
                ),
                "let NTP slew the clock instead of setting it; see that nothing else sets it",
            )
        }
        Some(_) => Finding::good("wall clocks go with the steady clocks of their machines"),
        None => Finding::good("nobody has written to the ledger yet, so there are no clocks to compare"),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use leasehold::MemberId;
    use leasehold::clock::Moment;
    use leasehold::ledger::Event;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn row(boot: &str, wall: u64, at: u64) -> Entry {
        Entry {
            wall_nanos: wall * SECOND,
            at: Moment(at * SECOND),
            boot: boot.to_owned(),
            number: None,
            member: MemberId::new("m").unwrap(),
            name: MemberName::new("m").unwrap(),
            event: Event::Joined,
            resource: None,
            token: None,
            trusted_until: None,
            ttl_ms: None,
            reason: None,
            error: None,
            other: None,
            detail: None,
        }
    }

    #[test]
    fn a_slow_store_is_measured_by_the_shortest_ttl() {
        let mut fast = vec![Duration::from_millis(5); CALLS];
        assert!(!latency(&mut fast, Some(Duration::from_secs(3))).weak);
        let mut slow = fast;
        slow[3] = Duration::from_millis(400);
        assert!(!latency(&mut slow.clone(), None).weak);
        let found = latency(&mut slow, Some(Duration::from_secs(3)));
        assert!(
            found.weak && found.what.contains("the slowest 400.0 ms; the shortest TTL in use is 3s"),
            "{found:?}"
        );
    }

    #[test]
    fn clocks_that_are_ahead_or_were_moved_are_found() {
        let rows = [row("a", 1000, 10), row("a", 1010, 20), row("b", 1005, 900)];
        assert!(!clocks_ahead(&rows, 1010 * SECOND).weak && !drift(&rows).weak);
        assert!(clocks_ahead(&rows, 1000 * SECOND).what.contains("at least 10.0 s ahead"));
        let moved = [row("a", 1000, 10), row("a", 1040, 20)];
        assert!(drift(&moved).weak && drift(&moved).what.contains("moved by 30.0 s"));
        assert!(!drift(&[]).weak);
    }
}
