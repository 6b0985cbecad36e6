//! Ids: what is taken is what the rules name, and survives being written and read again.

#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use leasehold::lease::{ID_MAX, IdError};
use leasehold::{MemberId, MemberName, Pool, ResourceId};
use libfuzzer_sys::fuzz_target;

const PLAIN: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
const MORE: &str = ":@+=";

fn judge<Id>(text: &str, allowed: &[&str], json: fn(&str) -> Option<Id>)
where
    Id: FromStr<Err = IdError> + Display + Debug + PartialEq,
{
    let fits = !text.is_empty() && text.len() <= ID_MAX;
    let fits = fits && text.chars().all(|c| allowed.iter().any(|alphabet| alphabet.contains(c)));
    let quoted = serde_json::to_string(text).expect("text is always JSON");
    match text.parse::<Id>() {
        Ok(id) => {
            assert!(fits, "{text:?} was taken");
            assert_eq!(id.to_string(), text);
            assert_eq!(json(&quoted).as_ref(), Some(&id));
        }
        Err(error) => {
            assert!(!fits, "{text:?} was refused: {error}");
            assert_eq!(json(&quoted), None);
            assert!(!error.to_string().contains(char::is_control), "{error:?} disturbs a terminal");
        }
    }
}

fuzz_target!(|text: &str| {
    judge::<Pool>(text, &[PLAIN], |json| serde_json::from_str(json).ok());
    judge::<MemberName>(text, &[PLAIN], |json| serde_json::from_str(json).ok());
    judge::<MemberId>(text, &[PLAIN], |json| serde_json::from_str(json).ok());
    judge::<ResourceId>(text, &[PLAIN, MORE], |json| serde_json::from_str(json).ok());
});
