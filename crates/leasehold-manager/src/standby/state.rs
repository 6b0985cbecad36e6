//! What a child is told, as text: pure.
//!
//! Invariant: a shell that reads the file gets every value as it was given: none can become a command or another line.

/// The most that one promotion can tell, in bytes.
pub const STATE_MAX: usize = 4 * 1024;

const LEADER: &str = "LEASEHOLD_LEADER";
const TOKEN: &str = "LEASEHOLD_TOKEN";
/// What a shell reads as it is, besides letters and digits.
const MARKS: &str = "._-:@+=/,%";

/// Why something cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The name is no name, or one that is set here.
    #[error(
        "{name:?} cannot be told: a name has capital letters, digits and _, begins with no digit, and is neither {LEADER} nor {TOKEN}"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The value would not stay on its line.
    #[error("{name} cannot be told with the value {value:?}: a value has no control characters")]
    Value {
        /// The name.
        name: String,
        /// The value.
        value: String,
    },
    /// There is a limit to everything.
    #[error("{length} bytes cannot be told at once; {STATE_MAX} can")]
    TooLong {
        /// How much it was.
        length: usize,
    },
}

/// What a child is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    leader: bool,
    token: Option<u64>,
    more: Vec<(String, String)>,
}

impl State {
    /// It may lead under `token`.
    pub(super) fn leading(token: u64, pairs: &[(&str, &str)]) -> Result<Self, StateError> {
        let mut more = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            if !is_name(name) {
                return Err(StateError::Name { name: (*name).to_owned() });
            }
            if value.chars().any(char::is_control) {
                return Err(StateError::Value { name: (*name).to_owned(), value: (*value).to_owned() });
            }
            more.push(((*name).to_owned(), (*value).to_owned()));
        }
        let state = Self { leader: true, token: Some(token), more };
        match state.file().len() {
            length if length > STATE_MAX => Err(StateError::TooLong { length }),
            _ => Ok(state),
        }
    }

    /// It may not lead, or no longer under `token`.
    pub(super) fn standby(token: Option<u64>) -> Self {
        Self { leader: false, token, more: Vec::new() }
    }

    /// The content of the file.
    pub(super) fn file(&self) -> String {
        let token = self.token.map(|token| format!("{TOKEN}={token}\n")).unwrap_or_default();
        format!("{LEADER}={}\n{token}{}", u8::from(self.leader), self.lines(quoted))
    }

    /// The event.
    pub(super) fn event(&self) -> String {
        let what = if self.leader { "PROMOTED" } else { "DEMOTED" };
        let token = self.token.map(|token| format!("TOKEN={token}\n")).unwrap_or_default();
        format!("{what}=1\n{token}{}", self.lines(str::to_owned))
    }

    fn lines(&self, written: fn(&str) -> String) -> String {
        self.more.iter().map(|(name, value)| format!("{name}={}\n", written(value))).collect()
    }
}

/// As a shell reads it: between single quotes where it has to be.
fn quoted(value: &str) -> String {
    match value.chars().all(|c| c.is_ascii_alphanumeric() || MARKS.contains(c)) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', r"'\''")),
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_uppercase() || c == '_';
    name.starts_with(is_letter)
        && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
        && ![LEADER, TOKEN].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_as_documented() {
        let state = State::leading(7, &[("LEASEHOLD_POOL", "a:b@c"), ("X_1", "")]).expect("a state");
        assert_eq!(state.file(), "LEASEHOLD_LEADER=1\nLEASEHOLD_TOKEN=7\nLEASEHOLD_POOL=a:b@c\nX_1=\n");
        assert_eq!(state.event(), "PROMOTED=1\nTOKEN=7\nLEASEHOLD_POOL=a:b@c\nX_1=\n");
        let state = State::standby(Some(7));
        assert_eq!(state.file(), "LEASEHOLD_LEADER=0\nLEASEHOLD_TOKEN=7\n");
        assert_eq!(state.event(), "DEMOTED=1\nTOKEN=7\n");
        assert_eq!(State::standby(None).file(), "LEASEHOLD_LEADER=0\n");
    }

    #[test]
    fn a_shell_reads_every_value_as_it_was_given() {
        for value in
            ["a b", "$(x)", "`x`", "'", "it's", "\"", "a;b", "~", "é", "\\", "{\"token\":7}", "#x", "!"]
        {
            let state = State::leading(7, &[("X", value)]).expect("a state").file();
            let script = format!("{state}printf %s \"$X\"");
            let read = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&read.stdout), value, "{state}");
        }
    }

    #[test]
    fn what_would_not_stay_on_its_line_is_refused() {
        for value in ["a\nb", "a\rb", "a\0b"] {
            let refused = State::leading(7, &[("X", value)]);
            assert!(matches!(refused, Err(StateError::Value { .. })), "{value:?}");
        }
        for name in ["", "1X", "x", "X Y", "X=Y", "X\n", "LEASEHOLD_LEADER", "LEASEHOLD_TOKEN"] {
            let refused = State::leading(7, &[(name, "x")]);
            assert!(matches!(refused, Err(StateError::Name { .. })), "{name:?}");
        }
    }

    #[test]
    fn there_is_a_limit_to_what_is_told() {
        let rest = STATE_MAX - "LEASEHOLD_LEADER=1\nLEASEHOLD_TOKEN=7\nX=\n".len();
        assert!(State::leading(7, &[("X", &"x".repeat(rest))]).is_ok());
        let refused = State::leading(7, &[("X", &"x".repeat(rest + 1))]);
        assert_eq!(refused, Err(StateError::TooLong { length: STATE_MAX + 1 }));
    }
}
