//! The roles of an ensemble's servers, as a table or as JSON. Pure.

use serde_json::{Value, json};

use super::sample::{Sample, number_after_0x};
use super::view::align;

/// One server, or why it does not answer.
pub(crate) struct Role {
    pub(crate) address: String,
    pub(crate) state: Result<Sample, String>,
}

const HEAD: [&str; 7] = ["SERVER", "MODE", "ZXID", "EPOCH", "FOLLOWERS", "OBSERVERS", "VERSION"];

/// A line of titles, a line per server, and what it means as a whole.
pub(crate) fn table(roles: &[Role]) -> String {
    let mut lines: Vec<Vec<String>> = vec![HEAD.map(str::to_owned).to_vec()];
    for role in roles {
        lines.push(match &role.state {
            Err(reason) => vec![role.address.clone(), reason.clone()],
            Ok(sample) => vec![
                role.address.clone(),
                sample.mode.clone(),
                sample.zxid.clone(),
                epoch(sample).map_or("-".to_owned(), |epoch| epoch.to_string()),
                shown(sample.followers),
                shown(sample.observers),
                sample.version.clone(),
            ],
        });
    }
    let mut text = align(&lines, HEAD.len());
    for role in roles {
        let disk = role.state.as_ref().map(|sample| &sample.disk);
        if let Some(warning) = disk.ok().and_then(|disk| disk_warning(disk.state)) {
            text.push_str(&format!("{}: {warning}\n", role.address));
        }
    }
    if let Err(why) = verdict(roles) {
        text.push_str(&why);
        text.push('\n');
    }
    text
}

fn shown(count: Option<u64>) -> String {
    count.map_or("-".to_owned(), |count| count.to_string())
}

/// What the server says, or the epoch of its last transaction, which can be an earlier one.
fn epoch(sample: &Sample) -> Option<u64> {
    sample.epoch.or_else(|| number_after_0x(&sample.zxid).map(|zxid| zxid >> 32))
}

/// One object for all servers.
pub(crate) fn json(roles: &[Role], time: &str) -> Value {
    let newest = roles.iter().filter_map(|role| zxid(role.state.as_ref().ok()?)).max();
    let role = |role: &Role| match &role.state {
        Err(reason) => {
            json!({ "server": role.address, "healthy": false, "reasons": [reason], "error": reason })
        }
        Ok(sample) => json!({
            "server": role.address,
            "mode": sample.mode,
            "healthy": reason(sample).is_none(),
            "reasons": reason(sample).into_iter().collect::<Vec<_>>(),
            "warnings": warnings(sample),
            "zxid": sample.zxid,
            "zxid_lag": lag(sample, newest),
            "epoch": epoch(sample),
            "synced_followers": sample.followers,
            "synced_observers": sample.observers,
            "version": sample.version,
            "disk": {
                "fsync_ms_max": sample.disk.fsync_ms_max,
                "slow_fsyncs": sample.disk.slow_fsyncs,
                "snapshot_errors": sample.disk.snapshot_errors,
                "digest_mismatches": sample.disk.digest_mismatches,
                "state": sample.disk.state,
                "free_bytes": sample.disk.free_bytes,
                "growth_refused": sample.disk.growth_refused,
                "hand_overs": sample.disk.hand_overs,
            },
            "slow_servers": sample.disk.slow_servers,
        }),
    };
    let verdict = verdict(roles);
    json!({
        "time": time,
        "healthy": verdict.is_ok(),
        "reason": verdict.err(),
        "servers": roles.iter().map(role).collect::<Vec<_>>(),
    })
}

pub(crate) fn zxid(sample: &Sample) -> Option<u64> {
    number_after_0x(&sample.zxid)
}

/// Transactions behind the newest zxid of all servers; `None` if that one is of a later epoch.
pub(crate) fn lag(sample: &Sample, newest: Option<u64>) -> Option<u64> {
    let (own, newest) = (zxid(sample)?, newest?);
    (own >> 32 == newest >> 32).then(|| newest - own)
}

/// Why a server that answers does not serve all requests.
fn reason(sample: &Sample) -> Option<&'static str> {
    (sample.mode == "read-only").then_some("it has no leader and takes no writes")
}

/// What an operator must look at, although the server serves.
fn warnings(sample: &Sample) -> Vec<String> {
    let found = |count: Option<u64>, text: &str| {
        count.filter(|&count| count > 0).map(|count| format!("{count} {text}"))
    };
    let disk = &sample.disk;
    [
        found(disk.digest_mismatches, "digests differ from the tree"),
        found(disk.snapshot_errors, "snapshots could not be written"),
        found(disk.slow_fsyncs, "fsyncs of the log were slow"),
        found(disk.slow_servers, "followers are much slower than the others"),
        disk_warning(disk.state).map(str::to_owned),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What the state of a disk means.
fn disk_warning(state: Option<u64>) -> Option<&'static str> {
    match state {
        Some(2) => Some("the disk is full: make room"),
        Some(1) => Some("the disk has little room"),
        _ => None,
    }
}

/// All serve and take writes, and one of them leads unless there is one server only.
pub(crate) fn verdict(roles: &[Role]) -> Result<(), String> {
    let silent = roles.iter().filter(|role| role.state.is_err()).count();
    if silent > 0 {
        return Err(format!("{silent} of {} servers do not serve", roles.len()));
    }
    let with_mode = |mode: &str| {
        let has_mode = |role: &&Role| role.state.as_ref().is_ok_and(|sample| sample.mode == mode);
        roles.iter().filter(has_mode).count()
    };
    let alone = with_mode("read-only");
    if alone > 0 {
        return Err(format!("{alone} of {} servers have no leader and take no writes", roles.len()));
    }
    if roles.len() > 1 && with_mode("leader") != 1 {
        return Err(format!("{} servers say that they lead", with_mode("leader")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::*;

    fn role(address: &str, mode: &str, zxid: &str) -> Role {
        let followers = (mode == "leader").then_some(2);
        let state = Ok(Sample { mode: mode.to_owned(), zxid: zxid.to_owned(), followers, ..sample() });
        Role { address: address.to_owned(), state }
    }

    #[test]
    fn an_ensemble_is_shown_with_its_leader() {
        let roles = [role("a:1", "follower", "0x200000003"), role("b:1", "leader", "0x200000003")];
        let text = table(&roles);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("SERVER  MODE      ZXID         EPOCH  FOLLOWERS"), "{text}");
        assert!(lines[2].starts_with("b:1     leader    0x200000003  2      2"), "{text}");
        assert_eq!((lines.len(), verdict(&roles)), (3, Ok(())));
        assert_eq!(json(&roles, "now")["servers"][1]["epoch"], 2);
        assert_eq!(json(&roles, "now")["healthy"], true);
    }

    #[test]
    fn the_lag_is_counted_in_one_epoch() {
        let mut roles = [
            role("a:1", "follower", "0x200000003"),
            role("b:1", "leader", "0x20000000a"),
            role("c:1", "follower", "0x1000000ff"),
        ];
        if let Ok(sample) = &mut roles[0].state {
            sample.disk.snapshot_errors = Some(2);
            sample.disk.slow_fsyncs = Some(0);
        }
        if let Ok(sample) = &mut roles[2].state {
            sample.disk.state = Some(2);
        }
        assert!(table(&roles).contains("\nc:1: the disk is full: make room\n"), "{}", table(&roles));
        let value = json(&roles, "now");
        assert_eq!(value["servers"][2]["warnings"], json!(["the disk is full: make room"]));
        let lags: Vec<&Value> = (0..3).map(|index| &value["servers"][index]["zxid_lag"]).collect();
        assert_eq!(lags, [&json!(7), &json!(0), &Value::Null]);
        assert_eq!(value["servers"][0]["warnings"], json!(["2 snapshots could not be written"]));
        assert_eq!(value["servers"][0]["disk"]["snapshot_errors"], 2);
        assert_eq!(
            (&value["servers"][0]["healthy"], &value["servers"][1]["warnings"]),
            (&json!(true), &json!([]))
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let silent = Role { address: "c:1".to_owned(), state: Err("not serving: looking".to_owned()) };
        let roles = [role("a:1", "leader", "0x1"), silent];
        assert!(table(&roles).ends_with("c:1     not serving: looking\n1 of 2 servers do not serve\n"));
        let value = json(&roles, "now");
        assert_eq!(value["servers"][1]["reasons"], json!(["not serving: looking"]));
        let two = [role("a:1", "leader", "0x1"), role("b:1", "leader", "0x1")];
        assert_eq!(verdict(&two), Err("2 servers say that they lead".to_owned()));
        assert_eq!(verdict(&[role("a:1", "standalone", "0x1")]), Ok(()));
        let alone = "1 of 1 servers have no leader and take no writes";
        assert_eq!(verdict(&[role("a:1", "read-only", "0x1")]), Err(alone.to_owned()));
    }

    #[test]
    fn what_the_server_says_of_its_epoch_counts_more_than_its_last_transaction() {
        let said = Sample { epoch: Some(5), zxid: "0x400000009".to_owned(), ..sample() };
        assert_eq!((epoch(&said), epoch(&Sample { epoch: None, ..said.clone() })), (Some(5), Some(4)));
    }
}
