//! What the watch told of large ranges, so that whoever has read one needs no more than what changed in it.
//!
//! To find what changed since a revision, etcd looks at everything in the range. The watch brings the same for nothing; it only
//! cannot be relied upon to have brought all of it yet.
//!
//! Invariant: a log answers only if it lacks nothing. Every transaction that writes in a large range touches the range's own key,
//! whose version therefore counts them: a log lacks nothing if it has seen as many as that version has risen. A log begins
//! anew with every watch, and whenever the cluster turns out to be another memory.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::keys::Key;
use super::proto::KeyValue;

/// How many changes a log keeps before it forgets those that were followed by another of the same key, and how many it keeps after
/// that. Whoever is further behind reads the range, which costs etcd so much that a crowd of such readers would only fall further behind.
const CHANGES: usize = 50_000;
const CHANGES_MAX: usize = 250_000;
/// How many ranges have a log.
const LOGS_MAX: usize = 64;
/// How long the watch may be behind what was read.
const BEHIND: Duration = Duration::from_secs(1);

/// When a range was last written in: the revision, and how many transactions have done so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) revision: i64,
    pub(super) times: i64,
}

impl Touched {
    /// As its key says; never, if there is none.
    pub(super) fn of(kv: Option<&KeyValue>) -> Self {
        kv.map_or_else(Self::default, |kv| Self { revision: kv.mod_revision, times: kv.version })
    }
}

/// What was told of one range.
#[derive(Debug, Default)]
struct Log {
    generation: u64,
    /// After which revision the last change of every key is here.
    from: i64,
    /// Up to where nothing is lacking, if that is known of anything.
    complete: Option<Touched>,
    /// In their order; of changes of the same key perhaps only the last.
    changes: VecDeque<Arc<KeyValue>>,
    /// How many changes there may be before it is looked for those that count no more.
    room: usize,
    /// The revisions of the changes after what is complete, each once.
    revisions: VecDeque<i64>,
    /// Held by whoever reads the range itself.
    reading: Arc<tokio::sync::Mutex<()>>,
}

/// What a log knows.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Everything(Vec<Arc<KeyValue>>),
    NotYet,
    Never,
}

impl Log {
    fn begin(&mut self, now: Touched) {
        self.from = now.revision;
        self.complete = Some(now);
    }

    fn add(&mut self, kv: KeyValue) {
        match self.changes.back() {
            Some(last) if last.mod_revision > kv.mod_revision => return self.begin_anew(),
            Some(last) if last.mod_revision == kv.mod_revision => {}
            _ => self.revisions.push_back(kv.mod_revision),
        }
        if self.revisions.len() > CHANGES_MAX {
            // Nobody has asked for long, and would read the range now.
            return self.begin_anew();
        }
        self.changes.push_back(Arc::new(kv));
        if self.changes.len() > self.room.max(CHANGES) {
            self.make_room();
        }
    }

    fn begin_anew(&mut self) {
        let reading = std::mem::take(&mut self.reading);
        *self = Self { generation: self.generation, reading, ..Self::default() };
    }

    /// Forgets changes that were followed by another of the same key, and the oldest if that is not enough.
    fn make_room(&mut self) {
        let mut later: HashSet<&Key> = HashSet::new();
        let counts: Vec<bool> = self.changes.iter().rev().map(|change| later.insert(&change.key)).collect();
        let mut counts = counts.into_iter().rev();
        self.changes.retain(|_| counts.next().unwrap_or(true));
        while self.changes.len() > CHANGES_MAX {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.from = self.from.max(oldest.mod_revision);
        }
        self.room = 2 * self.changes.len();
    }

    /// The last change of every key after `since`, as of the moment at which the range's key said `now` or later.
    fn after(&mut self, since: i64, now: Touched) -> Heard {
        let Some(complete) = self.complete else {
            self.begin(now);
            return Heard::Never;
        };
        if since < self.from || now.revision < self.from {
            return Heard::Never;
        }
        if now.revision > complete.revision {
            let heard = self.revisions.partition_point(|seen| *seen <= now.revision);
            let before = self.revisions.partition_point(|seen| *seen <= complete.revision);
            if i64::try_from(heard - before).is_ok_and(|times| times == now.times - complete.times) {
                self.complete = Some(now);
                self.revisions.drain(..heard);
            } else if self.revisions.back().is_some_and(|last| *last >= now.revision) {
                // What came before the last one never will.
                self.begin_anew();
                return Heard::Never;
            } else {
                return Heard::NotYet;
            }
        }
        let new = self.changes.partition_point(|change| change.mod_revision <= since);
        let last: BTreeMap<&Key, &Arc<KeyValue>> =
            self.changes.range(new..).map(|change| (&change.key, change)).collect();
        Heard::Everything(last.into_values().cloned().collect())
    }
}

/// The logs of a handle.
#[derive(Debug, Default)]
pub(super) struct News {
    state: Mutex<State>,
    told: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Counts watches; nobody watches if it is even.
    watch: u64,
    logs: HashMap<Key, Log>,
}

/// Whoever has this is told everything that happens in the range from now on, for as long as the watch lives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listening(u64);

impl News {
    /// A watch has begun; it tells everything until what is returned is dropped.
    pub(super) fn watch(&self) -> impl Drop + '_ {
        self.turn();
        Watching(self)
    }

    fn turn(&self) {
        let mut state = self.lock();
        state.watch += 1;
        state.logs.clear();
    }

    /// Takes in what the watch told.
    pub(super) fn tell<'a>(&self, kvs: impl IntoIterator<Item = &'a KeyValue>) {
        let mut state = self.lock();
        for kv in kvs {
            let range = kv.key.iter().rposition(|byte| *byte == b'/').and_then(|last| kv.key.get(..=last));
            if let Some(log) = range.and_then(|range| state.logs.get_mut(range)) {
                log.add(kv.clone());
            }
        }
        drop(state);
        self.told.notify_waiters();
    }

    /// Has a range listened to. To be called before the range's key is read.
    pub(super) fn listen(&self, range: &Key, generation: u64) -> Option<Listening> {
        let mut state = self.lock();
        if state.watch.is_multiple_of(2) {
            return None;
        }
        if !state.logs.contains_key(range) && state.logs.len() >= LOGS_MAX {
            return None;
        }
        let log = state.logs.entry(range.clone()).or_default();
        if log.generation != generation {
            log.generation = generation;
            log.begin_anew();
        }
        Some(Listening(state.watch))
    }

    /// What whoever reads a range holds, so that one reads it at a time and the others may find in its log what they lack.
    pub(super) fn reading(&self, range: &Key) -> Arc<tokio::sync::Mutex<()>> {
        self.lock().logs.get(range).map(|log| Arc::clone(&log.reading)).unwrap_or_default()
    }

    /// Has a range's log begin here, unless it has begun: this is what its key said after somebody began to listen.
    pub(super) fn begin(&self, range: &Key, listening: Listening, now: Touched) {
        let mut state = self.lock();
        if state.watch == listening.0
            && let Some(log) = state.logs.get_mut(range).filter(|log| log.complete.is_none())
        {
            log.begin(now);
        }
    }

    /// Everything that changed in a range after `since`, as of when its key said `now`. `None`: the range must be read.
    pub(super) async fn after(
        &self,
        range: &Key,
        listening: Listening,
        since: i64,
        now: Touched,
    ) -> Option<Vec<Arc<KeyValue>>> {
        let heard = async {
            loop {
                let told = self.told.notified();
                match self.heard(range, listening, since, now) {
                    Heard::Everything(changes) => return Some(changes),
                    Heard::Never => return None,
                    Heard::NotYet => told.await,
                }
            }
        };
        tokio::time::timeout(BEHIND, heard).await.ok().flatten()
    }

    fn heard(&self, range: &Key, listening: Listening, since: i64, now: Touched) -> Heard {
        let mut state = self.lock();
        if state.watch != listening.0 {
            return Heard::Never;
        }
        state.logs.get_mut(range).map_or(Heard::Never, |log| log.after(since, now))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Watching<'a>(&'a News);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.turn();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, revision: i64) -> KeyValue {
        KeyValue { key: format!("p/{key}").into_bytes(), mod_revision: revision, ..KeyValue::default() }
    }

    fn touched(revision: i64, times: i64) -> Touched {
        Touched { revision, times }
    }

    fn told(log: &mut Log, since: i64, now: Touched) -> Option<Vec<(String, i64)>> {
        match log.after(since, now) {
            Heard::Everything(changes) => Some(
                changes
                    .iter()
                    .map(|change| (String::from_utf8_lossy(&change.key).into_owned(), change.mod_revision))
                    .collect(),
            ),
            Heard::NotYet | Heard::Never => None,
        }
    }

    #[test]
    fn a_log_tells_the_last_change_of_each_key_once_it_lacks_nothing() {
        let mut log = Log::default();
        assert_eq!(log.after(5, touched(7, 2)), Heard::Never, "what came before it is not known");
        log.add(change("a", 9));
        assert_eq!(log.after(7, touched(12, 4)), Heard::NotYet, "the second of two is on its way");
        log.add(change("a", 12));
        log.add(change("b", 12));
        log.add(change("c", 15));
        let c = ("p/c".to_owned(), 15);
        let all = [("p/a".to_owned(), 12), ("p/b".to_owned(), 12), c.clone()];
        assert_eq!(told(&mut log, 7, touched(12, 4)).as_deref(), Some(&all[..]), "as of 12 or later");
        assert_eq!(told(&mut log, 12, touched(15, 5)), Some(vec![c.clone()]));
        assert_eq!(told(&mut log, 7, touched(12, 4)).as_deref(), Some(&all[..]), "of before, heard later");
        assert_eq!(log.after(15, touched(21, 7)), Heard::NotYet, "two are on their way");
        log.add(change("a", 21));
        assert_eq!(
            log.after(15, touched(21, 7)),
            Heard::Never,
            "the one before the last is missing for good"
        );
        assert_eq!(log.after(6, touched(15, 5)), Heard::Never, "who is behind its beginning");
    }

    #[test]
    fn a_log_that_lacks_something_begins_anew() {
        let mut log = Log::default();
        let _ = log.after(0, touched(7, 2));
        log.add(change("b", 12));
        assert_eq!(log.after(7, touched(12, 4)), Heard::Never, "one is missing for good");
        assert_eq!(log.after(7, touched(12, 4)), Heard::Never, "it begins here");
        assert_eq!(told(&mut log, 12, touched(12, 4)), Some(vec![]));
        log.add(change("c", 14));
        log.add(change("d", 13));
        assert_eq!(log.after(12, touched(14, 6)), Heard::Never, "out of order is as good as missing");
    }

    #[test]
    fn a_log_that_is_full_forgets_what_was_followed_by_another_change_of_the_same_key() {
        let mut log = Log::default();
        let _ = log.after(0, touched(1, 1));
        let last = 3 * CHANGES as i64;
        for revision in 2..=last {
            log.add(change(if revision % 1000 == 0 { "seldom" } else { "often" }, revision));
        }
        assert!(log.changes.len() <= CHANGES, "{}", log.changes.len());
        let now = touched(last + 1, last + 1);
        log.add(change("often", last + 1));
        let both = vec![("p/often".to_owned(), last + 1), ("p/seldom".to_owned(), last)];
        assert_eq!(told(&mut log, 1, now), Some(both), "all the way from its beginning");
        assert!(log.revisions.is_empty(), "what is complete needs no counting");
    }

    #[test]
    fn a_log_that_nobody_asks_is_forgotten() {
        let mut log = Log::default();
        let _ = log.after(0, touched(1, 1));
        let last = CHANGES_MAX as i64 + 2;
        for revision in 2..=last {
            log.add(change("a", revision));
        }
        assert_eq!((log.changes.len(), log.revisions.len()), (0, 0));
        log.add(change("b", last + 1));
        assert_eq!(log.after(last, touched(last + 1, last + 1)), Heard::Never, "it begins here");
        assert_eq!(told(&mut log, last + 1, touched(last + 1, last + 1)), Some(vec![]));
    }

    #[test]
    fn a_log_with_too_many_keys_answers_who_is_near_its_end() {
        let mut log = Log::default();
        let _ = log.after(0, touched(1, 1));
        let last = 2 * CHANGES_MAX as i64 + 1;
        for revision in 2..=last {
            log.add(change(&revision.to_string(), revision));
            let _ = log.after(revision, touched(revision, revision));
        }
        assert!(log.changes.len() <= 2 * CHANGES_MAX);
        let now = touched(last, last);
        assert_eq!(log.after(1, now), Heard::Never);
        let near = told(&mut log, last - CHANGES_MAX as i64 / 2, now).expect("it was heard");
        assert_eq!(near.len(), CHANGES_MAX / 2);
    }

    #[tokio::test]
    async fn nobody_is_answered_by_a_watch_that_has_ended_or_by_another_memory() {
        let news = News::default();
        let range = b"p/".to_vec();
        assert!(news.listen(&range, 0).is_none(), "nobody watches");
        let watching = news.watch();
        let listening = news.listen(&range, 0).expect("somebody watches");
        assert!(news.after(&range, listening, 0, touched(1, 1)).await.is_none(), "it begins here");
        news.tell(&[change("a", 2)]);
        assert!(news.after(&range, listening, 1, touched(2, 2)).await.is_some_and(|told| told.len() == 1));
        let _ = news.listen(&range, 1);
        assert!(news.after(&range, listening, 1, touched(2, 2)).await.is_none(), "another memory");
        drop(watching);
        assert!(news.after(&range, listening, 2, touched(2, 2)).await.is_none(), "the watch has ended");
    }
}
