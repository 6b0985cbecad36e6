//! What is new in a view, so that nobody has to look at all of it again.

use std::collections::BTreeSet;

use crate::lease::ResourceId;
use crate::store::Mark;

/// Where more is new than this, looking at everything costs little more.
const NEWS_MAX: usize = 4096;

/// What is other than before. It may say too much, never too little.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum News {
    /// Nothing but beats.
    #[default]
    Nothing,
    /// Leases, declarations and marks of these resources, or marks on members; sessions and listings are as they were.
    Of(BTreeSet<ResourceId>),
    /// Perhaps anything.
    Anything,
}

impl News {
    /// Whether there is any.
    #[must_use]
    pub fn any(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// The resources it names.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceId> {
        let named = if let Self::Of(resources) = self { Some(resources) } else { None };
        named.into_iter().flatten()
    }

    /// Takes in what was new later.
    pub fn add(&mut self, later: &Self) {
        match later {
            Self::Nothing => {}
            Self::Of(resources) => {
                self.note_other();
                resources.iter().for_each(|resource| self.note(resource));
            }
            Self::Anything => *self = Self::Anything,
        }
    }

    /// Notes that this resource is other than before.
    pub(crate) fn note(&mut self, resource: &ResourceId) {
        self.note_other();
        if let Self::Of(resources) = self {
            resources.insert(resource.clone());
            if resources.len() > NEWS_MAX {
                *self = Self::Anything;
            }
        }
    }

    /// Notes that this mark is other than before. It may be one on a member, of which there are few.
    pub(super) fn note_mark(&mut self, mark: &Mark) {
        match mark.subject.parse() {
            Ok(resource) => self.note(&resource),
            Err(_) => self.note_other(),
        }
    }

    /// Notes that something is other than before which is about no resource.
    fn note_other(&mut self) {
        if !self.any() {
            *self = Self::Of(BTreeSet::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MarkKind, Version};

    fn id(number: usize) -> ResourceId {
        ResourceId::new(format!("r{number}")).unwrap()
    }

    fn of(numbers: impl IntoIterator<Item = usize>) -> News {
        News::Of(numbers.into_iter().map(id).collect())
    }

    fn marked(subject: &str) -> News {
        let mut news = News::Nothing;
        let (kind, subject) = (MarkKind::Pin, subject.to_owned());
        news.note_mark(&Mark { kind, subject, value: None, version: Version(1) });
        news
    }

    #[test]
    fn news_add_up_and_nothing_is_forgotten() {
        let mut news = News::Nothing;
        assert!(!news.any());
        for (later, sum) in [
            (News::Nothing, News::Nothing),
            (of([]), of([])),
            (News::Nothing, of([])),
            (of([1]), of([1])),
            (of([2, 1]), of([1, 2])),
            (News::Anything, News::Anything),
            (of([3]), News::Anything),
        ] {
            news.add(&later);
            assert_eq!(news, sum);
        }
        assert!(news.any() && of([]).any());
    }

    #[test]
    fn so_much_news_that_anything_may_be_new_is_said_in_one_word() {
        let mut news = of([]);
        (0..NEWS_MAX).for_each(|number| news.note(&id(number)));
        assert_eq!(news, of(0..NEWS_MAX));
        news.note(&id(NEWS_MAX));
        assert_eq!(news, News::Anything);
    }

    #[test]
    fn a_mark_is_news_of_its_resource_or_of_none() {
        assert_eq!(marked("r1"), of([1]));
        assert_eq!(marked("no id of a resource"), of([]));
    }
}
