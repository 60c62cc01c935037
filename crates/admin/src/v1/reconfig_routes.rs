//! `GET` and `POST /v1/reconfig`: what a change of the config would mean, and the change itself.
//! It is an ordinary reconfig request with the caller's identity.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use zebu_proto::client::ReconfigRequest;
use zebu_proto::client::reply::GetDataResponse;
use zebu_proto::{Jute, OpCode, Reader, ServerId};
use zebu_server::config::membership::Role;
use zebu_server::views::{ConfigChangeView, ConfigPreviewError};

use super::call::ApiCall;
use super::problem::Problem;
use super::values::{hex, stat};

/// The node that holds the config.
const CONFIG_NODE: &str = "/zookeeper/config";
/// Voters up to which the losses of a quorum with groups are counted.
const COUNTED_VOTERS_MAX: usize = 12;

/// A config as far as quorums need it.
struct QuorumFacts<'a> {
    voters: Vec<ServerId>,
    observers: Vec<ServerId>,
    has_groups: bool,
    is_quorum: &'a dyn Fn(&BTreeSet<ServerId>) -> bool,
    lines: Vec<String>,
}

impl QuorumFacts<'_> {
    /// The number of voters whose loss leaves a quorum, whichever they are.
    fn tolerated_losses(&self) -> Option<usize> {
        let count = self.voters.len();
        if !self.has_groups {
            return Some(count.saturating_sub(1) / 2);
        }
        if count > COUNTED_VOTERS_MAX {
            return None;
        }
        let survives = |lost: u32| {
            let left = self.voters.iter().enumerate().filter(|(index, _)| lost & (1 << index) == 0);
            (self.is_quorum)(&left.map(|(_, id)| *id).collect())
        };
        (0..count)
            .take_while(|losses| {
                (0..1_u32 << count).filter(|lost| lost.count_ones() as usize == *losses).all(survives)
            })
            .last()
    }

    fn json(&self, synced: Option<&BTreeSet<ServerId>>) -> Value {
        let ids = |list: &[ServerId]| list.iter().map(|id| id.0).collect::<Vec<i64>>();
        let count = self.voters.len();
        // Voters without which the synchronized servers are no quorum.
        let critical = synced.map(|synced| {
            let without = |id: &&ServerId| {
                let mut left = synced.clone();
                left.remove(id) && !(self.is_quorum)(&left)
            };
            self.voters.iter().filter(without).map(|id| id.0).collect::<Vec<i64>>()
        });
        json!({
            "voters": ids(&self.voters),
            "observers": ids(&self.observers),
            "groups": self.has_groups,
            "needed": (!self.has_groups).then_some(count / 2 + 1),
            "toleratedLosses": self.tolerated_losses(),
            "synchronized": synced.map(|synced| {
                self.voters.iter().filter(|id| synced.contains(id)).map(|id| id.0).collect::<Vec<i64>>()
            }),
            "hasQuorum": synced.map(|synced| (self.is_quorum)(synced)),
            "critical": critical,
            "servers": self.lines,
        })
    }
}

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
    let synced = (core.leader == own && own.is_some()).then(|| {
        let learners = core.learners.iter().filter(|learner| learner.synced).map(|learner| learner.server);
        let voting = learners.filter(|id| current.role_of(*id) == Role::Participant);
        voting.chain(own).collect::<BTreeSet<ServerId>>()
    });
    let (old_rule, new_rule) = (current.quorum(), next.quorum());
    let old = QuorumFacts {
        voters: current.voters().collect(),
        observers: current.observers().into_iter().collect(),
        has_groups: current.groups.is_some(),
        is_quorum: &|servers| old_rule.is_quorum(servers),
        lines: current.sorted_lines(),
    };
    let new = QuorumFacts {
        voters: next.voters().collect(),
        observers: next.observers().into_iter().collect(),
        has_groups: next.groups.is_some(),
        is_quorum: &|servers| new_rule.is_quorum(servers),
        lines: next.sorted_lines(),
    };
    let object = json!({
        "version": hex(current.version),
        "changes": current.members != next.members || current.groups != next.groups,
        "leader": core.leader.map(|id| id.0),
        "leaderStays": core.leader.map(|id| next.role_of(id) == Role::Participant && next.members.contains_key(&id)),
        "old": old.json(synced.as_ref()),
        "new": new.json(synced.as_ref()),
    });
    call.json(StatusCode::OK, &object)
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

    #[test]
    fn losses_are_counted() {
        let majority = |count: usize| {
            let voters: Vec<ServerId> = (1..=count as i64).map(ServerId).collect();
            let rule = move |servers: &BTreeSet<ServerId>| servers.len() > count / 2;
            let facts = |has_groups| QuorumFacts {
                voters: voters.clone(),
                observers: vec![],
                has_groups,
                is_quorum: &rule,
                lines: vec![],
            };
            // Both ways to count must agree.
            assert_eq!(facts(false).tolerated_losses(), facts(true).tolerated_losses(), "{count}");
            let synced: BTreeSet<ServerId> = voters.iter().take(count / 2 + 1).copied().collect();
            facts(false).json(Some(&synced))
        };
        assert_eq!(
            (1..=6).map(|count| majority(count)["toleratedLosses"].as_u64().unwrap()).collect::<Vec<_>>(),
            [0, 0, 1, 1, 2, 2]
        );
        let five = majority(5);
        assert_eq!(
            (&five["critical"], &five["hasQuorum"], &five["needed"]),
            (&json!([1, 2, 3]), &json!(true), &json!(3))
        );
    }
}
