//! What is read, what is refused, and that no secret is told.

use super::*;

const LEAST: &str = "control_plane_url = \"http://127.0.0.1:7400\"\napi_key = \"lh_hush\"\nrunner_id = \"a\"\n\
                     database_url = \"postgres://hush\"\ndeployment_group = \"g\"\ndeployment_version = \"v1\"\n";

fn read(text: &str) -> Result<Settings, String> {
    Settings::of(text, &|_| None)
}

fn refused(more: &str) -> String {
    read(&format!("{LEAST}{more}\n")).expect_err("it cannot be used")
}

// proves R183, R192, R193, R194, R195, R196, R197, R198, R199, R200, R201, R202, R203, C59, C60
#[test]
fn the_fields_of_the_document_are_enough_and_have_its_defaults() {
    let settings = read(LEAST).expect("settings");
    assert_eq!(settings.control_plane_url, "http://127.0.0.1:7400");
    assert_eq!(settings.api_key, Some(Secret("lh_hush".to_owned())));
    assert!(settings.manager_mode && settings.has_database_url);
    assert_eq!((settings.max_workers, settings.max_cameras_per_worker, settings.capacity()), (4, 16, 64));
    let seconds = |time: Duration| time.as_secs();
    assert_eq!(seconds(settings.lease_ttl), 60);
    assert_eq!(seconds(settings.heartbeat_interval), 30);
    assert_eq!(seconds(settings.lease_retry_interval), 10);
    assert_eq!(settings.worker_command, ["python", "-m", "somba_pipeline.worker"]);
    assert_eq!((settings.worker_http_port, settings.worker_metrics_port), (8080, 9108));
    assert_eq!(settings.outage_policy, OutagePolicy::Strict);
}

#[test]
fn without_supervision_there_is_one_workers_share() {
    let settings = read(&format!("{LEAST}manager_mode = false\nmax_workers = 9")).expect("settings");
    assert_eq!((settings.shards(), settings.capacity()), (1, 16));
}

// proves R208, R238
#[test]
fn the_environment_wins_and_fills_in() {
    let environment = |name: &str| match name {
        "LEASEHOLD_CONTROL_PLANE_URL" => Some("https://other:1".to_owned()),
        "LEASEHOLD_MAX_WORKERS" => Some("2".to_owned()),
        "LEASEHOLD_MANAGER_MODE" => Some("false".to_owned()),
        "LEASEHOLD_WORKER_COMMAND" => Some("sleep 5".to_owned()),
        "LEASEHOLD_DATABASE_URL" => Some("postgres://there".to_owned()),
        "KEY" => Some("hush-hush".to_owned()),
        _ => None,
    };
    let text = LEAST.replace("lh_hush", "lh_${KEY}_x");
    let settings = Settings::of(&text, &environment).expect("settings");
    assert_eq!(settings.control_plane_url, "https://other:1");
    assert_eq!(settings.api_key, Some(Secret("lh_hush-hush_x".to_owned())));
    assert_eq!((settings.max_workers, settings.manager_mode), (2, false));
    assert_eq!(settings.worker_command, ["sleep", "5"]);
    let unset = Settings::of(&text, &|_| None).expect_err("there is no such variable");
    assert_eq!(unset, "`api_key` needs the environment variable KEY, which is not set");
}

#[test]
fn a_secret_can_lie_in_a_file_and_is_never_shown() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "lh_from-file\n").expect("a key");
    let by_file = format!("api_key_file = {:?}", file.path());
    let settings = read(&LEAST.replace("api_key = \"lh_hush\"", &by_file)).expect("settings");
    assert_eq!(settings.api_key, Some(Secret("lh_from-file".to_owned())));
    assert!(!format!("{settings:?}").contains("lh_from-file"));
    assert!(refused(&by_file).contains("both `api_key` and `api_key_file`"));
    assert!(refused("events_url_file = \"/nowhere/at/all\"").contains("`events_url_file` cannot be read"));
}

#[test]
fn what_is_wrong_is_told_by_the_name_of_its_field() {
    for (more, said) in [
        ("max_workers = 0", "`max_workers` must be a whole number from 1 to 256"),
        ("max_workers = \"4\"", "`max_workers` must be a whole number from 1 to 256"),
        ("lease_ttl_seconds = -60", "`lease_ttl_seconds` must be a whole number from 3 to 3600"),
        ("lease_ttl_seconds = 6.5", "`lease_ttl_seconds` must be a whole number from 3 to 3600"),
        ("manager_mode = \"yes\"", "`manager_mode` must be true or false"),
        ("worker_command = \"sleep 5\"", "`worker_command` must be a list of texts"),
        ("worker_command = []", "`worker_command` is empty"),
        ("worker_command = [1]", "`worker_command` must be a list of texts"),
        ("worker_http_port = 70000", "`worker_http_port` must be a whole number from 0 to 65535"),
        ("worker_http_port = 65534", "there are not 4 ports from there on"),
        ("listen = \"here\"", "`listen` is no address"),
        ("site_id = 5", "`site_id` must be text"),
        ("site_id = \"${X\"", "`site_id` has a ${ without its }"),
        ("outage_policy = \"hope\"", "`outage_policy` must be one of strict, degraded"),
        ("outage_policy = \"degraded\"", "needs `events_url`"),
        ("worker_heartbeat_seconds = 60", "every worker is taken for hung"),
        ("max_worker = 4", "`max_worker` is no field of a manager; there are api_key, "),
    ] {
        let error = refused(more);
        assert!(error.contains(said), "{more}: {error}");
    }
    let grace = "outage_policy = \"degraded\"\nevents_url = \"amqp://b\"\noutage_grace_seconds = 60";
    assert!(refused(grace).contains("no longer than `lease_ttl_seconds`"));
}

#[test]
fn what_is_missing_doubled_or_no_toml_is_told_without_its_value() {
    let missing = read(&LEAST.replace("runner_id = \"a\"\n", "")).expect_err("it is needed");
    assert_eq!(missing, "`runner_id` is missing; write it, or set LEASEHOLD_RUNNER_ID");
    let doubled = refused("api_key = \"lh_second\"");
    assert!(doubled.starts_with("line 7 cannot be read (duplicate key"), "{doubled}");
    let broken = refused("events_url = \"amqp://u:hush@b");
    assert!(broken.starts_with("line 7 cannot be read"), "{broken}");
    for error in [doubled, broken, refused("api_key_file = [\"hush\"]")] {
        assert!(!error.contains("hush") && !error.contains("lh_second"), "{error}");
    }
    let nowhere = read(&LEAST.replace("http://127.0.0.1:7400", "plane:7400")).expect_err("no address");
    assert!(nowhere.contains("`control_plane_url` is no address"), "{nowhere}");
}

// proves R204, R205
#[test]
fn a_new_file_changes_what_can_be_changed_and_names_the_rest() {
    let old = read(LEAST).expect("settings");
    let new = LEAST.replace("lh_hush", "lh_new").replace("\"a\"", "\"b\"");
    let new = read(&format!("{new}lease_ttl_seconds = 30\nmax_workers = 8")).expect("settings");
    assert_eq!(old.fixed_changes(&new), ["runner_id", "max_workers"]);
    let now = old.reloaded(new);
    assert_eq!((now.runner_id.as_str(), now.max_workers), ("a", 4));
    assert_eq!((now.api_key, now.lease_ttl.as_secs()), (Some(Secret("lh_new".to_owned())), 30));
}
