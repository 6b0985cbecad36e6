//! `check`: a child asks its supervisor whether its lease still stands.

use std::process::ExitCode;

use leasehold_manager::{Question, Reply, ask};

use crate::args::CheckArgs;
use crate::failure::{Failure, chain, code};
use crate::print;

pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let question = Question { resource: args.resource.to_string(), token: args.token.map(|token| token.0) };
    // No answer is no trust: a frozen or dead supervisor keeps no lease.
    let reply = ask(&args.socket, &question, args.timeout)
        .unwrap_or_else(|error| Reply::refused(&question, None, chain(&error)));
    if args.json {
        print::json(&reply)?;
    } else {
        print::text(&sentence(&reply))?;
    }
    Ok(if reply.trusted { ExitCode::SUCCESS } else { ExitCode::from(code::NO) })
}

fn sentence(reply: &Reply) -> String {
    let resource = &reply.resource;
    match (reply.trusted, reply.token) {
        (true, Some(token)) => {
            let left = std::time::Duration::from_millis(reply.remaining_ms.unwrap_or(0));
            format!("{resource} is held under token {token} for another {left:?}\n")
        }
        _ => {
            format!("{resource} is not held: {}\n", reply.reason.as_deref().unwrap_or("no reason was given"))
        }
    }
}
