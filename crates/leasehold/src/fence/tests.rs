//! The table of the fence, one test a row.

use super::*;

const LIFETIME: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(30);

fn resource(id: &str) -> ResourceId {
    ResourceId::new(id).unwrap()
}

fn newest(id: &str, token: u64) -> Newest {
    Newest { resource: resource(id), token: Token(token), ttl: Some(TTL) }
}

fn at(seconds: u64) -> Moment {
    Moment(seconds * 1_000_000_000)
}

/// A fence to which the authority said at second 100 that token 5 is the newest.
fn fence() -> Fence {
    let fence = Fence::new(Rules { lifetime: Some(LIFETIME), allow_unversioned: false });
    assert!(fence.learn(&[newest("one", 5)], at(100)).is_empty());
    fence
}

fn judged(fence: &Fence, token: u64, now: Moment) -> Judgement {
    fence.judge(&resource("one"), Offered::Token(Token(token)), now)
}

const ADMITTED: Judgement = Judgement::Now(Admission::Admitted);

fn refused(refusal: Refusal) -> Judgement {
    Judgement::Now(Admission::Refused(refusal))
}

// proves R042, C09: `<` reject
#[test]
fn a_lower_token_is_refused_whatever_else_is_known() {
    let fence = fence();
    let stale = refused(Refusal::Stale { newest: Token(5) });
    assert_eq!(judged(&fence, 4, at(101)), stale);
    assert_eq!(judged(&fence, 4, at(1000)), stale, "even if what is known is old: tokens never fall");
    assert_eq!(fence.counts().stale, 2);
}

// proves R042, C09: `=` accept
#[test]
fn an_equal_token_passes_while_what_is_known_counts() {
    let fence = fence();
    assert_eq!(judged(&fence, 5, at(104)), ADMITTED);
    assert_eq!(fence.counts().passed, 1);
}

// proves R043, C09: `>` refresh first, accept if confirmed
#[test]
fn a_higher_token_is_asked_for_and_passes_if_confirmed() {
    let fence = fence();
    assert_eq!(judged(&fence, 6, at(101)), Judgement::Ask);
    assert_eq!(fence.counts(), Counts::default(), "a question is no verdict");
    assert_eq!(judged(&fence, 5, at(101)), ADMITTED, "what was not confirmed shuts nobody out");
    assert!(fence.learn(&[newest("one", 6)], at(102)).is_empty());
    assert!(fence.settle(&resource("one"), Offered::Token(Token(6)), at(102)).is_admitted());
    assert_eq!(judged(&fence, 5, at(102)), refused(Refusal::Stale { newest: Token(6) }));
}

// proves C09: reject `future_token` otherwise
#[test]
fn a_higher_token_that_is_not_confirmed_is_refused() {
    let fence = fence();
    assert!(fence.learn(&[], at(102)).is_empty());
    let said = fence.settle(&resource("one"), Offered::Token(Token(6)), at(102));
    assert_eq!(said, Admission::Refused(Refusal::Future { newest: Token(5) }));
    let said = fence.settle(&resource("two"), Offered::Token(Token(1)), at(102));
    assert_eq!(said, Admission::Refused(Refusal::Future { newest: Token(0) }), "nobody was granted it");
    assert_eq!(fence.counts().future_token, 2);
}

// proves R044: the cached version counts while its lifetime lasts, then nothing passes
#[test]
fn without_an_answer_what_is_known_counts_until_its_lifetime_ends() {
    let fence = fence();
    let settle = |token, now| fence.settle(&resource("one"), Offered::Token(Token(token)), now);
    assert!(settle(5, at(104)).is_admitted());
    assert_eq!(judged(&fence, 5, at(105)), Judgement::Ask);
    assert_eq!(settle(5, at(105)), Admission::Refused(Refusal::Unconfirmed));
    assert_eq!(settle(6, at(105)), Admission::Refused(Refusal::Unconfirmed));
    assert_eq!(settle(4, at(105)), Admission::Refused(Refusal::Stale { newest: Token(5) }));
    assert_eq!(fence.counts().unconfirmed, 2);
    assert!(fence.learn(&[], at(111)).is_empty());
    assert!(settle(5, at(112)).is_admitted(), "it goes on when the authority is back");
}

// proves C09: the cache lives less long than the lease
#[test]
fn what_is_known_never_counts_for_as_long_as_the_ttl() {
    let fence = Fence::new(Rules { lifetime: Some(Duration::from_secs(3600)), allow_unversioned: false });
    assert!(fence.learn(&[newest("one", 5)], at(100)).is_empty());
    assert_eq!(judged(&fence, 5, at(105)), ADMITTED);
    assert_eq!(judged(&fence, 5, at(106)), Judgement::Ask, "a fifth of 30 seconds");
    assert_eq!(fence.lifetime(), Some(Duration::from_secs(6)));
}

// proves C09: missing or malformed tokens are refused, unless a migration allows them
#[test]
fn what_carries_no_token_is_refused_unless_a_migration_allows_it() {
    let fence = fence();
    let one = resource("one");
    assert_eq!(fence.judge(&one, Offered::Missing, at(101)), refused(Refusal::Unversioned));
    assert_eq!(fence.judge(&one, Offered::Malformed, at(101)), refused(Refusal::Malformed));
    assert_eq!(fence.judge(&one, Offered::Token(Token(0)), at(101)), refused(Refusal::Malformed));
    let counts = fence.counts();
    assert_eq!((counts.unversioned, counts.malformed, counts.passed), (1, 2, 0));
    assert_eq!(counts.refused().iter().map(|(_, count)| count).sum::<u64>(), 3);

    let lenient = Fence::new(Rules { lifetime: Some(LIFETIME), allow_unversioned: true });
    assert!(lenient.learn(&[newest("one", 5)], at(100)).is_empty());
    assert_eq!(lenient.judge(&one, Offered::Missing, at(101)), ADMITTED);
    assert_eq!(lenient.judge(&one, Offered::Malformed, at(101)), ADMITTED);
    assert_eq!(judged(&lenient, 4, at(101)), refused(Refusal::Stale { newest: Token(5) }), "tokens count");
    assert_eq!((lenient.counts().passed, lenient.counts().passed_unversioned), (2, 2));
}

#[test]
fn an_authority_that_forgot_a_token_is_told_and_believed_no_less() {
    let fence = fence();
    assert_eq!(fence.learn(&[newest("one", 3)], at(101)), [(resource("one"), Token(5))]);
    assert_eq!(judged(&fence, 3, at(101)), refused(Refusal::Stale { newest: Token(5) }));
    assert_eq!(judged(&fence, 5, at(101)), ADMITTED);
    assert_eq!(fence.newest(&resource("one")), Some(Token(5)));
}

#[test]
fn an_authority_that_says_the_same_again_has_forgotten_nothing() {
    let fence = fence();
    assert_eq!(judged(&fence, 5, at(101)), ADMITTED);
    assert!(fence.learn(&[newest("one", 5)], at(102)).is_empty());
}

#[test]
fn without_an_authority_an_older_token_is_refused_and_leaves_the_fence_as_it_was() {
    let (fence, one, two) = (Fence::default(), resource("one"), resource("two"));
    let stale = Admission::Refused(Refusal::Stale { newest: Token(5) });
    for (token, said) in [(4, Admission::Admitted), (5, Admission::Admitted), (4, stale), (4, stale)] {
        assert_eq!(fence.admit(&one, Token(token)), said, "{token}");
    }
    assert_eq!(fence.admit(&one, Token(5)), Admission::Admitted, "the same term goes on");
    assert_eq!(fence.admit(&two, Token(1)), Admission::Admitted, "each resource for itself");
}

#[test]
fn the_number_of_resources_has_a_limit() {
    let fence = Fence::default();
    for number in 0..MARKS_MAX {
        assert!(fence.admit(&resource(&format!("r{number}")), Token(1)).is_admitted());
    }
    assert_eq!(fence.admit(&resource("more"), Token(1)), Admission::Refused(Refusal::Crowded));
    assert!(fence.admit(&resource("r7"), Token(2)).is_admitted());
    assert_eq!(fence.counts().crowded, 1);
}

#[test]
fn a_fence_that_is_full_still_learns_of_what_it_knows_and_of_nothing_else() {
    let fence = Fence::new(Rules { lifetime: Some(LIFETIME), allow_unversioned: false });
    let all: Vec<Newest> = (0..MARKS_MAX).map(|number| newest(&format!("r{number}"), 1)).collect();
    assert!(fence.learn(&all, at(100)).is_empty());
    assert!(fence.learn(&[newest("more", 1), newest("r7", 2)], at(101)).is_empty());
    assert_eq!(fence.newest(&resource("more")), None);
    let said = fence.judge(&resource("r7"), Offered::Token(Token(1)), at(101));
    assert_eq!(said, refused(Refusal::Stale { newest: Token(2) }), "it was granted again");
}

#[test]
fn every_refusal_says_why_in_a_word_and_in_a_sentence() {
    let newest = Token(5);
    for (refusal, word, sentence) in [
        (Refusal::Stale { newest }, "stale", "a newer term was granted, under token 5"),
        (Refusal::Future { newest }, "future_token", "no such term was granted; the newest has token 5"),
        (Refusal::Unversioned, "unversioned", "it carries no token"),
        (Refusal::Malformed, "malformed", "what it carries is no token"),
        (Refusal::Unconfirmed, "unconfirmed", "nobody can say at the moment whether its term is the newest"),
        (Refusal::Crowded, "crowded", "there are too many resources to remember one more"),
    ] {
        assert_eq!((refusal.reason(), refusal.to_string().as_str()), (word, sentence));
    }
}
