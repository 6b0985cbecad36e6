//! From the words of the command line to values.

use std::time::Duration;

use leasehold::store::Grade;

/// A length of time such as `30s`, `500ms` or `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is no length of time; give a number and a unit: 500ms, 30s, 2m or 1h");
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(refused()),
    };
    match number.parse::<f64>() {
        Ok(value) if (0.0..=1e6).contains(&value) => Ok(Duration::from_secs_f64(value * unit)),
        _ => Err(refused()),
    }
}

/// A length of time such as `12h` or `30d`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    match text.strip_suffix('d').map(str::parse::<u32>) {
        Some(Ok(days @ 0..=36_500)) => Ok(Duration::from_secs(u64::from(days) * 24 * 3600)),
        Some(_) => Err(format!("{text:?} is no number of days; give 30d, or another time such as 12h")),
        None => duration(text),
    }
}

/// A part of something, such as `10%`, up to a half.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(value) if (0.0..=50.0).contains(&value) => Ok(value / 100.0),
        _ => Err(format!("{text:?} is no such part; give 0% to 50%")),
    }
}

/// A label as `key=value`.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is no label; give it as key=value")),
    }
}

/// A grade by its word.
pub(super) fn grade(text: &str) -> Result<Grade, String> {
    Grade::parse(text).ok_or_else(|| {
        format!("{text:?} is no grade; give may-lose-writes, durable-on-one-node or durable-and-linearizable")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_may_be_days() {
        assert_eq!(span("30d"), Ok(Duration::from_secs(30 * 24 * 3600)));
        assert_eq!(span("12h"), Ok(Duration::from_secs(12 * 3600)));
        for bad in ["", "d", "-1d", "1.5d", "99999d", "5"] {
            assert!(span(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn durations_need_a_number_and_a_unit() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "5", "s", "-1s", "1d", "1e9s", "infs", "NaNs", "5µs", "-5"] {
            assert!(duration(bad).is_err(), "{bad:?} was taken");
        }
    }
}
