//! `PUT`, `POST` and `DELETE /v1/tree/…`: creates, changes and deletes nodes.
//!
//! POST creates. PUT with `If-None-Match: *` creates, PUT with `If-Match` changes, PUT without a condition
//! changes the node or creates it.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use zebu_proto::client::CreateMode;
use zebu_proto::{Acl, Stat};

use super::arguments::znode_path;
use super::call::ApiCall;
use super::entity_tag::{Condition, EntityTag, if_match, if_none_match};
use super::problem::Problem;
use super::recursive_delete::delete_subtree;
use super::requests::{ANY_VERSION, NewNode};
use super::values;

/// Rounds of change and create, while other clients delete and create the node.
const UPSERT_ROUNDS: usize = 4;

/// The parameters of a create.
const CREATE_ARGUMENTS: [&str; 4] = ["mode", "ttl", "acl*", "base64"];

/// `PUT`.
pub(crate) async fn put_node(call: ApiCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    let expected = if_match(&call.headers)?;
    match (expected, if_none_match(&call.headers)?) {
        (Condition::None, Condition::Any) => create_node(call, path).await,
        (_, Condition::None) => {
            call.arguments.allow_only(&["base64"]).map_err(|problem| {
                let hint = "mode, ttl and acl need the header If-None-Match: *, which creates the node";
                problem.with("hint", json!(hint))
            })?;
            let data = receive_data(&call).await?;
            match expected {
                Condition::None => put_any(&call, &path, data).await,
                Condition::Any | Condition::Tag(_) => {
                    let version = required_version(&call, &path, expected, EntityTag::of_data).await?;
                    let stat = call.set_data(&path, Some(data.into()), version).await?;
                    written(&call, StatusCode::OK, &path, &stat)
                }
            }
        }
        _ => Err(Problem::bad_request("a PUT takes If-Match, or If-None-Match: *, or neither")),
    }
}

/// `POST`.
pub(crate) async fn post_node(call: ApiCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    create_node(call, path).await
}

/// `DELETE`.
pub(crate) async fn delete_node(call: ApiCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    if call.arguments.flag("recursive")? {
        return delete_subtree(&call, &path).await;
    }
    call.arguments.allow_only(&["recursive"])?;
    let expected = if_match(&call.headers)?;
    let version = required_version(&call, &path, expected, EntityTag::of_data).await?;
    call.delete(&path, version).await?;
    let mut response = call.answer(StatusCode::NO_CONTENT, "application/json", Vec::new().into())?;
    response.headers_mut().remove(header::CONTENT_TYPE);
    Ok(response)
}

async fn create_node(call: ApiCall, path: String) -> Result<Response, Problem> {
    call.arguments.allow_only(&CREATE_ARGUMENTS)?;
    let (mode, ttl_ms) = create_mode(call.arguments.value("mode"), call.arguments.value("ttl"))?;
    let acl = call.arguments.values("acl").map(values::parse_acl_entry).collect::<Result<Vec<Acl>, _>>()?;
    let acl = if acl.is_empty() { Acl::open() } else { acl };
    let data = receive_data(&call).await?;
    let node = NewNode { path, data: Some(data.into()), acl, mode, ttl_ms };
    let (path, stat) = call.create(node).await?;
    created(&call, &path, &stat)
}

/// Changes the node; creates it if it is missing.
async fn put_any(call: &ApiCall, path: &str, data: Vec<u8>) -> Result<Response, Problem> {
    let data: std::sync::Arc<[u8]> = data.into();
    for _ in 0..UPSERT_ROUNDS {
        match call.set_data(path, Some(data.clone()), ANY_VERSION).await {
            Ok(stat) => return written(call, StatusCode::OK, path, &stat),
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {}
            Err(problem) => return Err(problem),
        }
        let mode = CreateMode::Persistent;
        let data = Some(data.clone());
        let node = NewNode { path: path.to_owned(), data, acl: Acl::open(), mode, ttl_ms: None };
        match call.create(node).await {
            Ok((path, stat)) => return created(call, &path, &stat),
            Err(problem) if problem.has_code("NODEEXISTS") => {}
            Err(problem) => return Err(problem),
        }
    }
    Err(Problem::unavailable("OPERATIONTIMEOUT", "the node is created and deleted all the time; try again"))
}

/// The version that a write requires. The zxid of a tag is compared with the replica; if they differ, the
/// replica may be behind, so it catches up first.
pub(crate) async fn required_version(
    call: &ApiCall,
    path: &str,
    condition: Condition,
    tag_of: fn(&Stat) -> EntityTag,
) -> Result<i32, Problem> {
    let tag = match condition {
        Condition::None | Condition::Any => return Ok(ANY_VERSION),
        Condition::Tag(tag) => tag,
    };
    if tag.version < 0 {
        return Err(Problem::bad_request("the version of a tag is not negative"));
    }
    if tag.zxid.is_none() {
        return Ok(tag.version);
    }
    for is_fresh in [false, true] {
        // A caller that may write but not read has no tag; the leader checks the version.
        let Ok(now) = call.views.read_stat(path, &call.ids.credentials) else { break };
        if tag.matches(tag_of(&now.stat)) {
            break;
        }
        if is_fresh {
            let problem = call.problem(zebu_proto::ErrorCode::BadVersion, path);
            return Err(problem.with("stat", values::stat(&now.stat)));
        }
        call.sync(path).await?;
    }
    Ok(tag.version)
}

/// The mode and time to live of a new node.
pub fn create_mode(mode: Option<&str>, ttl: Option<&str>) -> Result<(CreateMode, Option<i64>), Problem> {
    let ttl_ms = ttl.map(values::parse_ttl).transpose()?;
    let mode = match (mode, ttl_ms) {
        (None | Some("persistent"), None) => CreateMode::Persistent,
        (Some("sequential"), None) => CreateMode::PersistentSequential,
        (Some("container"), None) => CreateMode::Container,
        (None | Some("persistent"), Some(_)) => CreateMode::PersistentWithTtl,
        (Some("sequential"), Some(_)) => CreateMode::PersistentSequentialWithTtl,
        (Some("container"), Some(_)) => return Err(Problem::bad_request("a container has no ttl")),
        (Some("ephemeral" | "ephemeral-sequential"), _) => {
            let detail = "an ephemeral node belongs to a session, and a caller of HTTP has none";
            return Err(Problem::bad_request(detail));
        }
        (Some(_), _) => return Err(Problem::bad_request("mode is persistent, sequential or container")),
    };
    Ok((mode, ttl_ms))
}

async fn receive_data(call: &ApiCall) -> Result<Vec<u8>, Problem> {
    let is_base64 = call.arguments.flag("base64")?;
    let body = call.receive_body().await?;
    if is_base64 { values::decode_base64(&body.bytes) } else { Ok(body.bytes) }
}

fn written(call: &ApiCall, status: StatusCode, path: &str, stat: &Stat) -> Result<Response, Problem> {
    let object: Value = json!({ "path": path, "stat": values::stat(stat) });
    let mut response = call.json(status, &object)?;
    response.headers_mut().insert(header::ETAG, EntityTag::of_data(stat).header());
    Ok(response)
}

fn created(call: &ApiCall, path: &str, stat: &Stat) -> Result<Response, Problem> {
    let mut response = written(call, StatusCode::CREATED, path, stat)?;
    if let Ok(value) = HeaderValue::from_str(&location(path)) {
        response.headers_mut().insert(header::LOCATION, value);
    }
    Ok(response)
}

/// The URL of a node, without scheme and host.
fn location(path: &str) -> String {
    let mut url = "/v1/tree".to_owned();
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => url.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => url.push(char::from(byte)),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_escaped() {
        assert_eq!(location("/a b/ä%"), "/v1/tree/a%20b/%C3%A4%25");
    }

    #[test]
    fn modes() {
        let mode = |mode, ttl| create_mode(mode, ttl).ok();
        assert_eq!(mode(None, None), Some((CreateMode::Persistent, None)));
        assert_eq!(mode(Some("sequential"), None), Some((CreateMode::PersistentSequential, None)));
        assert_eq!(mode(None, Some("1s")), Some((CreateMode::PersistentWithTtl, Some(1000))));
        assert_eq!(
            mode(Some("sequential"), Some("1s")),
            Some((CreateMode::PersistentSequentialWithTtl, Some(1000)))
        );
        assert_eq!(mode(Some("container"), None), Some((CreateMode::Container, None)));
        for (kind, ttl) in [("container", Some("1s")), ("ephemeral", None), ("other", None)] {
            assert_eq!(mode(Some(kind), ttl), None);
        }
    }
}
