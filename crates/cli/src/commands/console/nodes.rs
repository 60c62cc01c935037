//! Nodes over the client protocol: reads, writes, ACLs and transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value, json};
use zebu_admin::parts::{
    Arguments, Condition, EntityTag, Problem, acl, base64_data, create_mode, decode_base64, hex, if_match,
    parse_acl, parse_acl_entry, parse_ops, stat, znode_path,
};
use zebu_client::{Acl, CreateMode, CreateSpec, ErrorCode, Stat, Version};
use zebu_proto::client::MultiOp;

use super::backend::{RemoteCall, json_answer, with_type};

/// The owner of a container, and the mark of a time to live in the owner.
const CONTAINER_OWNER: i64 = i64::MIN;
const TTL_MARK: i64 = 0xff;
const TTL_MASK: i64 = (1 << 40) - 1;

/// The kind of a node, which its owner tells, and the time to live of a TTL node.
fn lifetime(node: &Stat) -> (&'static str, Option<i64>) {
    let owner = node.ephemeral_owner;
    match owner {
        0 => ("persistent", None),
        CONTAINER_OWNER => ("container", None),
        // A session id begins with the id of its server, which is below 255.
        _ if (owner >> 56) & 0xff == TTL_MARK => ("ttl", Some(owner & TTL_MASK)),
        _ => ("ephemeral", None),
    }
}

pub(super) fn is_ephemeral(node: &Stat) -> bool {
    lifetime(node).0 == "ephemeral"
}

/// Adds stat and lifetime.
pub(super) fn add_node(object: &mut Map<String, Value>, node: &Stat) {
    object.insert("stat".to_owned(), stat(node));
    let (kind, ttl_ms) = lifetime(node);
    object.insert("lifetime".to_owned(), json!(kind));
    if let Some(ttl_ms) = ttl_ms {
        object.insert("ttlMs".to_owned(), json!(ttl_ms));
    }
}

fn object_of(path: &str) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("path".to_owned(), json!(path));
    object
}

pub(super) async fn read_node(call: RemoteCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&["stat", "base64"])?;
    let mut object = object_of(&path);
    if call.arguments.flag("stat")? {
        let found = call.client().exists(&path).await.map_err(|error| call.problem(&error))?;
        let found = found.ok_or_else(|| Problem::of_code(ErrorCode::NoNode, Some(&path), call.auth))?;
        add_node(&mut object, &found);
        return Ok(json_answer(StatusCode::OK, &object.into()));
    }
    let node = call.client().get(&path).await.map_err(|error| call.problem(&error))?;
    let mut response = if call.arguments.flag("base64")? {
        let data = (!node.is_null).then_some(node.data.as_ref());
        object.insert("base64".to_owned(), base64_data(data));
        add_node(&mut object, &node.stat);
        json_answer(StatusCode::OK, &object.into())
    } else {
        with_type(StatusCode::OK, "application/octet-stream", node.data.to_vec())
    };
    response.headers_mut().insert(header::ETAG, EntityTag::of_data(&node.stat).header());
    Ok(response)
}

/// The version that a write requires. The zxid of the tag tells the node from a later one of the same path.
async fn required_version(
    call: &RemoteCall,
    path: &str,
    tag_of: fn(&Stat) -> EntityTag,
) -> Result<Version, Problem> {
    let tag = match if_match(&call.headers)? {
        Condition::None | Condition::Any => return Ok(Version::Any),
        Condition::Tag(tag) => tag,
    };
    if tag.version < 0 {
        return Err(Problem::bad_request("the version of a tag is not negative"));
    }
    // The server may be behind the one that showed the tag.
    call.client().sync(path).await.map_err(|error| call.problem(&error))?;
    let now = call.client().exists(path).await.map_err(|error| call.problem(&error))?;
    match now {
        Some(now) if !tag.matches(tag_of(&now)) => {
            let problem = Problem::of_code(ErrorCode::BadVersion, Some(path), call.auth);
            Err(problem.with("stat", stat(&now)))
        }
        _ => Ok(Version::Exactly(tag.version)),
    }
}

fn data_of(call: &RemoteCall) -> Result<Vec<u8>, Problem> {
    if call.arguments.flag("base64")? { decode_base64(&call.body) } else { Ok(call.body.clone()) }
}

fn written(status: StatusCode, path: &str, node: &Stat) -> Response {
    let mut response = json_answer(status, &json!({ "path": path, "stat": stat(node) }));
    response.headers_mut().insert(header::ETAG, EntityTag::of_data(node).header());
    response
}

pub(super) async fn put_node(call: RemoteCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&["base64"])?;
    let data = data_of(&call)?;
    let version = required_version(&call, &path, EntityTag::of_data).await?;
    let node = call.client().set(&path, data).version(version).await.map_err(|error| call.problem(&error))?;
    Ok(written(StatusCode::OK, &path, &node))
}

fn acl_of(arguments: &Arguments) -> Result<Vec<Acl>, Problem> {
    let entries = arguments.values("acl").map(parse_acl_entry).collect::<Result<Vec<Acl>, _>>()?;
    Ok(if entries.is_empty() { Acl::open() } else { entries })
}

fn ttl_of(ttl_ms: Option<i64>) -> Option<Duration> {
    ttl_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis)
}

pub(super) async fn post_node(call: RemoteCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&["mode", "ttl", "acl*", "base64"])?;
    let (mode, ttl_ms) = create_mode(call.arguments.value("mode"), call.arguments.value("ttl"))?;
    let create = call.client().create(&path).data(data_of(&call)?).acl(acl_of(&call.arguments)?);
    let create = match ttl_of(ttl_ms) {
        Some(ttl) if mode == CreateMode::PersistentSequentialWithTtl => create.sequential().ttl(ttl),
        Some(ttl) => create.ttl(ttl),
        None => create.mode(mode),
    };
    let created = create.await.map_err(|error| call.problem(&error))?;
    Ok(written(StatusCode::CREATED, &created.path, &created.stat))
}

/// Deletes a node, or a subtree until it is gone.
pub(super) async fn delete_node(call: RemoteCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&["recursive", "max"])?;
    let deleted = Arc::new(AtomicU64::new(0));
    let delete = call.client().delete(&path);
    let outcome = if call.arguments.flag("recursive")? {
        let counted = deleted.clone();
        let progress = move |count| {
            counted.fetch_add(count, Ordering::Relaxed);
        };
        // The client counts the nodes below the node.
        let node = deleted.clone();
        let count_node = move |()| {
            node.fetch_add(1, Ordering::Relaxed);
        };
        delete.recursive().quiet().on_progress(progress).await.map(count_node)
    } else {
        let version = required_version(&call, &path, EntityTag::of_data).await?;
        delete.version(version).await.inspect(|()| deleted.store(1, Ordering::Relaxed))
    };
    let deleted = deleted.load(Ordering::Relaxed);
    outcome.map_err(|error| call.problem(&error).with("deleted", json!(deleted)))?;
    Ok(json_answer(StatusCode::OK, &json!({ "path": path, "deleted": deleted, "more": false })))
}

pub(super) async fn read_acl(call: RemoteCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&[])?;
    let read = call.client().get_acl(&path).await.map_err(|error| call.problem(&error))?;
    let mut object = object_of(&path);
    object.insert("acl".to_owned(), acl(&read.entries));
    object.insert("stat".to_owned(), stat(&read.stat));
    let mut response = json_answer(StatusCode::OK, &object.into());
    response.headers_mut().insert(header::ETAG, EntityTag::of_acl(&read.stat).header());
    Ok(response)
}

fn body_json(call: &RemoteCall) -> Result<Value, Problem> {
    serde_json::from_slice(&call.body)
        .map_err(|error| Problem::bad_request(format!("the body is no JSON: {error}")))
}

pub(super) async fn put_acl(call: RemoteCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&[])?;
    let entries = parse_acl(body_json(&call)?.get("acl").unwrap_or(&Value::Null))?;
    let version = required_version(&call, &path, EntityTag::of_acl).await?;
    let node =
        call.client().set_acl(&path, entries).version(version).await.map_err(|error| call.problem(&error))?;
    Ok(written(StatusCode::OK, &path, &node))
}

/// Several writes as one transaction.
pub(super) async fn run_multi(call: RemoteCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let ops = parse_ops(&body_json(&call)?)?;
    let version = |version: i32| if version < 0 { Version::Any } else { Version::Exactly(version) };
    let text = |path: Option<Box<str>>| path.map(String::from).unwrap_or_default();
    let mut transaction = call.client().transaction();
    for op in ops {
        match op {
            MultiOp::Check(check) => drop(transaction.check(&text(check.path), version(check.version))),
            MultiOp::Delete(delete) => drop(transaction.delete(&text(delete.path), version(delete.version))),
            MultiOp::SetData(set) => {
                let data = set.data.map(|data| data.to_vec()).unwrap_or_default();
                transaction.set(&text(set.path), data, version(set.version));
            }
            MultiOp::Create(create) => {
                let mode = CreateMode::from_flags(create.flags)
                    .ok_or_else(|| Problem::bad_request("the mode is not known"))?;
                let spec = CreateSpec::new().mode(mode);
                let spec = match create.data {
                    Some(data) => spec.data(data.to_vec()),
                    None => spec.null_data(),
                };
                let spec = match ttl_of(Some(create.ttl_ms).filter(|ms| *ms > 0)) {
                    Some(ttl) => spec.ttl(ttl),
                    None => spec,
                };
                let spec = spec.acl(create.acl.map(std::borrow::Cow::into_owned).unwrap_or_default());
                transaction.create(&text(create.path), spec);
            }
            MultiOp::Keeper(_) => {
                return Err(Problem::bad_request("the operations are check, create, set and delete"));
            }
        }
    }
    let count = transaction.len();
    transaction.await.map_err(|error| call.problem(&error))?;
    Ok(json_answer(StatusCode::OK, &json!({ "results": vec![json!({ "code": "OK" }); count] })))
}

/// The identities of the connection; servers before 3.7 do not tell them.
pub(super) async fn show_caller(call: RemoteCall) -> Result<Response, Problem> {
    call.arguments.allow_only(&[])?;
    let found = match call.client().who_am_i().await {
        Ok(found) => found,
        Err(error) if error.code() == Some(ErrorCode::Unimplemented) => Vec::new(),
        Err(error) => return Err(call.problem(&error)),
    };
    let is_super = found.iter().any(|id| id.scheme == "super");
    let ids: Vec<Value> = found.iter().map(|id| json!({ "scheme": id.scheme, "user": id.user })).collect();
    let session = hex(call.client().session().id.0);
    Ok(json_answer(StatusCode::OK, &json!({ "ids": ids, "isSuper": is_super, "session": session })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_tells_the_lifetime() {
        for (owner, kind, ttl) in [
            (0, "persistent", Value::Null),
            (i64::MIN, "container", Value::Null),
            (0x1000_06b1_6130_0000, "ephemeral", Value::Null),
            ((0xff_i64 << 56) | 60_000, "ttl", json!(60_000)),
        ] {
            let mut object = Map::new();
            add_node(&mut object, &Stat { ephemeral_owner: owner, ..Stat::default() });
            assert_eq!(object["lifetime"], kind, "{owner:#x}");
            assert_eq!(object.get("ttlMs").cloned().unwrap_or_default(), ttl);
        }
    }
}
