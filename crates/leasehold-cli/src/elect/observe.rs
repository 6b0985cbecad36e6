//! `elect --observe`: who leads, line by line, without taking part.

use std::process::ExitCode;

use leasehold::election::{Key, Leaders, Seat};
use leasehold::store::StoreUrl;
use serde::Serialize;

use crate::failure::Failure;
use crate::signals::Signals;
use crate::{inspect, print};

/// A change, as JSON.
#[derive(Serialize)]
struct Change<'a> {
    at: String,
    key: &'a str,
    /// `unknown`, `vacant` or `taken`.
    seat: &'static str,
    member: Option<String>,
    name: Option<String>,
    token: Option<u64>,
}

pub(super) async fn observe(
    url: &StoreUrl,
    key: &Key,
    json: bool,
    mut signals: Signals,
) -> Result<ExitCode, Failure> {
    let store = inspect::open_url(url).await?;
    let mut leaders = Leaders::of(store, key);
    loop {
        let seat = tokio::select! {
            seat = leaders.next() => seat,
            () = signals.next() => None,
        };
        let Some(seat) = seat else { return Ok(ExitCode::SUCCESS) };
        let at = jiff::Timestamp::now().to_string();
        if json {
            print::json_lines(std::iter::once(change(at, key, &seat)))?;
        } else {
            print::text(&format!("{at}  {}\n", said(key, &seat)))?;
        }
    }
}

fn said(key: &Key, seat: &Seat) -> String {
    match seat {
        Seat::Taken(leader) => format!("{key}: {} leads with token {}", leader.member, leader.token),
        Seat::Vacant => format!("{key}: nobody leads"),
        _ => format!("{key}: the store does not answer"),
    }
}

fn change<'a>(at: String, key: &'a Key, seat: &Seat) -> Change<'a> {
    let leader = seat.leader();
    let word = match seat {
        Seat::Taken(_) => "taken",
        Seat::Vacant => "vacant",
        _ => "unknown",
    };
    Change {
        at,
        key: key.as_str(),
        seat: word,
        member: leader.map(|leader| leader.member.to_string()),
        name: leader.and_then(|leader| leader.name.as_ref()).map(ToString::to_string),
        token: leader.map(|leader| leader.token.0),
    }
}
