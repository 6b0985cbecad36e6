//! How soon everything is worked on again, judged by what the work itself wrote.

use std::time::Duration;

use leasehold::clock::Moment;

use super::stage::{Stage, Stretch};

/// What is promised beyond the TTL.
const PROMISED: Duration = Duration::from_secs(1);
/// What is allowed beyond the promise, because tests share their machine with other tests and with compilers: servers stand
/// still behind a busy disk for seconds, and then the wait begins anew.
const NOISE: Duration = Duration::from_secs(9);
/// Who hands a piece of work over goes on with the rest of its work for at least so long. Whoever is over stops all of it.
const GOES_ON: Duration = Duration::from_millis(500);

/// Waits until everything is worked on, says how long after `since` that was, and fails if it was too long.
pub(crate) fn measure(stage: &Stage, counted_from: &str, since: Moment) {
    stage.until_everything_is_worked_on();
    let took = owned_again(&stage.stretches(), since);
    let (ttl, limit) = (stage.ttl(), stage.ttl() + PROMISED + NOISE);
    let thread = std::thread::current();
    let scene = thread.name().unwrap_or_default();
    println!("owned again: {scene}, counted from {counted_from}, TTL {ttl:?}: {:.2} s", took.as_secs_f64());
    assert!(took <= limit, "{scene}: owned again {took:?} after {counted_from}, more than {limit:?}");
}

/// How long after `since` the last resource was worked on again.
fn owned_again(stretches: &[Stretch], since: Moment) -> Duration {
    let mut sorted: Vec<&Stretch> = stretches.iter().collect();
    sorted.sort_by(|one, two| (&one.resource, one.from).cmp(&(&two.resource, two.from)));
    let pairs = sorted.windows(2).filter(|pair| pair[0].resource == pair[1].resource);
    let broken = pairs.filter(|pair| pair[0].to < since || !handed_over(stretches, pair[0]));
    let again = broken.map(|pair| pair[1].from).max().unwrap_or(since);
    again.since(since)
}

/// Whether whoever did this stopped nothing else with it.
fn handed_over(stretches: &[Stretch], done: &Stretch) -> bool {
    let goes_on = |other: &Stretch| {
        other.name == done.name && other.from < done.to && other.to > done.to.after(GOES_ON)
    };
    stretches.iter().any(goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn worked(name: &str, resource: &str, from: u64, to: u64) -> Stretch {
        let (from, to) = (Moment(from * SECOND), Moment(to * SECOND));
        Stretch { name: name.to_owned(), resource: resource.to_owned(), token: from.0, from, to }
    }

    fn after_ten(stretches: &[Stretch]) -> u64 {
        owned_again(stretches, Moment(10 * SECOND)).as_secs()
    }

    #[test]
    fn the_last_resource_counts() {
        let before = [worked("one", "a", 1, 5), worked("one", "b", 1, 9)];
        let after = [worked("two", "a", 12, 20), worked("two", "b", 14, 20)];
        assert_eq!(after_ten(&[before, after].concat()), 4);
    }

    #[test]
    fn work_that_never_stopped_or_came_back_before_counts_nothing() {
        let stretches = [worked("one", "a", 1, 20), worked("two", "b", 1, 3), worked("one", "b", 8, 20)];
        assert_eq!(after_ten(&stretches), 0);
    }

    #[test]
    fn work_that_stops_only_afterwards_counts_when_it_comes_back() {
        let before = [worked("one", "a", 1, 12), worked("one", "b", 1, 12)];
        let after = [worked("two", "a", 13, 20), worked("two", "b", 16, 20)];
        assert_eq!(after_ten(&[before, after].concat()), 6);
    }

    #[test]
    fn a_piece_that_is_handed_over_counts_nothing() {
        let stretches = [worked("one", "a", 1, 17), worked("one", "b", 1, 20), worked("two", "a", 19, 20)];
        assert_eq!(after_ten(&stretches), 0);
    }
}
