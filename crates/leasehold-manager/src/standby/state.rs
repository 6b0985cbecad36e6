//! What a child is told, as text: pure.
//!
//! Invariant: every line is one that a shell reads as it is, so no value can become a command or another line.

/// The most that one promotion can tell, in bytes.
pub const STATE_MAX: usize = 4 * 1024;

const LEADER: &str = "LEASEHOLD_LEADER";
const TOKEN: &str = "LEASEHOLD_TOKEN";
/// What may stand in a value besides letters and digits.
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
    /// The value would not be read as it was written.
    #[error(
        "{name} cannot be told with the value {value:?}: a value has ASCII letters, digits and {MARKS} only"
    )]
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
    more: String,
}

impl State {
    /// It may lead under `token`.
    pub(super) fn leading(token: u64, pairs: &[(&str, &str)]) -> Result<Self, StateError> {
        let mut more = String::new();
        for (name, value) in pairs {
            if !is_name(name) {
                return Err(StateError::Name { name: (*name).to_owned() });
            }
            if !value.chars().all(|c| c.is_ascii_alphanumeric() || MARKS.contains(c)) {
                return Err(StateError::Value { name: (*name).to_owned(), value: (*value).to_owned() });
            }
            more.push_str(&format!("{name}={value}\n"));
        }
        let state = Self { leader: true, token: Some(token), more };
        match state.file().len() {
            length if length > STATE_MAX => Err(StateError::TooLong { length }),
            _ => Ok(state),
        }
    }

    /// It may not lead, or no longer under `token`.
    pub(super) fn standby(token: Option<u64>) -> Self {
        Self { leader: false, token, more: String::new() }
    }

    /// The content of the file.
    pub(super) fn file(&self) -> String {
        let token = self.token.map(|token| format!("{TOKEN}={token}\n")).unwrap_or_default();
        format!("{LEADER}={}\n{token}{}", u8::from(self.leader), self.more)
    }

    /// The event.
    pub(super) fn event(&self) -> String {
        let what = if self.leader { "PROMOTED" } else { "DEMOTED" };
        let token = self.token.map(|token| format!("TOKEN={token}\n")).unwrap_or_default();
        format!("{what}=1\n{token}{}", self.more)
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
    fn what_would_be_read_differently_is_refused() {
        for value in ["a\nb", "a b", "$(x)", "`x`", "'", "\"", "a;b", "a\0b", "~", "é"] {
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
