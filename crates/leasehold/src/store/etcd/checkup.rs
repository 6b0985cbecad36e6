//! How well this cluster, as it is set up, can keep its word.

use tonic::{Request, Response, Status};

use super::client::{Client, Peer};
use super::failure::Verdict;
use super::proto::cluster_client::ClusterClient;
use super::proto::maintenance_client::MaintenanceClient;
use super::proto::{
    AlarmRequest, AlarmResponse, AlarmType, MemberListRequest, MemberListResponse, StatusRequest,
    StatusResponse,
};
use crate::store::{Checkup, Finding, Grade, StoreError, StoreErrorKind};

/// The versions that no longer lose or mix up what they confirmed, by minor version.
const SOUND: [(u64, u64, u64); 3] = [(3, 4, 42), (3, 5, 28), (3, 6, 9)];
/// The oldest version whose API is enough.
const OLDEST: (u64, u64, u64) = (3, 4, 0);
/// What etcd's database may hold unless it is set up otherwise.
const QUOTA: i64 = 2 << 30;

/// What the server says about itself.
pub(super) async fn status_of(client: &Client, peer: &Peer) -> Result<StatusResponse, Verdict> {
    let ask = |channel, request: Request<StatusRequest>| async move {
        MaintenanceClient::new(channel).status(request).await
    };
    client.call_one(peer, StatusRequest {}, &ask).await
}

async fn members(client: &Client) -> Result<MemberListResponse, StoreError> {
    client
        .call(MemberListRequest {}, |channel, request| async move {
            ClusterClient::new(channel).member_list(request).await
        })
        .await
}

async fn alarms(client: &Client) -> Result<AlarmResponse, StoreError> {
    client
        .call(AlarmRequest::default(), |channel, request| async move {
            let answer: Result<Response<AlarmResponse>, Status> =
                MaintenanceClient::new(channel).alarm(request).await;
            answer
        })
        .await
}

/// Refuses a server that cannot be used at all.
pub(super) fn check_version(version: &str) -> Result<(), StoreError> {
    match parse(version) {
        Some(version) if version < OLDEST => Err(StoreError::misconfigured(format!(
            "this is etcd {}.{}.{}; Leasehold needs etcd 3.4 or newer",
            version.0, version.1, version.2
        ))),
        _ => Ok(()),
    }
}

/// The grade by how many members vote. Where that cannot be seen, it is taken to be one.
pub(super) async fn grade_of(client: &Client) -> Result<Grade, StoreError> {
    Ok(grade(voters_of(client).await?.unwrap_or(1)))
}

async fn voters_of(client: &Client) -> Result<Option<usize>, StoreError> {
    match members(client).await {
        Ok(list) => Ok(Some(list.members.iter().filter(|member| !member.is_learner).count())),
        Err(error) if error.kind() == StoreErrorKind::Misconfigured => Ok(None),
        Err(error) => Err(error),
    }
}

fn grade(voters: usize) -> Grade {
    if voters >= 3 { Grade::DurableAndLinearizable } else { Grade::DurableOnOneNode }
}

pub(super) async fn look_over(client: &Client) -> Result<Checkup, StoreError> {
    let mut findings = Vec::new();
    let (mut version, mut largest, mut answered) = (String::new(), (0, 0), 0);
    for peer in client.peers() {
        match status_of(client, peer).await {
            Ok(status) => {
                answered += 1;
                findings.push(of_version(&peer.host, &status.version));
                largest = largest.max((status.db_size, status.db_size_quota));
                version = status.version;
            }
            Err(Verdict::Elsewhere(error) | Verdict::LogIn(error) | Verdict::Final(error)) => {
                findings.push(Finding::weak(
                    format!("the endpoint {} does not answer: {error}", peer.host),
                    "bring it back, or take it out of the address",
                ));
            }
        }
    }
    if answered == 0 {
        return Err(StoreError::unavailable("no endpoint of the etcd cluster answers"));
    }
    let voters = voters_of(client).await?;
    findings.push(of_members(voters));
    findings.push(match alarms(client).await {
        Ok(alarms) => of_alarms(&alarms),
        Err(error) => Finding::weak(
            format!("alarms cannot be seen: {error}"),
            "let the user that doctor runs as read them, or look with etcdctl alarm list",
        ),
    });
    findings.push(of_size(largest.0, largest.1));
    Ok(Checkup { server: format!("etcd {version}"), grade: grade(voters.unwrap_or(1)), findings })
}

fn parse(version: &str) -> Option<(u64, u64, u64)> {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0)))
}

fn of_version(host: &str, version: &str) -> Finding {
    let found = parse(version);
    let sound = found.is_some_and(|found| {
        let same_minor = SOUND.iter().find(|sound| (sound.0, sound.1) == (found.0, found.1));
        same_minor.map_or(found > SOUND[SOUND.len() - 1], |sound| found >= *sound)
    });
    if sound {
        return Finding::good(format!("{host} runs etcd {version}"));
    }
    Finding::weak(
        format!("{host} runs etcd {version}, which has known faults in what it confirms"),
        "go to 3.4.42, 3.5.28, 3.6.9 or newer",
    )
}

fn of_members(voters: Option<usize>) -> Finding {
    let Some(voters) = voters else {
        return Finding::weak(
            "how many members the cluster has cannot be seen by this user",
            "let it list the members",
        );
    };
    match voters {
        0 | 1 => Finding::weak(
            "the cluster has one voting member: what it confirmed is as safe as its disk",
            "run three members",
        ),
        2 => Finding::weak(
            "the cluster has two voting members: it stops when either does",
            "run three members",
        ),
        _ => Finding::good(format!("{voters} voting members agree on every write")),
    }
}

fn of_alarms(alarms: &AlarmResponse) -> Finding {
    let has = |alarm: AlarmType| alarms.alarms.iter().any(|found| found.alarm == i32::from(alarm));
    if has(AlarmType::Corrupt) {
        return Finding::weak(
            "etcd has raised the alarm CORRUPT: its members do not agree on what they have",
            "replace the member that is wrong",
        );
    }
    if has(AlarmType::Nospace) {
        return Finding::weak(
            "etcd has raised the alarm NOSPACE: it refuses to write, so nothing can be held",
            "compact, defragment and disarm the alarm; set --auto-compaction-retention",
        );
    }
    Finding::good("no alarm is raised")
}

fn of_size(size: i64, quota: i64) -> Finding {
    let (quota, known) = if quota > 0 { (quota, true) } else { (QUOTA, false) };
    let of = if known { "of" } else { "of perhaps" };
    let said = format!("the database takes {} MiB {of} {} MiB", size >> 20, quota >> 20);
    if size > quota / 10 * 8 {
        let advice = "set --auto-compaction-retention, defragment, or raise --quota-backend-bytes";
        return Finding::weak(said, advice);
    }
    Finding::good(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_known_faults_are_named() {
        for (version, weak) in [
            ("3.4.23", true),
            ("3.4.42", false),
            ("3.5.27", true),
            ("3.5.30", false),
            ("3.6.9", false),
            ("3.7.0-rc.1", false),
            ("3.3.25", true),
            ("what?", true),
        ] {
            assert_eq!(of_version("h:1", version).weak, weak, "{version}");
        }
        assert!(check_version("3.3.25").is_err() && check_version("3.4.0").is_ok());
    }

    #[test]
    fn a_database_near_its_quota_is_named() {
        assert!(!of_size(100 << 20, 0).weak && of_size(1900 << 20, 0).weak);
        assert!(of_size(9 << 20, 10 << 20).weak && !of_size(1900 << 20, 8 << 30).weak);
    }
}
