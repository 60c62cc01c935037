//! `GET` and `POST /v1/reconfig`: what a change of the config would mean, and the change itself.
//! It is an ordinary reconfig request with the caller's identity.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use zebu_proto::client::ReconfigRequest;
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{Jute, OpCode, Reader, ServerId};
use zebu_server::config::membership::{Configuration, Role};
use zebu_server::views::{ConfigChangeView, ConfigPreviewError};

use super::call::ApiCall;
use super::problem::Problem;
use super::quorum_facts::{quorum_facts, synced_voters};
use super::values::{hex, stat};

/// The node that holds the config.
const CONFIG_NODE: &str = "/zookeeper/config";
/// The old and the new config with their quorums.
pub(crate) async fn preview_reconfig(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&["joining", "leaving", "members"])?;
    let given = |name: &str| call.arguments.value(name).filter(|value| !value.is_empty());
    let change =
        ConfigChangeView { joining: given("joining"), leaving: given("leaving"), members: given("members") };
    if change.members.is_some() && (change.joining.is_some() || change.leaving.is_some()) {
        return Err(Problem::bad_request(
            "members is the whole config; joining and leaving do not go with it",
        ));
    }
    let (current, next) = call.views.preview_config(change).map_err(preview_problem)?;
    let core = call.views.core().await.ok_or_else(Problem::not_serving)?;
    let own = call.views.server_id();
    // Only the leader knows which servers are synchronized. A synchronized observer sends no acks yet.
    let synced = synced_voters(&core, own, &current);
    let object = json!({
        "version": hex(current.version),
        "changes": current.members != next.members || current.groups != next.groups,
        "leader": core.leader.map(|id| id.0),
        "leaderStays": core.leader.map(|id| next.role_of(id) == Role::Participant && next.members.contains_key(&id)),
        "old": facts_with_lines(&current, synced.as_ref()),
        "new": facts_with_lines(&next, synced.as_ref()),
    });
    call.json(StatusCode::OK, &object)
}

fn facts_with_lines(config: &Configuration, synced: Option<&BTreeSet<ServerId>>) -> Value {
    let mut object = quorum_facts(config, synced);
    object.insert("servers".to_owned(), json!(config.sorted_lines()));
    object.into()
}

fn preview_problem(error: ConfigPreviewError) -> Problem {
    match error {
        ConfigPreviewError::Standalone => {
            Problem::new(StatusCode::NOT_IMPLEMENTED, "UNIMPLEMENTED", error.to_string())
        }
        ConfigPreviewError::Disabled => {
            Problem::new(StatusCode::NOT_IMPLEMENTED, "RECONFIGDISABLED", error.to_string())
        }
        ConfigPreviewError::Refused(refused) => Problem::bad_request(refused.to_string()),
    }
}

/// Changes the config. `from` is the version that the caller has read.
pub(crate) async fn post_reconfig(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let body = call.receive_body().await?;
    let value: Value = serde_json::from_slice(&body.bytes)
        .map_err(|error| Problem::bad_request(format!("the body is no JSON: {error}")))?;
    drop(body);
    let request = parse_request(&value)?;
    let mut encoded = Vec::new();
    request.encode(&mut encoded);
    let reply = call.send(OpCode::Reconfig, encoded).await?;
    call.check(&reply, CONFIG_NODE)?;
    let config = GetDataResponse::decode(&mut Reader::new(&reply.body)).ok();
    let text = config.as_ref().and_then(|config| config.data.as_deref()).map(String::from_utf8_lossy);
    let object = json!({
        "config": text,
        "version": text.as_deref().and_then(version_of),
        "stat": config.as_ref().map(|config| stat(&config.stat)),
    });
    call.json(StatusCode::OK, &object)
}

/// The version that the last line of a config names.
fn version_of(text: &str) -> Option<String> {
    text.lines()
        .rev()
        .find_map(|line| line.strip_prefix("version="))
        .map(|digits| format!("0x{}", digits.trim()))
}

fn parse_request(value: &Value) -> Result<ReconfigRequest, Problem> {
    let object = value.as_object().ok_or_else(|| Problem::bad_request("the body is an object"))?;
    if let Some(other) =
        object.keys().find(|key| !["joining", "leaving", "members", "from"].contains(&key.as_str()))
    {
        let detail =
            format!("the member {other:?} is not known; there are joining, leaving, members and from");
        return Err(Problem::bad_request(detail));
    }
    let text = |name: &str| match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(Problem::bad_request(format!("{name} is a text"))),
    };
    let (joining, leaving, members) = (text("joining")?, text("leaving")?, text("members")?);
    match (joining.is_some() || leaving.is_some(), members.is_some()) {
        (true, false) | (false, true) => {}
        (false, false) => return Err(Problem::bad_request("the body has joining, leaving or members")),
        (true, true) => {
            let detail = "members is the whole config; joining and leaving do not go with it";
            return Err(Problem::bad_request(detail));
        }
    }
    let from = text("from")?.and_then(|text| text.strip_prefix("0x"));
    let from = from.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let from = from.ok_or_else(|| {
        Problem::bad_request(
            "from is the version of the config that you have read: 0x and hexadecimal digits",
        )
    })?;
    Ok(ReconfigRequest {
        joining: joining.map(Into::into),
        leaving: leaving.map(Into::into),
        new_members: members.map(Into::into),
        current_config_id: from.cast_signed(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_its_change_and_the_version_read() {
        let parse = |value: Value| parse_request(&value);
        let request =
            parse(json!({ "joining": "server.4=a:1:2;3", "leaving": "2,3", "from": "0x100000000" }));
        let request = request.unwrap();
        assert_eq!((request.leaving.as_deref(), request.current_config_id), (Some("2,3"), 1 << 32));
        assert_eq!(request.new_members, None);
        for bad in [
            json!([]),
            json!({ "from": "0x1" }),
            json!({ "leaving": "3" }),
            json!({ "leaving": "3", "from": "1" }),
            json!({ "leaving": 3, "from": "0x1" }),
            json!({ "leaving": "3", "members": "x", "from": "0x1" }),
            json!({ "leaving": "3", "form": "0x1", "from": "0x1" }),
        ] {
            assert_eq!(parse(bad.clone()).unwrap_err().status, 400, "{bad}");
        }
        assert_eq!(version_of("server.1=a\nversion=10000000a").as_deref(), Some("0x10000000a"));
    }
}
