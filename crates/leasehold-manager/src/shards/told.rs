//! What a worker may be working on: everything in any configuration that it can have read since the one it last said it
//! follows.
//!
//! Invariant: **a lease that [`Told::may_work_on`] does not name is not worked on.** It leaves by the worker's own word about
//! a generation without it, or with the worker's process group. A word about a generation that was never told is no word.

use std::collections::{BTreeMap, BTreeSet};

/// How many generations are kept apart before the oldest are taken together.
const KEPT_MAX: usize = 64;

/// The generations of one shard, and which of them its worker may follow.
#[derive(Debug, Clone, Default)]
pub struct Told<L> {
    generation: u64,
    now: BTreeSet<L>,
    /// Empty while no process runs.
    open: BTreeMap<u64, BTreeSet<L>>,
    runs: bool,
    /// What the worker said last.
    said: Option<u64>,
}

impl<L: Ord + Clone> Told<L> {
    /// A shard without a worker that is told nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { generation: 0, now: BTreeSet::new(), open: BTreeMap::new(), runs: false, said: None }
    }

    /// The generation that the configuration has.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// From now on the configuration names these. A worker may read it at any moment from here on.
    pub fn tell(&mut self, leases: BTreeSet<L>) -> u64 {
        self.generation += 1;
        self.now = leases;
        if self.runs {
            self.open.insert(self.generation, self.now.clone());
            self.limit();
        }
        self.generation
    }

    /// A process begins, and reads the configuration as it is or as it will be.
    pub fn begin(&mut self) {
        (self.runs, self.said) = (true, None);
        self.open = BTreeMap::from([(self.generation, self.now.clone())]);
    }

    /// The worker says that it follows this generation. `false` if that says nothing: it was never told, or it is old.
    pub fn applied(&mut self, generation: u64) -> bool {
        if !self.open.contains_key(&generation) || self.said == Some(generation) {
            return false;
        }
        self.open = self.open.split_off(&generation);
        self.said = Some(generation);
        true
    }

    /// No process of the worker runs any more.
    pub fn gone(&mut self) {
        (self.runs, self.said) = (false, None);
        self.open.clear();
    }

    /// Everything that the worker may be working on.
    #[must_use]
    pub fn may_work_on(&self) -> BTreeSet<L> {
        self.open.values().flatten().cloned().collect()
    }

    /// What the worker said that it works on.
    #[must_use]
    pub fn works_on(&self) -> BTreeSet<L> {
        self.said.and_then(|said| self.open.get(&said)).cloned().unwrap_or_default()
    }

    /// Whether the worker said that it follows the newest generation.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.said == Some(self.generation)
    }

    /// A worker that never says anything costs no more than this: what is taken together leaves later than it could.
    fn limit(&mut self) {
        while self.open.len() > KEPT_MAX {
            let Some((_, oldest)) = self.open.pop_first() else { return };
            if let Some(mut next) = self.open.first_entry() {
                next.get_mut().extend(oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(names: &[u8]) -> BTreeSet<u8> {
        names.iter().copied().collect()
    }

    // proves R187
    #[test]
    fn what_was_taken_out_is_let_go_by_the_workers_word_alone() {
        let mut told = Told::new();
        told.tell(set(&[1, 2]));
        assert_eq!(told.may_work_on(), set(&[]));
        told.begin();
        assert!(!told.is_settled() && told.works_on().is_empty(), "it has said nothing");
        assert!(told.applied(told.generation()));
        assert!(told.is_settled());
        let without = told.tell(set(&[1]));
        assert_eq!(told.may_work_on(), set(&[1, 2]));
        assert!(!told.applied(without - 1), "it said so before");
        assert!(!told.applied(without + 1), "it was told no such thing");
        assert_eq!(told.may_work_on(), set(&[1, 2]));
        assert!(told.applied(without));
        assert_eq!(told.may_work_on(), set(&[1]));
        assert_eq!(told.works_on(), set(&[1]));
    }

    #[test]
    fn a_word_about_an_older_generation_frees_only_what_both_left_out() {
        let mut told = Told::new();
        told.begin();
        told.tell(set(&[1, 2]));
        let second = told.tell(set(&[2]));
        told.tell(set(&[3]));
        assert!(told.applied(second));
        assert_eq!(told.may_work_on(), set(&[2, 3]));
        assert!(!told.is_settled());
    }

    #[test]
    fn with_its_processes_everything_is_gone_and_a_new_one_begins_with_what_there_is() {
        let mut told = Told::new();
        told.tell(set(&[1]));
        told.begin();
        told.tell(set(&[2]));
        told.gone();
        assert_eq!(told.may_work_on(), set(&[]));
        told.begin();
        assert_eq!(told.may_work_on(), set(&[2]));
    }

    #[derive(Debug, Clone)]
    enum Act {
        Tell(BTreeSet<u8>),
        Read,
        Say,
    }

    fn any_act() -> impl Strategy<Value = Act> {
        prop_oneof![
            prop::collection::btree_set(0..6_u8, 0..4).prop_map(Act::Tell),
            Just(Act::Read),
            Just(Act::Say)
        ]
    }

    proptest! {
        /// A worker that reads and speaks whenever it likes never works on what it is not known to.
        #[test]
        fn what_a_worker_follows_is_always_among_what_it_may(acts in prop::collection::vec(any_act(), 0..300)) {
            let mut told = Told::new();
            told.tell(set(&[1]));
            told.begin();
            let (mut file, mut works) = ((told.generation(), set(&[1])), (told.generation(), set(&[1])));
            for act in acts {
                match act {
                    Act::Tell(names) => file = (told.tell(names.clone()), names),
                    Act::Read => works = file.clone(),
                    Act::Say => {
                        told.applied(works.0);
                    }
                }
                prop_assert!(works.1.is_subset(&told.may_work_on()));
                prop_assert!(file.1.is_subset(&told.may_work_on()));
            }
        }
    }
}
