//! `GET` and `PUT /v1/acl/…`: the ACL of a node. Its entity tag is `"<aversion>.<czxid>"`.

use axum::http::{StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use super::arguments::znode_path;
use super::call::ApiCall;
use super::entity_tag::{EntityTag, if_match};
use super::problem::Problem;
use super::read_routes::{freshen, object_of};
use super::values;
use super::write_routes::required_version;

pub(crate) async fn read_acl(call: ApiCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&["fresh"])?;
    freshen(&call, &path).await?;
    let read = call.views.read_acl(&path, &call.ids.credentials);
    let read = read.map_err(|code| call.problem(code, &path))?;
    let mut object = object_of(&path, &read.node);
    object.insert("acl".to_owned(), values::acl(&read.acl));
    object.insert("stat".to_owned(), values::stat(&read.node.stat));
    let mut response = call.json(StatusCode::OK, &object.into())?;
    response.headers_mut().insert(header::ETAG, EntityTag::of_acl(&read.node.stat).header());
    Ok(response)
}

pub(crate) async fn put_acl(call: ApiCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    call.arguments.allow_only(&[])?;
    let condition = if_match(&call.headers)?;
    let body = call.receive_body().await?;
    let value: Value = serde_json::from_slice(&body.bytes)
        .map_err(|error| Problem::bad_request(format!("the body is no JSON: {error}")))?;
    let acl = values::parse_acl(value.get("acl").unwrap_or(&Value::Null))?;
    let version = required_version(&call, &path, condition, EntityTag::of_acl).await?;
    let stat = call.set_acl(&path, acl, version).await?;
    let mut response = call.json(StatusCode::OK, &json!({ "path": path, "stat": values::stat(&stat) }))?;
    response.headers_mut().insert(header::ETAG, EntityTag::of_acl(&stat).header());
    Ok(response)
}
