//! `POST /v1/multi`: several writes as one transaction.

use std::borrow::Cow;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use zebu_proto::client::{
    CheckRequest, DeleteRequest, MultiOp, MultiReply, SetDataRequest, decode_multi_replies,
};
use zebu_proto::{Acl, ErrorCode, Reader};

use super::arguments::check_path;
use super::call::ApiCall;
use super::problem::{Problem, code_name};
use super::request_connection::Reply;
use super::requests::{ANY_VERSION, NewNode};
use super::values;
use super::write_routes::create_mode;

/// Operations of one multi.
const OPS_MAX: usize = 10_000;

pub(crate) async fn run_multi(call: ApiCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let body = call.receive_body().await?;
    let value: Value = serde_json::from_slice(&body.bytes)
        .map_err(|error| Problem::bad_request(format!("the body is no JSON: {error}")))?;
    let ops = parse_ops(&value)?;
    drop((value, body));
    let reply = call.multi(&ops).await?;
    let failure = failure_of(&reply);
    let results = decode_multi_replies(&mut Reader::new(&reply.body)).unwrap_or_default();
    let shown: Vec<Value> = results.iter().zip(&ops).map(|(result, op)| result_of(result, op)).collect();
    match failure {
        None => call.json(StatusCode::OK, &json!({ "zxid": values::hex(reply.zxid), "results": shown })),
        Some(code) => {
            let failed = results.iter().position(is_cause);
            let path = failed.and_then(|index| ops.get(index)).and_then(path_of);
            let problem = Problem::of_code(code, path, call.ids.auth);
            Err(problem.with("failed", json!(failed)).with("results", json!(shown)))
        }
    }
}

/// The error of a multi; `None` if all its operations succeeded.
pub(crate) fn failure_of(reply: &Reply) -> Option<ErrorCode> {
    if reply.body.is_empty() {
        return reply.error;
    }
    let results = decode_multi_replies(&mut Reader::new(&reply.body)).unwrap_or_default();
    let code = results.iter().find(|result| is_cause(result)).and_then(|result| match result {
        MultiReply::Error(code) => ErrorCode::from_wire(*code),
        _ => None,
    });
    code.or(reply.error)
}

/// Whether this result made the multi fail. Operations before it show 0, those behind it an error of their
/// own.
fn is_cause(result: &MultiReply) -> bool {
    matches!(result, MultiReply::Error(code)
        if *code != 0 && *code != ErrorCode::RuntimeInconsistency.wire())
}

fn result_of(result: &MultiReply, op: &MultiOp) -> Value {
    let path = path_of(op);
    match result {
        MultiReply::Error(0) => json!({ "code": "OK" }),
        MultiReply::Error(code) => {
            let name = ErrorCode::from_wire(*code).map_or_else(|| code.to_string(), code_name);
            json!({ "code": name })
        }
        MultiReply::Create(path) => json!({ "created": path }),
        MultiReply::Create2(created) => {
            json!({ "created": created.path, "stat": values::stat(&created.stat) })
        }
        MultiReply::Delete => json!({ "deleted": path }),
        MultiReply::SetData(stat) => json!({ "set": path, "stat": values::stat(stat) }),
        MultiReply::Check => json!({ "checked": path }),
        // These belong to a multiRead.
        MultiReply::GetData(_) | MultiReply::GetChildren(_) => Value::Null,
    }
}

fn path_of(op: &MultiOp) -> Option<&str> {
    op.path().as_deref()
}

/// Reads the operations of a multi.
pub fn parse_ops(value: &Value) -> Result<Vec<MultiOp>, Problem> {
    let only_ops = value.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("ops"));
    let ops = only_ops.and_then(Value::as_array);
    let ops = ops.ok_or_else(|| Problem::bad_request("the body is an object with a list \"ops\""))?;
    if ops.len() > OPS_MAX {
        return Err(Problem::too_large(format!("a multi has at most {OPS_MAX} operations")));
    }
    let parse =
        |(index, op): (usize, &Value)| parse_op(op).map_err(|problem| problem.with("failed", json!(index)));
    ops.iter().enumerate().map(parse).collect()
}

fn parse_op(value: &Value) -> Result<MultiOp, Problem> {
    let refused = |detail: &str| Problem::bad_request(detail);
    let object = value.as_object().ok_or_else(|| refused("an operation is an object"))?;
    let kinds = ["create", "set", "delete", "check"];
    let mut named = kinds.into_iter().filter(|kind| object.contains_key(*kind));
    let (Some(kind), None) = (named.next(), named.next()) else {
        return Err(refused("an operation has one of create, set, delete and check, with its path"));
    };
    let path = object.get(kind).and_then(Value::as_str).ok_or_else(|| refused("the path is a text"))?;
    check_path(path)?;
    let allow_only =
        |names: &[&str]| match object.keys().find(|key| *key != kind && !names.contains(&key.as_str())) {
            Some(key) => Err(refused(&format!("{kind} has no member {key:?}"))),
            None => Ok(()),
        };
    let version = version_of(object)?;
    Ok(match kind {
        "create" => {
            allow_only(&["data", "base64", "mode", "ttl", "acl"])?;
            MultiOp::Create(parse_create(object, path)?.request())
        }
        "set" => {
            allow_only(&["data", "base64", "version"])?;
            let data = values::parse_data(object)?;
            MultiOp::SetData(SetDataRequest { path: Some(path.into()), data, version })
        }
        "delete" => {
            allow_only(&["version"])?;
            MultiOp::Delete(DeleteRequest { path: Some(path.into()), version })
        }
        _ => {
            allow_only(&["version"])?;
            MultiOp::Check(CheckRequest { path: Some(path.into()), version })
        }
    })
}

fn version_of(object: &Map<String, Value>) -> Result<i32, Problem> {
    match object.get("version") {
        None => Ok(ANY_VERSION),
        Some(value) => value
            .as_i64()
            .and_then(|version| i32::try_from(version).ok())
            .ok_or_else(|| Problem::bad_request("version is a number")),
    }
}

fn parse_create(object: &Map<String, Value>, path: &str) -> Result<NewNode, Problem> {
    let text = |name: &str| match object.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(Cow::Borrowed(text.as_str()))),
        Some(Value::Number(number)) if name == "ttl" => Ok(Some(Cow::Owned(number.to_string()))),
        Some(_) => Err(Problem::bad_request(format!("{name} is a text"))),
    };
    let (mode, ttl) = (text("mode")?, text("ttl")?);
    let (mode, ttl_ms) = create_mode(mode.as_deref(), ttl.as_deref())?;
    let acl = object.get("acl").map(values::parse_acl).transpose()?.unwrap_or_else(Acl::open);
    Ok(NewNode { path: path.to_owned(), data: values::parse_data(object)?, acl, mode, ttl_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_strictly() {
        let ops = parse_ops(&json!({"ops": [
            {"check": "/a", "version": 3},
            {"set": "/b", "data": "x"},
            {"create": "/c", "base64": "/w==", "mode": "sequential"},
            {"create": "/t", "ttl": "5s"},
            {"delete": "/d", "version": 0},
        ]}));
        let ops = ops.unwrap();
        assert!(matches!(&ops[0], MultiOp::Check(check) if check.version == 3));
        assert!(
            matches!(&ops[1], MultiOp::SetData(set) if set.version == -1 && set.data.as_deref() == Some(b"x"))
        );
        assert!(matches!(&ops[2], MultiOp::Create(create) if create.flags == 2));
        assert!(matches!(&ops[3], MultiOp::Create(create) if create.ttl_ms == 5000));
        assert!(matches!(&ops[4], MultiOp::Delete(delete) if delete.version == 0));
        for bad in [
            json!([]),
            json!({"ops": {}}),
            json!({"ops": [], "more": 1}),
            json!({"ops": [{}]}),
            json!({"ops": [{"check": "/a", "set": "/a"}]}),
            json!({"ops": [{"check": 1}]}),
            json!({"ops": [{"check": "a"}]}),
            json!({"ops": [{"check": "/a", "versoin": 3}]}),
            json!({"ops": [{"check": "/a", "version": 3_000_000_000_i64}]}),
            json!({"ops": [{"create": "/a", "mode": "ephemeral"}]}),
            json!({"ops": [{"create": "/a", "acl": "world:anyone:r"}]}),
        ] {
            assert_eq!(parse_ops(&bad).unwrap_err().status, 400, "{bad}");
        }
    }
}
