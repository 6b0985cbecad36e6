//! Tokens: exactly the whole decimal numbers up to the bound are taken, and they survive being written and read again.

#![no_main]

use leasehold::Token;
use leasehold::lease::TOKEN_MAX;
use libfuzzer_sys::fuzz_target;

/// The number, worked out digit by digit.
fn number(text: &str) -> Option<u64> {
    let mut sum: u64 = 0;
    for c in text.chars() {
        sum = sum.checked_mul(10)?.checked_add(u64::from(c.to_digit(10)?))?;
    }
    (!text.is_empty() && sum <= TOKEN_MAX).then_some(sum)
}

fuzz_target!(|text: &str| {
    let parsed = text.parse::<Token>();
    assert_eq!(parsed.as_ref().ok().map(|token| token.0), number(text), "{text:?}");
    match parsed {
        Ok(token) => {
            assert_eq!(token.to_string().parse(), Ok(token));
            let json = serde_json::to_string(&token).expect("a token is a number");
            assert_eq!(json, token.to_string());
            assert_eq!(serde_json::from_str::<Token>(&json).ok(), Some(token));
        }
        Err(error) => {
            let said = error.to_string();
            assert!(!said.contains(char::is_control) && said.len() < 600, "{said:?}");
        }
    }
});
