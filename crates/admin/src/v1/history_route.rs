//! `GET /v1/history/…`: the versions of a node in the files of this server, in parts of bounded work.
//! Only for the super user, because files know no ACLs.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use zebu_proto::Zxid;
use zebu_server::views::{HistoryPart, LogPlace, NodeVersion, NodeVersionKind};

use super::arguments::znode_path;
use super::call::ApiCall;
use super::problem::Problem;
use super::values::{acl, base64_data, hex};

pub(crate) async fn read_history(call: ApiCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&["after"])?;
    call.require_super()?;
    let from = call.arguments.value("after").map(parse_place).transpose()?;
    // One part is read at a time, on a thread for blocking work.
    let _permit = call.state.history_reads.acquire().await.ok();
    let views = call.views.clone();
    let asked = path.clone();
    let read = tokio::task::spawn_blocking(move || views.node_history(&asked, from)).await;
    let part = match read {
        Ok(Ok(part)) => part,
        Ok(Err(error)) => return Err(unreadable(&error.to_string())),
        Err(error) => return Err(unreadable(&error.to_string())),
    };
    call.json(StatusCode::OK, &part_json(&path, &part))
}

fn unreadable(why: &str) -> Problem {
    let detail = format!("the files of the server cannot be read: {why}");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "SYSTEMERROR", detail)
}

fn part_json(path: &str, part: &HistoryPart) -> Value {
    let versions: Vec<Value> = part.versions.iter().map(version_json).collect();
    let gaps: Vec<Value> = part
        .gaps
        .iter()
        .map(|(after, until)| json!({ "after": hex(after.0), "until": hex(until.0) }))
        .collect();
    json!({
        "path": path,
        "versions": versions,
        "next": part.next.map(|place| format!("{:x}.{}", place.log.0, place.at)),
        "reached": part.reached.map(|(zxid, time_ms)| json!({ "zxid": hex(zxid.0), "timeMs": time_ms })),
        "logsLeft": part.logs_left,
        "readBytes": part.bytes,
        "gaps": gaps,
        "damaged": part.damaged,
    })
}

fn version_json(version: &NodeVersion) -> Value {
    let change = match version.change {
        NodeVersionKind::Created => "created",
        NodeVersionKind::DataSet => "data",
        NodeVersionKind::AclSet => "acl",
        NodeVersionKind::Deleted => "deleted",
        NodeVersionKind::InSnapshot => "snapshot",
    };
    let has_data = !matches!(version.change, NodeVersionKind::AclSet | NodeVersionKind::Deleted);
    json!({
        "change": change,
        "zxid": hex(version.zxid.0),
        "timeMs": version.time_ms,
        "session": version.session.map(|session| hex(session.0)),
        "version": version.version,
        "base64": if has_data { base64_data(version.data.as_deref()) } else { Value::Null },
        "acl": version.acl.as_deref().map(acl),
    })
}

/// The place that an earlier part named as `next`.
fn parse_place(text: &str) -> Result<LogPlace, Problem> {
    let place = text.split_once('.').and_then(|(log, at)| {
        let log = u64::from_str_radix(log, 16).ok()?;
        Some(LogPlace { log: Zxid(log.cast_signed()), at: at.parse().ok()? })
    });
    place.ok_or_else(|| Problem::bad_request("after is the text that an earlier answer had as next"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_texts() {
        assert_eq!(parse_place("1000000ff.17").unwrap(), LogPlace { log: Zxid(0x1_0000_00ff), at: 17 });
        for bad in ["", "1", "x.1", "1.x", "1.-1"] {
            assert_eq!(parse_place(bad).unwrap_err().status, 400, "{bad}");
        }
    }
}
