//! `manager status`: what a manager that runs tells of itself, for people.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use super::settings::Settings;
use crate::failure::{Failure, code};
use crate::print::{self, Sheet, Tone};

/// How long a manager may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn status(settings: &Settings, json: bool) -> Result<ExitCode, Failure> {
    let Some(address) = settings.listen else {
        return Err(Failure::usage("`listen` is off in this configuration, so there is nobody to ask"));
    };
    let said = ask(settings, &format!("http://{address}/v1/workers")).await.map_err(|said| {
        Failure::new(
            code::UNAVAILABLE,
            format!("the manager does not answer at {address}: {said}; is it running?"),
        )
    })?;
    if json {
        print::json(&said)?;
    } else {
        print::sheet(&sheet(&said))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(settings: &Settings, url: &str) -> Result<Value, String> {
    // It fails if it was done before.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let client =
        reqwest::Client::builder().timeout(PATIENCE).no_proxy().build().map_err(|e| e.to_string())?;
    let mut request = client.get(url);
    if let Some(path) = &settings.listen_key_file {
        let key =
            std::fs::read_to_string(path).map_err(|error| format!("its key cannot be read: {error}"))?;
        request = request.bearer_auth(key.trim_end());
    }
    let answer = request.send().await.map_err(|error| error.without_url().to_string())?;
    let status = answer.status();
    let body = answer.bytes().await.map_err(|error| error.without_url().to_string())?;
    if !status.is_success() {
        return Err(format!("it refuses ({status})"));
    }
    serde_json::from_slice(&body).map_err(|_| "something else answers there".to_owned())
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn sheet(said: &Value) -> Sheet {
    let mut sheet = Sheet::default();
    let word = |name: &str| text(&said[name]);
    let calm = said["mode"] == "active" && said["registered"] == true && said["control_plane"] == "answers";
    let tone = if calm { Tone::Good } else { Tone::Warn };
    sheet.line(
        2,
        [
            Tone::Strong.of(word("runner_id")),
            " is ".into(),
            tone.of(word("mode")),
            format!(
                ": {} cameras held, {} worked on, {} places; the control plane {}",
                word("cameras_held"),
                word("cameras_working"),
                word("capacity"),
                if said["control_plane"] == "answers" { "answers" } else { "is silent" },
            )
            .into(),
        ],
    );
    if let Some(refused) = said["configuration"]["refused"].as_str() {
        sheet.line(
            2,
            [Tone::Bad.of(format!("the configuration was refused: {refused}; the one before is in force"))],
        );
    }
    for one in said["quarantined"].as_array().into_iter().flatten() {
        let said = format!(
            "{} is in quarantine for {} s",
            text(&one["camera_uuid"]),
            text(&one["remaining_seconds"])
        );
        sheet.line(2, [Tone::Warn.of(said)]);
    }
    let workers = said["workers"].as_array().cloned().unwrap_or_default();
    let rows = workers.iter().map(|worker| {
        let cameras = worker["cameras"].as_array().map_or(0, Vec::len);
        let settled = if worker["settled"] == true { "yes" } else { "no" };
        vec![
            text(&worker["shard_id"]),
            text(&worker["state"]),
            text(&worker["pid"]),
            cameras.to_string(),
            settled.to_owned(),
            text(&worker["starts"]),
            text(&worker["crashes"]),
            text(&worker["status"]),
        ]
    });
    sheet.table(&["SHARD", "STATE", "PID", "CAMERAS", "SETTLED", "STARTS", "CRASHES", "SAYS"], rows);
    sheet
}
