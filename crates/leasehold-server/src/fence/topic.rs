//! From the topic of a message to its resource, and to the topic it is passed on to. Pure.
//!
//! Invariant: no topic that is passed on to is one that is listened to, or messages would go round for ever.

use leasehold::ResourceId;

/// The most levels of a topic.
const LEVELS_MAX: usize = 64;
/// The most bytes of a topic, as MQTT has it.
const TOPIC_MAX: usize = 65_535;

/// What is wrong with the topics of a fence.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteError {
    /// The filter cannot be used.
    #[error("the topic filter {0:?} cannot be used: {1}; give one as in scenescape/data/scene/+/+")]
    Filter(String, &'static str),
    /// The target cannot be used.
    #[error("the topic {0:?} cannot be passed on to: {1}; give one as in scenescape/regulated/scene/{{id}}")]
    Target(String, String),
}

/// Which topics are listened to, which level names the resource, and where to each is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    filter: Vec<Level>,
    text: String,
    /// Which of the wildcards names the resource, from 0.
    names: usize,
    target: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Level {
    Is(String),
    Any,
    Rest,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Id,
    /// What a wildcard stood for, from 0.
    Wildcard(usize),
}

impl Route {
    /// Reads a filter, in which the wildcard number `names`, from 1, stands for the resource, and a target, in which `{id}` is the
    /// resource, and `{1}`, `{2}`, … are what the wildcards stand for.
    ///
    /// # Errors
    /// Says which of them cannot be used, and why.
    pub fn new(filter: &str, names: usize, target: &str) -> Result<Self, RouteError> {
        let wrong = |why| RouteError::Filter(filter.to_owned(), why);
        let levels: Vec<Level> = filter
            .split('/')
            .map(Level::read)
            .collect::<Option<_>>()
            .ok_or_else(|| wrong("'+' and '#' stand for whole levels"))?;
        if filter.is_empty() || filter.len() > TOPIC_MAX || levels.len() > LEVELS_MAX || filter.contains('\0')
        {
            return Err(wrong("it is empty or too long"));
        }
        if levels.iter().rev().skip(1).any(|level| *level == Level::Rest) {
            return Err(wrong("'#' can only be its end"));
        }
        let wildcards = levels.iter().filter(|level| **level == Level::Any).count();
        if names == 0 || names > wildcards {
            return Err(wrong("one of its '+' has to stand for the resource"));
        }
        let wrong = |why: &str| RouteError::Target(target.to_owned(), why.to_owned());
        if target.is_empty() || target.len() > TOPIC_MAX || target.contains(['+', '#', '\0']) {
            return Err(wrong("it is empty, too long or has wildcards"));
        }
        let pieces: Result<Vec<Vec<Piece>>, String> =
            target.split('/').map(|level| pieces(level, wildcards)).collect();
        let pieces = pieces.map_err(|why| wrong(&why))?;
        if !pieces.iter().flatten().any(|piece| *piece == Piece::Id || *piece == Piece::Wildcard(names - 1)) {
            return Err(wrong("it does not say where {id} goes, so resources could not be told apart"));
        }
        let route = Self { filter: levels, text: filter.to_owned(), names: names - 1, target: pieces };
        if route.may_go_round() {
            return Err(wrong(
                "it is among the topics that are listened to, so messages would go round for ever",
            ));
        }
        Ok(route)
    }

    /// The filter, for the broker.
    #[must_use]
    pub fn filter(&self) -> &str {
        &self.text
    }

    /// The resource that a message on this topic is about, and the topic it is passed on to.
    #[must_use]
    pub fn of(&self, topic: &str) -> Option<(ResourceId, String)> {
        let levels: Vec<&str> = topic.split('/').collect();
        let found = self.matched(&levels)?;
        let id = ResourceId::new(found.get(self.names)?).ok()?;
        // A '+' in an id would be a wildcard.
        if id.as_str().contains('+') {
            return None;
        }
        let level = |pieces: &Vec<Piece>| -> String {
            let text = |piece: &Piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Id => id.to_string(),
                Piece::Wildcard(number) => found.get(*number).copied().unwrap_or_default().to_owned(),
            };
            pieces.iter().map(text).collect()
        };
        let target: Vec<String> = self.target.iter().map(level).collect();
        Some((id, target.join("/")))
    }

    /// What the wildcards stand for in a topic.
    fn matched<'a>(&self, levels: &[&'a str]) -> Option<Vec<&'a str>> {
        let mut found = Vec::new();
        let mut rest = levels.iter();
        for level in &self.filter {
            match level {
                Level::Rest => return Some(found),
                Level::Is(text) => {
                    if rest.next() != Some(&text.as_str()) {
                        return None;
                    }
                }
                Level::Any => found.push(*rest.next()?),
            }
        }
        rest.next().is_none().then_some(found)
    }

    fn may_go_round(&self) -> bool {
        let mut target = self.target.iter();
        for level in &self.filter {
            let passes = match (level, target.next()) {
                (Level::Rest, _) => return true,
                (_, None) => false,
                (Level::Any, Some(_)) => true,
                (Level::Is(text), Some(pieces)) => match &pieces[..] {
                    [Piece::Text(own)] => own == text,
                    // Whatever stands there could be the same.
                    _ => true,
                },
            };
            if !passes {
                return false;
            }
        }
        target.next().is_none()
    }
}

impl Level {
    fn read(text: &str) -> Option<Self> {
        match text {
            "+" => Some(Self::Any),
            "#" => Some(Self::Rest),
            text if text.contains(['+', '#']) => None,
            text => Some(Self::Is(text.to_owned())),
        }
    }
}

/// The pieces of one level of the target.
fn pieces(level: &str, wildcards: usize) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut rest) = (Vec::new(), level);
    while let Some((text, behind)) = rest.split_once('{') {
        let (name, after) = behind.split_once('}').ok_or("a '{' in it has no '}'")?;
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
        pieces.push(match (name, name.parse::<usize>()) {
            ("id", _) => Piece::Id,
            (_, Ok(number)) if (1..=wildcards).contains(&number) => Piece::Wildcard(number - 1),
            _ => return Err(format!("there is no {{{name}}}, only {{id}} and {{1}} to {{{wildcards}}}")),
        });
        rest = after;
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(filter: &str, names: usize, target: &str) -> Result<Route, RouteError> {
        Route::new(filter, names, target)
    }

    // proves U02
    #[test]
    fn wildcards_name_the_resource_and_fill_the_target() {
        let scenes = route("scenescape/data/scene/+/+", 1, "scenescape/regulated/scene/{id}").unwrap();
        let (id, to) = scenes.of("scenescape/data/scene/scene-01/person").unwrap();
        assert_eq!((id.as_str(), to.as_str()), ("scene-01", "scenescape/regulated/scene/scene-01"));
        for other in [
            "scenescape/data/scene/scene-01",
            "scenescape/data/scene/scene-01/person/x",
            "scenescape/data/camera/scene-01/person",
            "scenescape/data/scene//person",
            "scenescape/data/scene/a b/person",
            "scenescape/data/scene/a+b/person",
            "",
        ] {
            assert_eq!(scenes.of(other), None, "{other}");
        }
        let kinds = route("in/+/of/+/#", 2, "out/{2}-{1}/{id}").unwrap();
        assert_eq!(kinds.of("in/a/of/b/c/d").unwrap().1, "out/b-a/b");
    }

    #[test]
    fn topics_that_cannot_be_used_are_refused() {
        for (filter, names, target) in [
            ("", 1, "x/{id}"),
            ("a/b", 1, "x/{id}"),
            ("a/+", 2, "x/{id}"),
            ("a/+", 0, "x/{id}"),
            ("a/x+", 1, "x/{id}"),
            ("#/+", 1, "x/{id}"),
            ("a/+", 1, "x"),
            ("a/+", 1, "x/{2}"),
            ("a/+", 1, "x/{name}"),
            ("a/+", 1, "x/{id"),
            ("a/+", 1, "x/+/{id}"),
        ] {
            assert!(route(filter, names, target).is_err(), "{filter} {names} {target}");
        }
    }

    #[test]
    fn messages_cannot_go_round() {
        for (filter, target) in
            [("a/+", "a/{id}"), ("+/b", "{id}/b"), ("a/+/#", "a/b/{id}"), ("+/a", "x/{id}")]
        {
            let said = route(filter, 1, target).unwrap_err().to_string();
            assert!(said.contains("for ever"), "{filter} {target}: {said}");
        }
        route("a/+", 1, "a/b/{id}").unwrap();
        route("a/+/c", 1, "a/{id}/d").unwrap();
    }
}
