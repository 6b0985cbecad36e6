//! `check`: a child asks its supervisor whether its lease still stands.

use std::process::ExitCode;

use leasehold_manager::{Question, Reply, ask};

use crate::args::CheckArgs;
use crate::failure::{Failure, chain, code};
use crate::print;

pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let (Some(socket), Some(resource)) = (&args.socket, &args.resource) else {
        let missing = if args.socket.is_none() { "LEASEHOLD_SOCKET" } else { "LEASEHOLD_RESOURCE" };
        return Err(Failure::usage(format!(
            "this is no child of `leasehold run`: {missing} is not set; run it from such a child, or give --socket and --resource"
        )));
    };
    let question = Question { resource: resource.to_string(), token: args.token.map(|token| token.0) };
    // No answer is no trust: a frozen or dead supervisor keeps no lease.
    let reply = ask(socket, &question, args.timeout)
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
