//! Zones: parts of a picture, and what makes a polygon one.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most points of a polygon: crossings are looked for pair by pair.
const POINTS_MAX: usize = 256;
/// The most labels of one list, and how long each may be.
const LABELS_MAX: usize = 256;
const LABEL_MAX: usize = 64;
/// The furthest that a point may lie from the corner.
const COORDINATE_MAX: f64 = 1e6;
/// The longest name.
const NAME_MAX: usize = 255;

/// What names a zone: a number, or a word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ZoneId {
    /// A number.
    Number(u32),
    /// Letters, digits, `_`, `-`, `.`; at most 64.
    Word(String),
}

impl ZoneId {
    /// The id that a path names. What looks like a number is one.
    pub(super) fn of_path(text: &str) -> Result<Self, String> {
        let id = match text.parse::<u32>() {
            Ok(number) if number.to_string() == text => Self::Number(number),
            _ => Self::Word(text.to_owned()),
        };
        id.check()
    }

    fn check(self) -> Result<Self, String> {
        if let Self::Word(word) = &self {
            if let Ok(number) = word.parse::<u32>() {
                // Under one path there is one zone.
                return Ok(if number.to_string() == *word { Self::Number(number) } else { self });
            }
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if word.is_empty()
                || word.len() > 64
                || !word.bytes().all(plain)
                || [".", ".."].contains(&word.as_str())
            {
                return Err(
                    "zone_id is a whole number or up to 64 of the characters A-Z a-z 0-9 . _ -".to_owned()
                );
            }
        }
        Ok(self)
    }
}

impl fmt::Display for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

/// What a zone is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ZoneKind {
    /// What is inside counts.
    #[default]
    Include,
    /// What is inside does not count.
    Exclude,
}

/// A part of a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Zone {
    /// Names it within its camera, or within its site.
    pub(crate) zone_id: ZoneId,
    /// What people call it.
    #[serde(default)]
    #[schema(max_length = 255, example = "driveway")]
    pub(crate) name: String,
    /// What it is for.
    #[serde(default)]
    pub(crate) kind: ZoneKind,
    /// Of zones that overlap, the one with the higher number counts.
    #[serde(default)]
    pub(crate) priority: i32,
    /// Its corners, at least three, in order; its sides do not cross.
    pub(crate) polygon: Vec<[f64; 2]>,
    /// What is looked for in it; empty for everything.
    #[serde(default)]
    pub(crate) allow_labels: Vec<String>,
    /// How certain a detection must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub(crate) min_score: Option<f64>,
}

impl Zone {
    /// Says what is wrong with it. `frame` is the picture's width and height, where they are known.
    pub(super) fn check(mut self, frame: Option<(u32, u32)>) -> Result<Self, String> {
        self.zone_id = self.zone_id.check()?;
        let of = format!("zone {}", self.zone_id);
        if self.name.len() > NAME_MAX || self.name.chars().any(char::is_control) {
            return Err(format!("the name of {of} has more than {NAME_MAX} bytes, or control characters"));
        }
        check_labels(&self.allow_labels).map_err(|why| format!("allow_labels of {of}: {why}"))?;
        check_share("min_score", self.min_score).map_err(|why| format!("{of}: {why}"))?;
        check_polygon(&self.polygon, frame).map_err(|why| format!("the polygon of {of} {why}"))?;
        Ok(self)
    }
}

/// Checks zones that stand together: each, and that no id is there twice.
pub(super) fn check_all(zones: Vec<Zone>, frame: Option<(u32, u32)>) -> Result<Vec<Zone>, String> {
    let zones: Vec<Zone> = zones.into_iter().map(|zone| zone.check(frame)).collect::<Result<_, _>>()?;
    let mut seen = BTreeSet::new();
    match zones.iter().find(|zone| !seen.insert(zone.zone_id.clone())) {
        Some(twice) => Err(format!("there are two zones {}; each zone_id is used once", twice.zone_id)),
        None => Ok(zones),
    }
}

/// Whether every label can be one.
pub(super) fn check_labels(labels: &[String]) -> Result<(), String> {
    if labels.len() > LABELS_MAX {
        return Err(format!("at most {LABELS_MAX} labels are allowed"));
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || " _-".contains(c);
    let mut seen = BTreeSet::new();
    for label in labels {
        let fits =
            (1..=LABEL_MAX).contains(&label.len()) && label.chars().all(plain) && label.trim() == label;
        if !fits {
            return Err(format!(
                "{label:?} is no label; one is up to {LABEL_MAX} small letters, digits, spaces, _ or -, such as person"
            ));
        }
        if !seen.insert(label) {
            return Err(format!("{label:?} is there twice"));
        }
    }
    Ok(())
}

/// Whether a number is a share of 1.
pub(super) fn check_share(name: &str, share: Option<f64>) -> Result<(), String> {
    match share {
        Some(share) if !(0.0..=1.0).contains(&share) => {
            Err(format!("{name} is {share}; give one from 0 to 1"))
        }
        _ => Ok(()),
    }
}

/// Says what is wrong with a polygon, as the end of a sentence.
fn check_polygon(points: &[[f64; 2]], frame: Option<(u32, u32)>) -> Result<(), String> {
    if points.len() < 3 {
        return Err(format!("has {} points; it needs at least three", points.len()));
    }
    if points.len() > POINTS_MAX {
        return Err(format!("has {} points; at most {POINTS_MAX} are allowed", points.len()));
    }
    for &[x, y] in points {
        if ![x, y].iter().all(|at| at.is_finite() && (0.0..=COORDINATE_MAX).contains(at)) {
            return Err(format!("has the point [{x}, {y}], which lies in no picture"));
        }
        if let Some((width, height)) = frame
            && (x > f64::from(width) || y > f64::from(height))
        {
            return Err(format!("has the point [{x}, {y}] outside the picture of {width} by {height}"));
        }
    }
    let count = points.len();
    let side = |at: usize| (points[at], points[(at + 1) % count]);
    for one in 0..count {
        if points[one] == points[(one + 1) % count] {
            return Err(format!("has the same point {:?} twice in a row", points[one]));
        }
        for two in one + 1..count {
            let next_to = two == one + 1 || (one == 0 && two == count - 1);
            let touching = if next_to {
                fold_back(side(one), side(two), one == 0 && two == count - 1)
            } else {
                meet(side(one), side(two))
            };
            if touching {
                return Err(format!("crosses itself: sides {} and {} meet", one + 1, two + 1));
            }
        }
    }
    Ok(())
}

type Point = [f64; 2];

/// On which side of the line from `a` to `b` a point lies.
fn turn(a: Point, b: Point, c: Point) -> f64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

/// Whether a point of the line through `a` and `b` lies between them.
fn between(a: Point, b: Point, c: Point) -> bool {
    (a[0].min(b[0])..=a[0].max(b[0])).contains(&c[0]) && (a[1].min(b[1])..=a[1].max(b[1])).contains(&c[1])
}

/// Whether two sides that are no neighbours have a point in common.
fn meet((a, b): (Point, Point), (c, d): (Point, Point)) -> bool {
    let (abc, abd, cda, cdb) = (turn(a, b, c), turn(a, b, d), turn(c, d, a), turn(c, d, b));
    let opposite = |one: f64, two: f64| (one > 0.0 && two < 0.0) || (one < 0.0 && two > 0.0);
    (opposite(abc, abd) && opposite(cda, cdb))
        || (abc == 0.0 && between(a, b, c))
        || (abd == 0.0 && between(a, b, d))
        || (cda == 0.0 && between(c, d, a))
        || (cdb == 0.0 && between(c, d, b))
}

/// Whether of two neighbours the second runs back over the first: they have more in common than their corner.
fn fold_back(one: (Point, Point), two: (Point, Point), around: bool) -> bool {
    let (before, corner, after) = if around { (two.0, one.0, one.1) } else { (one.0, one.1, two.1) };
    turn(before, corner, after) == 0.0 && {
        let back = (before[0] - corner[0]) * (after[0] - corner[0])
            + (before[1] - corner[1]) * (after[1] - corner[1]);
        back > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(points: &[[f64; 2]]) -> Result<(), String> {
        check_polygon(points, Some((800, 600)))
    }

    // proves R176
    #[test]
    fn a_polygon_is_simple_and_inside_its_picture() {
        for good in [
            vec![[100.0, 100.0], [700.0, 100.0], [700.0, 500.0], [200.0, 500.0]],
            vec![[0.0, 0.0], [800.0, 0.0], [0.0, 600.0]],
            // A corner that is none is no crossing.
            vec![[0.0, 0.0], [100.0, 0.0], [200.0, 0.0], [200.0, 100.0]],
            // Not convex.
            vec![[0.0, 0.0], [400.0, 0.0], [400.0, 400.0], [200.0, 100.0], [0.0, 400.0]],
        ] {
            assert_eq!(check(&good), Ok(()), "{good:?}");
        }
        for (bad, word) in [
            (vec![[0.0, 0.0], [1.0, 1.0]], "at least three"),
            (vec![], "at least three"),
            (vec![[0.0, 0.0], [100.0, 100.0], [100.0, 0.0], [0.0, 100.0]], "crosses itself"),
            (vec![[0.0, 0.0], [100.0, 0.0], [50.0, 0.0]], "crosses itself"),
            // The last side runs back over the first.
            (vec![[0.0, 0.0], [100.0, 0.0], [100.0, 50.0], [200.0, 0.0]], "crosses itself"),
            // A corner on another side.
            (vec![[0.0, 0.0], [100.0, 0.0], [100.0, 100.0], [50.0, 0.0], [0.0, 100.0]], "crosses itself"),
            (vec![[0.0, 0.0], [0.0, 0.0], [100.0, 0.0], [100.0, 100.0]], "twice in a row"),
            (vec![[0.0, 0.0], [801.0, 0.0], [0.0, 600.0]], "outside the picture"),
            (vec![[0.0, 0.0], [-1.0, 0.0], [0.0, 600.0]], "no picture"),
            (vec![[0.0, 0.0], [f64::INFINITY, 0.0], [0.0, 600.0]], "no picture"),
        ] {
            let said = check(&bad).expect_err(word);
            assert!(said.contains(word), "{bad:?}: {said}");
        }
        assert!(check_polygon(&vec![[1.0, 1.0]; 300], None).is_err());
    }

    #[test]
    fn labels_and_scores_are_checked() {
        let labels =
            |labels: &[&str]| check_labels(&labels.iter().map(|&l| l.to_owned()).collect::<Vec<_>>());
        assert!(labels(&["person", "traffic light", "car-2"]).is_ok() && labels(&[]).is_ok());
        for bad in [&["Person"][..], &[""], &["a", "a"], &[" a"], &["<b>"]] {
            assert!(labels(bad).is_err(), "{bad:?}");
        }
        assert!(check_share("min_score", Some(1.0)).is_ok() && check_share("min_score", None).is_ok());
        for bad in [1.01, -0.1, f64::NAN] {
            assert!(check_share("min_score", Some(bad)).is_err());
        }
    }

    #[test]
    fn one_path_names_one_zone() {
        assert_eq!(ZoneId::of_path("1"), Ok(ZoneId::Number(1)));
        assert_eq!(ZoneId::Word("1".to_owned()).check(), Ok(ZoneId::Number(1)));
        assert_eq!(ZoneId::of_path("01").unwrap().to_string(), "01");
        assert_eq!(ZoneId::of_path("gate").unwrap().to_string(), "gate");
        for bad in ["", "a/b", "..", "a b"] {
            assert!(ZoneId::of_path(bad).is_err(), "{bad}");
        }
    }
}
