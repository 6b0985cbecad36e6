//! `keys`: the API keys of the control plane, directly in its database.

use std::io::Write;
use std::process::ExitCode;

use leasehold::Pool;
use leasehold::store::Begin;
use leasehold_server::keys::{self, KeyError, KeyInfo, NewKey, Secret};
use serde::Serialize;

use crate::args::{KeysArgs, KeysCommand};
use crate::failure::{Failure, code};
use crate::{print, serve};

/// A key that was just made, as JSON.
#[derive(Serialize)]
struct Made<'a> {
    key: &'a str,
    #[serde(flatten)]
    info: &'a KeyInfo,
}

pub(crate) async fn keys(args: KeysArgs) -> Result<ExitCode, Failure> {
    let store = serve::opened(&serve::database(args.plane.database)?, Begin::Frozen).await?;
    match args.command {
        KeysCommand::Create { role, pools, tenant, expires, name } => {
            let pools = pools.iter().map(Pool::to_string).collect();
            let pools = Some(pools).filter(|pools: &std::collections::BTreeSet<String>| !pools.is_empty());
            let new = NewKey { name, role, pools, tenant, lasts: expires };
            let (info, secret) = keys::create(&*store, &new).await?;
            shown(&info, &secret, args.plane.json)?;
        }
        KeysCommand::List => listed(&keys::list(&*store).await?, args.plane.json)?,
        KeysCommand::Revoke { id } => {
            keys::revoke(&*store, &id).await?;
            if args.plane.json {
                print::json(&serde_json::json!({ "id": id, "revoked": true }))?;
            } else {
                print::text(&format!("the key {id} is revoked: within a second it is good for nothing\n"))?;
            }
        }
        KeysCommand::Rotate { id, grace } => {
            let (info, secret) = keys::rotate(&*store, &id, grace).await?;
            shown(&info, &secret, args.plane.json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a key, which is the only time that it is seen. What is said about it goes to standard error, so that the output is
/// the key and nothing else.
fn shown(info: &KeyInfo, secret: &Secret, json: bool) -> Result<(), Failure> {
    if json {
        return print::json(&Made { key: secret.expose(), info });
    }
    let until = info.expires_at.as_ref().map(|at| format!(", until {at}")).unwrap_or_default();
    let before = info.previous_until.as_ref();
    let before = before.map(|at| format!("; the secret from before is taken until {at}")).unwrap_or_default();
    let said = format!("key {} with the role {}{until}; it is not shown again{before}", info.id, info.role);
    let _ = writeln!(std::io::stderr(), "{said}");
    print::as_it_is(&format!("{}\n", secret.expose()))
}

fn listed(found: &[KeyInfo], json: bool) -> Result<(), Failure> {
    if json {
        return print::json(&found);
    }
    let pools = |info: &KeyInfo| {
        info.pools.as_ref().map_or_else(
            || "all".to_owned(),
            |pools| pools.iter().map(String::as_str).collect::<Vec<_>>().join(","),
        )
    };
    let row = |info: &KeyInfo| {
        let or =
            |text: &Option<String>, otherwise: &str| text.clone().unwrap_or_else(|| otherwise.to_owned());
        vec![
            info.id.clone(),
            info.role.to_string(),
            or(&info.tenant, "-"),
            pools(info),
            info.created_at.clone(),
            or(&info.expires_at, "never"),
            info.name.clone(),
        ]
    };
    let rows = found.iter().map(row);
    let mut sheet = print::Sheet::default();
    sheet.table(&["KEY", "ROLE", "TENANT", "POOLS", "MADE", "EXPIRES", "NAME"], rows);
    print::sheet(&sheet)
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Store(error) => error.into(),
            KeyError::Unknown(_) => Self::new(code::NO, error.to_string()),
            error => Self::usage(error.to_string()),
        }
    }
}
